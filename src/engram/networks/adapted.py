"""A classifier part of whose weights are made anew for each input."""

from __future__ import annotations

import torch
from torch import Tensor, nn

CONDITION = 64
"""width of the parameter generator's hidden layer"""


class AdaptedSolver(nn.Module):
    """features → hidden → rank → [a matrix made for this input] → classes; all but that matrix is shared."""

    def __init__(self, features: int, latent: int, hidden: int, rank: int) -> None:
        super().__init__()
        self.rank = rank
        self.shared = nn.Sequential(nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, rank), nn.ReLU())
        self.parameter_generator = nn.Sequential(
            nn.Linear(latent, CONDITION), nn.ReLU(), nn.Linear(CONDITION, rank * rank)
        )
        self.head = nn.Parameter(torch.empty(0, rank))

    def generated(self, descriptions: Tensor) -> Tensor:
        """The matrix of each input: the identity, and what its description adds."""
        made = self.parameter_generator(descriptions).view(-1, self.rank, self.rank)
        return made + torch.eye(self.rank, device=made.device)

    def forward(self, features: Tensor, descriptions: Tensor) -> Tensor:
        adapted = torch.bmm(self.generated(descriptions), self.shared(features)[:, :, None])[:, :, 0]
        return adapted.relu() @ self.head.T

    def grow(self, classes: int) -> None:
        fresh = torch.empty(max(0, classes - len(self.head)), self.rank, device=self.head.device)
        nn.init.normal_(fresh, std=self.rank**-0.5)
        self.head = nn.Parameter(torch.cat([self.head.detach(), fresh]))
