"""Texts cut into words or characters."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from typing import Literal

from engram.errors import InputError

Kind = Literal["characters", "words", "jieba"]
WORD = re.compile(r"\w+")
HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]")
LETTER = re.compile(r"[^\W\d_]")


def likely_kind(texts: Iterable[str]) -> Kind:
    """Characters where most letters are Chinese, words elsewhere."""
    han = letters = 0
    for text in texts:
        han += len(HAN.findall(text))
        letters += len(LETTER.findall(text))
    return "characters" if 2 * han > letters else "words"


def splitter(kind: Kind) -> Callable[[str], list[str]]:
    """A function from a text to its words, lower-cased, or to its characters."""
    if kind == "jieba":
        _check_jieba()
    return {"words": _words, "characters": _characters, "jieba": _jieba_words}[kind]


def _words(text: str) -> list[str]:
    return WORD.findall(text.lower())


def _characters(text: str) -> list[str]:
    return [character for character in text if not character.isspace()]


def _jieba_words(text: str) -> list[str]:
    import jieba

    return [word for word in jieba.lcut(text.lower()) if WORD.match(word)]


def _check_jieba() -> None:
    try:
        import jieba
    except ImportError:
        raise InputError(
            "Cutting Chinese into words needs jieba: install it with 'pip install engram[jieba]', "
            "or use tokens='characters'."
        ) from None
    jieba.setLogLevel(logging.WARNING)
