"""Texts: how they are cut into words, and the convolution over their vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engram.settings.checks import check_choice, check_whole


@dataclass(frozen=True)
class TextSettings:
    """Texts alone: how they are cut and read, and the paper's convolution over their words' vectors."""

    tokens: Literal["auto", "characters", "words", "jieba"] = "auto"
    """what a vector stands for: characters, lower-cased words, or Chinese words by jieba (auto: by the first task)"""
    length: int = 80
    """words or characters that are read of a text; the rest is cut off"""
    vocabulary: int = 400_000
    """words that are read of a file of vectors at most, from its beginning"""
    buckets: int = 1 << 15
    """random vectors that words without one share, by their hash"""
    dimension: int = 100
    """of the random vectors where there is no file of vectors"""
    filters: int = 0
    """of the convolution (0: 1,024 on THUCNews as in the paper, and 200 elsewhere)"""
    window: int = 3
    """words or characters that a filter sees"""

    def __post_init__(self) -> None:
        check_choice(self, "tokens", "auto", "characters", "words", "jieba")
        check_whole(self, 0, "filters")
        check_whole(self, 1, "length", "vocabulary", "buckets", "dimension", "window")
