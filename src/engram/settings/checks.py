"""Refuse values that make no sense, in one sentence that names the setting and its range."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

from engram.errors import InputError

RANGES: dict[str, Callable[[float], bool]] = {
    "above 0": lambda value: value > 0,
    "at least 0": lambda value: value >= 0,
    "at least 0 and below 1": lambda value: 0 <= value < 1,
}


def check_whole(settings: object, least: int, *names: str) -> None:
    """Refuse what is no whole number of at least so much; numbers of NumPy's become plain ones, which JSON can hold."""
    for name in names:
        value = getattr(settings, name)
        if not is_whole(value, least):
            raise InputError(f"{name} must be a whole number of at least {least}, not {value!r}.")
        object.__setattr__(settings, name, int(value))


def check_number(settings: object, wanted: str, *names: str) -> None:
    """Refuse what is no finite number in one of RANGES."""
    for name in names:
        value = getattr(settings, name)
        real = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
        if not real or not RANGES[wanted](float(value)):
            raise InputError(f"{name} must be a number {wanted}, not {value!r}.")
        object.__setattr__(settings, name, float(value))


def check_choice(settings: object, name: str, *choices: str) -> None:
    value = getattr(settings, name)
    if value not in choices:
        raise InputError(f"{name} must be {' or '.join(choices)}, not {value!r}.")


def is_whole(value: Any, least: int) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least
