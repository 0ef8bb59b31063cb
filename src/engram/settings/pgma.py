"""Parameter generation and model adaptation."""

from __future__ import annotations

from dataclasses import dataclass

from engram.settings.checks import check_number, check_whole


@dataclass(frozen=True)
class PGMASettings:
    """A classifier part of whose weights are made for each input, and an auto-encoder that remembers old features."""

    latent: int = 32
    """numbers that the auto-encoder describes an input by, from which the input's weights are made"""
    hidden: int = 1000
    """width of the classifier's shared hidden layer"""
    rank: int = 32
    """the generated weights are a square matrix of this size"""
    rate: float = 1e-3
    """learning rate of Adam, for everything but the extractor"""
    batch_size: int = 100
    """new samples a step, and as many remembered ones; the extractor's batches are the loop's"""
    replay: float = 1.0
    """weight of what the former classifier said to remembered features, times old classes for each new one"""
    temperature: float = 2.0
    """of its soft targets"""
    generator_steps: int = 1500
    """steps of the auto-encoder a task"""
    generator_batch: int = 128
    """features a step of the auto-encoder"""
    generator_width: int = 512
    """of the hidden layers of encoder and decoder"""
    spread: float = 10.0
    """weight that holds the auto-encoder's descriptions to a standard normal distribution"""

    def __post_init__(self) -> None:
        wholes = ("latent", "hidden", "rank", "batch_size", "generator_steps", "generator_batch", "generator_width")
        check_whole(self, 1, *wholes)
        check_number(self, "above 0", "rate", "temperature")
        check_number(self, "at least 0", "replay", "spread")
