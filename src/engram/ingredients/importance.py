"""EWC and MAS: weights that mattered for earlier tasks are held where they were.

The penalty's gradient is known, so it is added to the weights' gradients in `edit_gradients` and no second backward
pass is needed. One anchor and one summed importance stand for all earlier tasks: what is stored does not grow.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engram.errors import InputError
from engram.ingredients.base import Host, Ingredient, Step
from engram.lesson import Lesson, State
from engram.networks.own import frozen
from engram.patches import input_rows
from engram.randomness import generator
from engram.settings import EWCSettings, ImportanceSettings, MASSettings

MEASURED = (nn.Linear, nn.Conv1d, nn.Conv2d)


class ImportancePenalty(Ingredient):
    """Adds stiffness · importance · (weight − anchor) to each gradient."""

    only_adds = True
    shares = True
    power: int
    """importance is the mean of so high a power of a sample's gradient"""

    def __init__(self, settings: ImportanceSettings, stiffness: float) -> None:
        self.settings = settings
        self.stiffness = stiffness
        self.importance: dict[str, Tensor] = {}
        self.anchor: dict[str, Tensor] = {}

    @abstractmethod
    def objective(self, scores: Tensor, y: Tensor, random: torch.Generator) -> Tensor:
        """What is differentiated: a sum over the samples, each with a part of its own."""

    def attach(self, host: Host) -> None:
        self.host = host
        _check_measurable(host.network)

    def begin_task(self, lesson: Lesson) -> None:
        """Rows of the head that are new mattered to nobody."""
        for name in self.importance:
            like = self.host.network.get_parameter(name)
            self.importance[name] = _padded(self.importance[name], like)
            self.anchor[name] = _padded(self.anchor[name], like)

    def edit_gradients(self, step: Step) -> None:
        with torch.no_grad():
            for name, importance in self.importance.items():
                weight = self.host.network.get_parameter(name)
                away = weight - self.anchor[name]
                if weight.grad is None:
                    weight.grad = away.mul_(importance).mul_(self.stiffness)
                else:
                    weight.grad.addcmul_(importance, away, value=self.stiffness)

    def end_task(self, lesson: Lesson) -> None:
        for name, fresh in self._measured(lesson).items():
            old = self.importance.get(name)
            self.importance[name] = fresh if old is None else fresh.add_(old, alpha=self.settings.decay)
            self.anchor[name] = self.host.network.get_parameter(name).detach().clone()

    def state(self) -> State:
        state = State()
        state.put("importance", self.importance)
        state.put("anchor", self.anchor)
        return state

    def restore(self, state: State) -> None:
        for kept in ("importance", "anchor"):
            found = state.take(kept).items()
            # in the memory layout of the weights: a resumed run shall add them up in the same order
            layouts = {name: torch.empty_like(self.host.network.get_parameter(name)) for name, _ in found}
            setattr(self, kept, {name: layouts[name].detach().copy_(tensor) for name, tensor in found})

    def _measured(self, lesson: Lesson) -> dict[str, Tensor]:
        network, random = self.host.network, generator(self.host.seed, lesson.index, "importance")
        sums: dict[str, Tensor] = {}
        network.eval()
        for x, y in self.host.batches(lesson, epoch=-1):
            found = gradient_powers(network, x, lambda scores, y=y: self.objective(scores, y, random), self.power)
            for name, part in found.items():
                sums[name] = sums[name].add_(part) if name in sums else part
        network.train()
        return {name: total.div_(len(lesson.y)) for name, total in sums.items()}


class EWC(ImportancePenalty):
    """(weight / 2) Σ F (θ − θ*)², with F the mean squared gradient of single samples' log-likelihoods."""

    power = 2
    settings: EWCSettings

    def __init__(self, settings: EWCSettings) -> None:
        super().__init__(settings, stiffness=settings.weight)

    def objective(self, scores: Tensor, y: Tensor, random: torch.Generator) -> Tensor:
        if self.settings.labels == "model":
            y = torch.multinomial(scores.detach().softmax(1).cpu(), 1, generator=random)[:, 0].to(scores.device)
        return F.cross_entropy(scores, y, reduction="sum")


class MAS(ImportancePenalty):
    """weight Σ Ω (θ − θ*)², with Ω the mean absolute gradient of single samples' squared scores."""

    power = 1

    def __init__(self, settings: MASSettings) -> None:
        super().__init__(settings, stiffness=2 * settings.weight)

    def objective(self, scores: Tensor, y: Tensor, random: torch.Generator) -> Tensor:
        return scores.square().sum()


def gradient_powers(
    network: nn.Module, x: Tensor, objective: Callable[[Tensor], Tensor], power: int
) -> dict[str, Tensor]:
    """For each parameter Σ |gradient of one sample's objective|^power over the samples, in one pass for all of them.

    A layer's gradient for one sample is the product of its output's gradient and its input rows, so no pass per
    sample is needed.
    """
    passes: list[tuple[str, nn.Module, Tensor, Tensor]] = []

    def note(name: str) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
        return lambda module, inputs, output: passes.append((name, module, inputs[0].detach(), output))

    fixed = set(frozen(network))
    layers = [(n, m) for n, m in network.named_modules() if isinstance(m, MEASURED) and n not in fixed]
    handles = [module.register_forward_hook(note(name)) for name, module in layers]
    try:
        total = objective(network(x))
    finally:
        for handle in handles:
            handle.remove()
    if len({name for name, *_ in passes}) < len(passes):
        raise InputError("The importance of weights is not known for a layer that is used twice: choose 'owm'.")
    deltas = torch.autograd.grad(total, [output for *_, output in passes])
    found: dict[str, Tensor] = {}
    for (name, module, inputs, _), delta in zip(passes, deltas, strict=True):
        for kind, part in _layer_powers(module, inputs, delta, power).items():
            found[f"{name}.{kind}".lstrip(".")] = part
    return found


def _layer_powers(module: nn.Module, x: Tensor, delta: Tensor, power: int) -> dict[str, Tensor]:
    assert isinstance(module, MEASURED)
    rows = input_rows(module, x)
    outputs = delta.flatten(2) if not isinstance(module, nn.Linear) else delta.reshape(len(x), -1, delta.shape[-1]).mT
    if rows.shape[1] == 1:  # powers of a product are products of powers
        weight = outputs[:, :, 0].abs().pow(power).T @ rows[:, 0].abs().pow(power)
    else:
        weight = (outputs @ rows).abs().pow(power).sum(0)
    shaped = torch.empty_like(module.weight, requires_grad=False).copy_(weight.view_as(module.weight))
    if module.bias is None:
        return {"weight": shaped}
    return {"weight": shaped, "bias": outputs.sum(2).abs().pow(power).sum(0)}


def _check_measurable(network: nn.Module) -> None:
    for name, module in network.named_modules():
        strange = not isinstance(module, MEASURED) or (not isinstance(module, nn.Linear) and module.groups > 1)
        if strange and any(p.requires_grad for p in module.parameters(recurse=False)):
            raise InputError(
                f"The importance of weights is known for plain linear and convolutional layers, not for {name} "
                f"({type(module).__name__}): choose a recipe without 'ewc' and 'mas'."
            )


def _padded(old: Tensor, like: Tensor) -> Tensor:
    return old if len(old) == len(like) else torch.cat([old, old.new_zeros(len(like) - len(old), *old.shape[1:])])
