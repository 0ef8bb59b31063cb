"""From texts to rows of a table of vectors: what a learner of texts knows of words, fixed by its first task.

Number 0 is padding and has a vector of zeros. Then come the words of a file of vectors, if there is one, and then
buckets: random vectors, always the same, for all other words, by a hash of the word. So no vocabulary grows, and
nothing is remembered of the texts.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from engram.data.places import vectors_folder
from engram.errors import DataError
from engram.lesson import State
from engram.randomness import generator
from engram.settings import TextSettings
from engram.text.tokens import likely_kind, splitter
from engram.text.vectors import best_of, read_vectors

LOOKED_AT = 10_000
"""texts of the first task by which tokens and vectors are chosen"""
LOG = logging.getLogger("engram")


class TextEncoder:
    """`vectors` has a row for each number that `encode` gives. Copies are the same object: nothing in it changes."""

    def __init__(
        self, settings: TextSettings, words: Sequence[str], known: Tensor, source: str, device: torch.device
    ) -> None:
        assert settings.tokens != "auto"
        self.settings = settings
        self.words = list(words)
        self.known = known.cpu()
        self.source = source
        """name of the file of vectors; empty where there is none"""
        self.numbers: dict[str, int] = {}
        for row, word in enumerate(self.words):
            self.numbers.setdefault(word, row + 1)
        for row, word in enumerate(self.words):  # texts are lower-cased
            self.numbers.setdefault(word.lower(), row + 1)
        self.split = splitter(settings.tokens)
        self.device = device

    @cached_property
    def vectors(self) -> Tensor:
        """Padding, words and buckets; with entries of about unit variance."""
        width = self.known.shape[1]
        strange = torch.randn(self.settings.buckets, width, generator=generator(0, "words without a vector"))
        return torch.cat([torch.zeros(1, width), self.known, strange]).to(self.device)

    @classmethod
    def fit(cls, texts: np.ndarray, place: str | None, settings: TextSettings, device: torch.device) -> Self:
        """For texts like these; `place` is a file of vectors, or a folder with several (None: that of the data)."""
        sample = texts[:LOOKED_AT].tolist()
        if settings.tokens == "auto":
            settings = replace(settings, tokens=likely_kind(sample))
        assert settings.tokens != "auto"
        split = splitter(settings.tokens)
        path = _find(place, {word for text in sample for word in split(text)})
        if path is None:
            LOG.warning(
                "No file of word vectors is used: words have random ones, so that none is like another; see embeddings."
            )
            return cls(settings, [], torch.zeros(0, settings.dimension), "", device)
        words, rows = read_vectors(path, settings.vocabulary)
        centred = rows - rows.mean(0)
        known = torch.from_numpy(centred / max(float(np.sqrt(np.square(centred).mean())), 1e-12))
        return cls(settings, words, known, path.name, device)

    def encode(self, texts: np.ndarray) -> np.ndarray:
        """A row of numbers for each text, padded with 0 to the settings' length."""
        length = self.settings.length
        rows = np.zeros((len(texts), length), np.int32)
        numbers, strange = self.numbers, dict[str, int]()
        for row, text in zip(rows, texts, strict=True):
            words = self.split(text)[:length]
            for place, word in enumerate(words):
                number = numbers.get(word) or strange.get(word)
                if number is None:
                    number = strange[word] = self._bucket(word)
                row[place] = number
        return rows

    def decode(self, rows: np.ndarray) -> list[str]:
        """Texts that a person can read; a bucket stands for nobody knows which word."""
        between = "" if self.settings.tokens != "words" else " "
        known = len(self.words)
        spelled = ((self.words[n - 1] if n <= known else f"#{n - known}" for n in row if n) for row in rows.tolist())
        return [between.join(words) for words in spelled]

    def describe(self) -> dict[str, Any]:
        """For the result: which words there are."""
        found = hashlib.sha256(self.known.numpy().tobytes()).hexdigest()[:16] if self.words else ""
        return {
            "tokens": self.settings.tokens,
            "vectors": self.source or "random",
            "words": len(self.words),
            "dimension": self.known.shape[1],
            "checksum": found,
        }

    def state(self) -> State:
        spelled = torch.from_numpy(np.frombuffer("\n".join(self.words).encode(), np.uint8).copy())
        tensors = {"words": spelled, "known": self.known}
        return State(tensors, {"tokens": self.settings.tokens, "source": self.source})

    @classmethod
    def from_state(cls, state: State, settings: TextSettings, device: torch.device) -> Self:
        words = state.tensors["words"].cpu().numpy().tobytes().decode().split("\n")
        known = state.tensors["known"]
        settings = replace(settings, tokens=state.meta["tokens"])
        return cls(settings, words if len(known) else [], known, state.meta["source"], device)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def _bucket(self, word: str) -> int:
        digest = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return 1 + len(self.words) + int.from_bytes(digest, "little") % self.settings.buckets


def _find(place: str | None, words: set[str]) -> Path | None:
    """The file of vectors to use; one that is named must be there."""
    folder = vectors_folder() if place is None else Path(place).expanduser()
    if folder.is_dir() or place is None:
        return best_of(folder, words)
    if not folder.is_file():
        raise DataError(f"{folder}, the file of word vectors, does not exist: name another")
    return folder
