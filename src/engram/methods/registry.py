"""How each method is started; `engram.recipes.METHOD_SETTINGS` has the settings of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import nn

from engram.errors import InputError
from engram.methods.analytic import AnalyticMethod
from engram.methods.base import Method
from engram.methods.dgm import DGMMethod
from engram.methods.gradient import GradientMethod
from engram.methods.joint import JointMethod
from engram.methods.pgma import PGMAMethod
from engram.networks import build_network
from engram.networks.text_cnn import build_text_network
from engram.randomness import isolated, seed_for
from engram.recipes import Recipe
from engram.text.encoder import TextEncoder


@dataclass(frozen=True)
class Start:
    """All that a method may know when it starts."""

    recipe: Recipe
    shape: tuple[int, ...]
    """of an input: (numbers,) or (channels, height, width)"""
    width: int
    """columns of the head"""
    seed: int
    device: torch.device
    low_precision: bool
    network: nn.Module | None
    """a frozen copy of the user's own"""
    texts: TextEncoder | None = None
    """where inputs are texts; `shape` is () then"""


def start_method(start: Start) -> Method:
    return METHODS[start.recipe.method](start)


def _gradient(start: Start) -> GradientMethod:
    if start.network is not None:
        raise InputError(f"Recipe {start.recipe.name!r} has a network of its own: give `network` to 'analytic'.")
    with isolated(start.device):
        torch.manual_seed(seed_for(start.seed, "network"))
        if start.texts is None:
            network = build_network(start.shape, start.width, start.recipe.network)
        else:
            network = build_text_network(start.texts, start.width, start.recipe.network)
    ingredients = [settings.start() for settings in start.recipe.ingredients.values()]
    training = start.recipe.training
    return GradientMethod(
        network.to(start.device), ingredients, training, start.seed, start.device, start.low_precision
    )


def _analytic(start: Start) -> AnalyticMethod:
    if start.network is not None and start.texts is not None:
        raise InputError("A network of your own takes images or tables, and these are texts: leave `network` out.")
    own, where = start.recipe.own, (start.device, start.low_precision)
    return AnalyticMethod(own["analytic"], own["head"], start.seed, *where, start.network, start.texts)


def _pgma(start: Start) -> PGMAMethod:
    return PGMAMethod(_gradient(start), start.recipe.own["pgma"])


def _dgm(start: Start) -> DGMMethod:
    if len(start.shape) != 3:
        raise InputError("DGM generates images, and these are none: choose another recipe than 'dgm'.")
    shape = start.shape[0], start.shape[1], start.shape[2]
    return DGMMethod(start.recipe.own["dgm"], shape, start.seed, start.device, start.low_precision)


METHODS: dict[str, Callable[[Start], Method]] = {
    "gradient": _gradient,
    "joint": lambda start: JointMethod(lambda width: _gradient(replace(start, width=width)), start.width),
    "analytic": _analytic,
    "pgma": _pgma,
    "dgm": _dgm,
}
