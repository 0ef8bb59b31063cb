"""How each method is started; `engram.recipes.METHOD_SETTINGS` has the settings of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import nn

from engram.distributed import world
from engram.errors import InputError
from engram.methods.analytic import AnalyticMethod
from engram.methods.base import Method
from engram.methods.dgm import DGMMethod
from engram.methods.gradient import GradientMethod
from engram.methods.joint import JointMethod
from engram.methods.pgma import PGMAMethod
from engram.networks import build_network
from engram.randomness import isolated, seed_for
from engram.recipes import Recipe


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


def start_method(start: Start) -> Method:
    if start.recipe.method not in SHARING:
        _check_alone(start.recipe)
    return METHODS[start.recipe.method](start)


def _gradient(start: Start) -> GradientMethod:
    if start.network is not None:
        raise InputError(f"Recipe {start.recipe.name!r} has a network of its own: give `network` to 'analytic'.")
    with isolated(start.device):
        torch.manual_seed(seed_for(start.seed, "network"))
        network = build_network(start.shape, start.width, start.recipe.network)
    ingredients = [settings.start() for settings in start.recipe.ingredients.values()]
    if not all(ingredient.shares for ingredient in ingredients):
        _check_alone(start.recipe)
    training = start.recipe.training
    return GradientMethod(
        network.to(start.device), ingredients, training, start.seed, start.device, start.low_precision
    )


def _check_alone(recipe: Recipe) -> None:
    if world().size > 1:
        raise InputError(f"Recipe {recipe.name!r} is not made for several processes: run it without torchrun.")


def _analytic(start: Start) -> AnalyticMethod:
    own = start.recipe.own
    return AnalyticMethod(own["analytic"], own["head"], start.seed, start.device, start.low_precision, start.network)


def _pgma(start: Start) -> PGMAMethod:
    return PGMAMethod(_gradient(start), start.recipe.own["pgma"])


def _dgm(start: Start) -> DGMMethod:
    if len(start.shape) != 3:
        raise InputError("DGM generates images, and these are tables: choose another recipe than 'dgm'.")
    shape = start.shape[0], start.shape[1], start.shape[2]
    return DGMMethod(start.recipe.own["dgm"], shape, start.seed, start.device, start.low_precision)


SHARING = {"gradient", "joint", "analytic"}
"""methods that several processes may share"""
METHODS: dict[str, Callable[[Start], Method]] = {
    "gradient": _gradient,
    "joint": lambda start: JointMethod(lambda width: _gradient(replace(start, width=width)), start.width),
    "analytic": _analytic,
    "pgma": _pgma,
    "dgm": _dgm,
}
