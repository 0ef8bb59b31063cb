"""Texts cut into words or characters."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Literal

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
        _jieba()
    return {"words": _words, "characters": _characters, "jieba": _jieba_words}[kind]


def _words(text: str) -> list[str]:
    return WORD.findall(text.lower())


def _characters(text: str) -> list[str]:
    return [character for character in text if not character.isspace()]


def _jieba_words(text: str) -> list[str]:
    return [word for word in _jieba().lcut(text.lower()) if WORD.match(word)]


@cache
def _jieba() -> Any:
    """Its cutter, whose dictionary is read from its own text: its cache in the temporary folder might run code."""
    try:
        import jieba  # pyright: ignore[reportMissingImports] (an extra)
    except ImportError:
        raise InputError(
            "Cutting Chinese into words needs jieba: install it with 'pip install engram[jieba]', "
            "or use tokens='characters'."
        ) from None
    cutter = jieba.Tokenizer()
    cutter.FREQ, cutter.total = cutter.gen_pfdict(cutter.get_dict_file())
    cutter.initialized = True
    return cutter
