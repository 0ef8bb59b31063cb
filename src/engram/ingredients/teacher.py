"""What ingredients that look back have in common: the network as it was after the last task, and what it knew."""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engram.ingredients.base import Host
from engram.lesson import Lesson, State
from engram.settings import ReplaySettings


def distillation_loss(scores: Tensor, taught: Tensor, temperature: float) -> Tensor:
    """Cross-entropy with the soft targets of `taught`; new columns, which it does not have yet, have target 0."""
    targets = (taught / temperature).softmax(1)
    targets = F.pad(targets, (0, scores.shape[1] - taught.shape[1]))
    return F.cross_entropy(scores / temperature, targets)


def softened_loss(scores: Tensor, taught: Tensor, settings: ReplaySettings) -> Tensor:
    """The distillation loss at the settings' temperature, times its square where they say so."""
    loss = distillation_loss(scores, taught, settings.temperature)
    return loss * settings.temperature**2 if settings.squared else loss


def any_of(columns: list[int], size: int, random: torch.Generator) -> Tensor:
    """So many of these columns, each as often as the others."""
    return torch.tensor(columns)[torch.randint(len(columns), (size,), generator=random)]


def old_for_each_new(old: list[int], lesson: Lesson) -> float:
    """How many old classes there are for each class of this task that is new."""
    new = set(lesson.y.unique().tolist()) - set(old)
    return len(old) / max(1, len(new))


class Teacher:
    """A frozen copy of the host's network, and the columns that it had learnt by then; none before the first task."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.network: nn.Module | None = None
        self._know([], 0)

    def take_over(self, lesson: Lesson) -> None:
        """From now on the network as it is after this lesson."""
        self._know(sorted({*self.seen, *lesson.y.unique().tolist()}), lesson.width)
        self.network = copy.deepcopy(self.host.network).requires_grad_(False).eval()
        for parameter in self.network.parameters():
            parameter.grad = None

    def _know(self, seen: list[int], width: int) -> None:
        self.seen = seen
        room = torch.tensor(seen + [0] * (width - len(seen)), dtype=torch.long, device=self.host.device)
        self.columns = room[: len(seen)]
        """the same where the scores are, in the memory that all columns would take"""

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Features and scores of prepared inputs."""
        assert self.network is not None
        with torch.no_grad(), torch.autocast(self.host.device.type, torch.bfloat16, enabled=self.host.low_precision):
            features = self.network.get_submodule("extractor")(x)
            scores = self.network.get_submodule("head")(features)
        return features.float(), scores.float()

    def state(self) -> State:
        state = State(meta={"seen": self.seen})
        if self.network is not None:
            state.put("teacher", self.network.state_dict())
        return state

    def restore(self, state: State) -> None:
        seen = list(state.meta["seen"])
        self._know(seen, max(seen, default=-1) + 1)
        self.network = None
        if weights := state.take("teacher"):
            network = copy.deepcopy(self.host.network)
            network.head.weight = nn.Parameter(torch.empty_like(weights["head.weight"]))  # narrower than today's
            network.load_state_dict(weights)
            self.network = network.requires_grad_(False).eval()
