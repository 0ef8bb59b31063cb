"""A Wasserstein auto-encoder of features (Tolstikhin et al. 2018): it describes them, and makes some from noise."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class AutoEncoder(nn.Module):
    """features → width → a description, spread like a standard normal; and back to features, never negative."""

    def __init__(self, features: int, width: int, latent: int) -> None:
        super().__init__()
        self.latent = latent
        self.encoder = nn.Sequential(nn.Linear(features, width), nn.ReLU(), nn.Linear(width, latent))
        self.decoder = nn.Sequential(nn.Linear(latent, width), nn.ReLU(), nn.Linear(width, features), nn.ReLU())

    def loss(self, x: Tensor, spread: float) -> Tensor:
        """How badly x comes back, and how far descriptions are from normal."""
        described = self.encoder(x)
        lost = (self.decoder(described) - x).square().sum(1).mean()
        return lost + spread * discrepancy(described, torch.randn_like(described))

    def sample(self, count: int) -> Tensor:
        with torch.no_grad():
            return self.decoder(torch.randn(count, self.latent, device=self.decoder[0].weight.device))


def discrepancy(x: Tensor, y: Tensor) -> Tensor:
    """The maximum mean discrepancy of two samples of equal size, with the inverse multiquadratic kernel."""
    scale, count = 2.0 * x.shape[1], len(x)

    def kernel(a: Tensor, b: Tensor) -> Tensor:
        squares = a.square().sum(1)[:, None] + b.square().sum(1) - 2 * a @ b.T
        return scale / (scale + squares)

    within = kernel(x, x) + kernel(y, y)
    apart = max(1, count * (count - 1))
    return (within.sum() - within.diagonal().sum()) / apart - 2 * kernel(x, y).mean()
