"""A Wasserstein auto-encoder of features (Tolstikhin et al. 2018): it describes them, and makes some from noise."""

from __future__ import annotations

import torch
from torch import Tensor, nn

LEAST_VARIANCE = 1e-4


class AutoEncoder(nn.Module):
    """features → width → a description, spread like a standard normal; and back to features.

    What it makes is drawn by class: from the normal distribution that the descriptions of the class have.
    """

    centres: Tensor
    roots: Tensor

    def __init__(self, features: int, width: int, latent: int, signed: bool = False) -> None:
        super().__init__()
        self.latent = latent
        self.signed = signed
        self.register_buffer("centres", torch.zeros(0, latent))
        self.register_buffer("roots", torch.zeros(0, latent, latent))
        self.encoder = nn.Sequential(nn.Linear(features, width), nn.ReLU(), nn.Linear(width, latent))
        self.decoder = nn.Sequential(nn.Linear(latent, width), nn.ReLU(), nn.Linear(width, features))

    def loss(self, x: Tensor, spread: float) -> Tensor:
        """How badly x comes back, and how far descriptions are from normal."""
        described = self.encoder(x)
        lost = (self.decoder(described) - x).square().sum(1).mean()
        return lost + spread * discrepancy(described, torch.randn_like(described))

    def describe(self, column: int, x: Tensor) -> None:
        """Note how the descriptions of a class are distributed."""
        with torch.no_grad():
            described = self.encoder(x)
        self.centres[column] = described.mean(0)
        away = described - self.centres[column]
        covariance = away.T @ away / len(x) + LEAST_VARIANCE * torch.eye(self.latent, device=x.device)
        self.roots[column] = torch.linalg.cholesky(covariance)

    def grow(self, classes: int) -> None:
        for name in ("centres", "roots"):
            old = getattr(self, name)
            setattr(self, name, torch.cat([old, old.new_zeros(max(0, classes - len(old)), *old.shape[1:])]))

    def sample(self, columns: Tensor) -> Tensor:
        """Features of these classes; never negative where the features are not.

        They are cut off at 0 here alone: a unit that is cut off in training learns nothing.
        """
        noise = torch.randn(len(columns), self.latent, 1, device=columns.device)
        described = self.centres[columns] + (self.roots[columns] @ noise)[:, :, 0]
        with torch.no_grad():
            made = self.decoder(described)
        return made if self.signed else made.relu()


def discrepancy(x: Tensor, y: Tensor) -> Tensor:
    """The maximum mean discrepancy of two samples of equal size, with the inverse multiquadratic kernel."""
    scale, count = 2.0 * x.shape[1], len(x)

    def kernel(a: Tensor, b: Tensor) -> Tensor:
        squares = a.square().sum(1)[:, None] + b.square().sum(1) - 2 * a @ b.T
        return scale / (scale + squares)

    within = kernel(x, x) + kernel(y, y)
    apart = max(1, count * (count - 1))
    return (within.sum() - within.diagonal().sum()) / apart - 2 * kernel(x, y).mean()
