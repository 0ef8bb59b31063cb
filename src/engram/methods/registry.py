"""How each method is started; `engram.recipes.METHOD_SETTINGS` has the settings of each."""

from __future__ import annotations

import copy
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
from engram.networks import Network, build_network
from engram.networks.own import OwnNetwork
from engram.networks.text_cnn import build_text_network
from engram.randomness import isolated, seed_for
from engram.recipes import Recipe
from engram.settings import NetworkSettings
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
    if start.network is not None and start.texts is not None:
        raise InputError("A network of your own takes images or tables, and these are texts: leave `network` out.")
    if start.recipe.method not in SHARING:
        _check_alone(start.recipe)
    return METHODS[start.recipe.method](start)


def _gradient(start: Start) -> GradientMethod:
    with isolated(start.device):
        torch.manual_seed(seed_for(start.seed, "network"))
        network = _network(start)
    ingredients = [settings.start() for settings in start.recipe.ingredients.values()]
    if not all(ingredient.shares for ingredient in ingredients):
        _check_alone(start.recipe)
    training = start.recipe.training
    return GradientMethod(
        network.to(start.device), ingredients, training, start.seed, start.device, start.low_precision
    )


def _network(start: Start) -> Network:
    settings = start.recipe.network
    if start.texts is not None:
        return build_text_network(start.texts, start.width, settings)
    if start.network is None:
        return build_network(start.shape, start.width, settings)
    if settings != NetworkSettings():
        raise InputError("The recipe's `network` settings are for Engram's own networks: leave them or `network` out.")
    return OwnNetwork.of(start.network, start.shape, start.width, start.device)


def _check_alone(recipe: Recipe) -> None:
    if world().size > 1:
        raise InputError(f"Recipe {recipe.name!r} is not made for several processes: run it without torchrun.")


def _analytic(start: Start) -> AnalyticMethod:
    own, where = start.recipe.own, (start.device, start.low_precision)
    network = copy.deepcopy(start.network)
    return AnalyticMethod(own["analytic"], own["head"], start.seed, *where, network, start.texts)


def _pgma(start: Start) -> PGMAMethod:
    return PGMAMethod(_gradient(start), start.recipe.own["pgma"])


def _dgm(start: Start) -> DGMMethod:
    if start.network is not None:
        raise InputError("DGM learns a generator and its discriminator, which are its own: leave `network` out.")
    if len(start.shape) != 3:
        raise InputError("DGM generates images, and these are none: choose another recipe than 'dgm'.")
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
