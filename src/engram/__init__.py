"""Engram teaches a classifier new classes, task after task, without keeping the old data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engram.learner import Learner
    from engram.owm import OWM
    from engram.recipes import Recipe, recipe

__version__ = "0.1.0"
__all__ = ["OWM", "Learner", "Recipe", "__version__", "recipe"]

_HOMES = {
    "Learner": "engram.learner",
    "OWM": "engram.owm",
    "Recipe": "engram.recipes",
    "recipe": "engram.recipes",
}


def __getattr__(name: str) -> Any:
    """torch takes seconds to import, so what needs it is imported when it is first asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module 'engram' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
