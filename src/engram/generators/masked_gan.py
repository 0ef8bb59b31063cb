"""A generator of images whose weights are given to tasks for good by learnt masks (as in HAT), and that grows.

A task's images are made by the weights that its masks let through, in the widths that the generator had then. So no
later task can change them: weights that a mask has claimed are frozen, and those that come later are not looked at.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engram.devices import upload
from engram.generators.conditional import LEAK
from engram.generators.image_gan import HALVINGS, KERNEL, PADDING, STRIDE
from engram.lesson import State
from engram.settings import DGMSettings

STEEPEST = 50.0
"""the largest argument of a hyperbolic cosine"""


@dataclass
class Part:
    """What a finished task owns: binary masks, its last layer, and a row for each of its classes."""

    masks: list[Tensor]
    last: Tensor
    rows: Tensor
    columns: list[int]


class MaskedGenerator(nn.Module):
    """[noise ; class] → 4·width small maps → 2·width → width → an image; all but the last step has masks."""

    def __init__(self, settings: DGMSettings, shape: tuple[int, int, int]) -> None:
        super().__init__()
        self.settings, self.shape = settings, shape
        self.size = -(-shape[1] // 2**HALVINGS), -(-shape[2] // 2**HALVINGS)
        widths = [4 * settings.generator_width, 2 * settings.generator_width, settings.generator_width]
        blank = [torch.empty(0, settings.noise, *self.size)]
        blank += [torch.empty(0, 0, KERNEL, KERNEL) for _ in range(HALVINGS - 1)]
        # outputs × inputs × rest, as they are added to
        self.weights = nn.ParameterList(blank)
        self.reserved = [torch.zeros_like(weight, dtype=torch.bool) for weight in blank]
        self.parts: list[Part] = []
        self._widen(widths)
        self.first_widths = widths
        self.initial = self.count()
        self.sharpness = 1.0

    def begin_task(self, columns: list[int]) -> None:
        """New masks, a new last layer and new classes, to be learnt."""
        device = self.weights[0].device
        self.columns, self.learnt = columns, torch.tensor(columns, device=device)
        self.free = max(1, sum(int((~reserved).sum()) for reserved in self.reserved))
        self.claims = nn.ParameterList(torch.zeros_like(weight) for weight in self.weights)
        inputs = self.weights[-1].shape[0]
        self.last = nn.Parameter(_random((self.shape[0], inputs, KERNEL, KERNEL), inputs).to(device))
        self.rows = nn.Parameter(0.5 * torch.randn(len(columns), self.weights[0].shape[0], *self.size).to(device))
        self.set_progress(0.0)

    def set_progress(self, done: float) -> None:
        """The masks sharpen evenly over a task."""
        sharpest = self.settings.mask_scale
        self.sharpness = 1 / sharpest + (sharpest - 1 / sharpest) * done

    def forward(self, noise: Tensor, columns: Tensor) -> Tensor:
        """Images of the classes of the task that is being learnt."""
        masks = [(self.sharpness * claim).sigmoid() for claim in self.claims]
        places = torch.searchsorted(self.learnt, columns)
        return self._make(noise, self.rows[places], masks, self.last)

    def remembered(self, noise: Tensor, columns: Tensor) -> Tensor:
        """Images of classes of finished tasks, each made as on the day its task was finished."""
        columns = columns.cpu()  # a GPU would be waited for, part by part
        images = noise.new_empty(len(noise), *self.shape)
        for part in self.parts:
            known = torch.tensor(part.columns)
            places = torch.isin(columns, known).nonzero()[:, 0]
            rows = part.rows[upload(torch.searchsorted(known, columns[places]), noise.device)]
            places = upload(places, noise.device)
            images[places] = self._make(noise[places], rows, part.masks, part.last).float()
        return images

    def claimed(self) -> Tensor:
        """The share of the free weights that the masks let through: what a task shall keep small."""
        let_through = sum(((self.sharpness * c).sigmoid() * ~r).sum() for c, r in self._pairs())
        return torch.as_tensor(let_through) / self.free

    def edit_gradients(self) -> None:
        """Weights of earlier tasks stand still; claims learn at the pace of masks that are not sharp yet."""
        for weight, reserved in zip(self.weights, self.reserved, strict=True):
            if weight.grad is not None:
                weight.grad.masked_fill_(reserved, 0.0)
        for claim in self.claims:
            if claim.grad is not None:
                steep = (self.sharpness * claim.detach()).clamp(-STEEPEST, STEEPEST).cosh() + 1
                claim.grad *= self.settings.mask_scale / self.sharpness * steep / (claim.detach().cosh() + 1)

    def end_task(self) -> None:
        """Give the task what its masks have claimed, and grow by as many outputs as make up for it.

        A layer's new outputs are the next one's new inputs, which counts there; none grows by more than it began with.
        """
        masks = [claim.detach() > 0 for claim in self.claims]
        self.parts.append(Part(masks, self.last.detach().clone(), self.rows.detach().clone(), self.columns))
        taken = [int((mask & ~reserved).sum()) for mask, reserved in zip(masks, self.reserved, strict=True)]
        self.reserved = [old | mask for old, mask in zip(self.reserved, masks, strict=True)]
        self._widen(self._outputs_for(taken))

    def count(self) -> int:
        """Weights that masks choose from."""
        return sum(weight.numel() for weight in self.weights)

    def most(self) -> int:
        """What `count` cannot exceed: each layer's outputs grow by no more than it had at first, in each task."""
        outputs = [(1 + len(self.parts)) * width for width in self.first_widths]
        inputs = [self.settings.noise, *outputs[:-1]]
        rest = [self.size[0] * self.size[1], KERNEL**2, KERNEL**2]
        return sum(math.prod(sizes) for sizes in zip(outputs, inputs, rest, strict=True))

    def state(self) -> State:
        state = State(meta={"columns": [part.columns for part in self.parts]})
        named = {f"weight{index}": weight for index, weight in enumerate(self.weights)}
        state.put("now", named | {f"reserved{index}": mask for index, mask in enumerate(self.reserved)})
        for number, part in enumerate(self.parts):
            masks = {f"mask{index}": mask for index, mask in enumerate(part.masks)}
            state.put(f"part{number}", masks | {"last": part.last, "rows": part.rows})
        return state

    def restore(self, state: State) -> None:
        now, layers = state.take("now"), range(len(self.weights))
        self.weights = nn.ParameterList(now[f"weight{index}"].clone() for index in layers)
        self.reserved = [now[f"reserved{index}"].clone() for index in layers]
        self.parts = []
        for number, columns in enumerate(state.meta["columns"]):
            part = {name: tensor.clone() for name, tensor in state.take(f"part{number}").items()}
            masks = [part[f"mask{index}"] for index in layers]
            self.parts.append(Part(masks, part["last"], part["rows"], list(columns)))

    def _make(self, noise: Tensor, rows: Tensor, masks: list[Tensor], last: Tensor) -> Tensor:
        weights = [weight[: len(m), : m.shape[1]] * m for weight, m in zip(self.weights, masks, strict=True)]
        x = torch.einsum("bi,oihw->bohw", noise, weights[0]) + rows
        for weight in [*weights[1:], last]:
            x = F.leaky_relu(F.group_norm(x, 1), LEAK)
            x = F.conv_transpose2d(x, weight.transpose(0, 1), None, STRIDE, PADDING)
        return x[:, :, : self.shape[1], : self.shape[2]].tanh()

    def _outputs_for(self, taken: list[int]) -> list[int]:
        more: list[int] = []
        for lost, weight, first in zip(taken, self.weights, self.first_widths, strict=True):
            outputs, inputs, *rest = weight.shape
            new_inputs = more[-1] if more else 0
            missing = lost - outputs * new_inputs * math.prod(rest)
            more.append(min(first, max(0, math.ceil(missing / ((inputs + new_inputs) * math.prod(rest))))))
        return more

    def _widen(self, more: list[int]) -> None:
        """So many more outputs for each layer, and inputs for the next one."""
        inputs = 0
        for index, outputs in enumerate(more):
            old, reserved = self.weights[index].detach(), self.reserved[index]
            shape = (old.shape[0] + outputs, old.shape[1] + inputs, *old.shape[2:])
            scale = shape[1] if index else self.settings.noise
            fresh, unclaimed = _random(shape, scale).to(old), torch.zeros(shape, dtype=torch.bool, device=old.device)
            fresh[: old.shape[0], : old.shape[1]] = old
            unclaimed[: old.shape[0], : old.shape[1]] = reserved
            self.weights[index], self.reserved[index] = nn.Parameter(fresh), unclaimed
            inputs = outputs

    def _pairs(self) -> list[tuple[Tensor, Tensor]]:
        return list(zip(self.claims, self.reserved, strict=True))


def _random(shape: tuple[int, ...], inputs: int) -> Tensor:
    # masks begin half open, which halves what comes through
    return 2 * torch.randn(shape) / math.sqrt(max(1, inputs))
