"""The two hidden linear layers that every extractor of the paper ends with."""

from __future__ import annotations

from torch import nn


def mlp_extractor(inputs: int, hidden: int) -> nn.Sequential:
    """inputs → hidden → hidden with ReLU, Xavier-normal, no biases: the features are never negative."""
    layers = [nn.Linear(inputs, hidden, bias=False), nn.Linear(hidden, hidden, bias=False)]
    for layer in layers:
        nn.init.xavier_normal_(layer.weight)
    return nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU())
