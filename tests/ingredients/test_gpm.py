"""Gradient projection memory: what is closed, how much of it, and that later steps leave old inputs' outputs alone."""

from __future__ import annotations

import pytest
import torch
from tests.methods.test_gradient import lesson, method, weights

from engram.ingredients.gpm import GPM, main_directions
from engram.lesson import Lesson, Watch
from engram.patches import input_rows
from engram.projection import Projector
from engram.settings import GPMSettings


@pytest.mark.parametrize("threshold", [0.5, 0.9, 0.97])
def test_as_few_directions_are_closed_as_hold_the_energy_asked_for(threshold: float) -> None:
    rows = torch.randn(40, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rows *= torch.arange(8, 0, -1)
    projector = Projector(8, torch.float64)
    directions = main_directions(rows, projector, threshold)
    torch.testing.assert_close(directions @ directions.T, torch.eye(len(directions), dtype=torch.float64))
    # by definition: eigenvectors of RᵀR, the largest first
    values = torch.linalg.eigvalsh(rows.T @ rows).flip(0)
    held = values.cumsum(0) / values.sum()
    assert len(directions) == int((held < threshold).sum()) + 1
    projector.remove(directions)
    left = projector.project(rows).square().sum() / rows.square().sum()
    assert left.item() == pytest.approx(1 - held[len(directions) - 1].item(), abs=1e-9)


def test_a_second_tasks_directions_come_from_what_is_free_and_count_what_was_closed() -> None:
    projector = Projector(6, torch.float64)
    first, second = torch.eye(6, dtype=torch.float64)[:3], torch.eye(6, dtype=torch.float64)[2:5]
    projector.remove(main_directions(first, projector, 0.999))
    directions = main_directions(second, projector, 0.999)
    assert len(directions) == 2
    assert not (directions @ first.T).abs().max() > 1e-9
    projector.remove(directions)
    assert len(main_directions(second, projector, 0.999)) == 0
    matrix = projector.matrix()
    torch.testing.assert_close(matrix @ matrix, matrix)
    torch.testing.assert_close(matrix.diagonal().sum().item(), 1.0)


def test_the_first_task_is_free_and_later_steps_hardly_change_outputs_on_old_inputs() -> None:
    moved = {}
    for threshold in (0.0, 0.999):
        plain, subject = method(epochs=4), method(GPM(GPMSettings(threshold=threshold, growth=0.0)), epochs=4)
        for each in (plain, subject):
            each.learn(lesson(0), Watch())
        for found, wanted in zip(weights(subject), weights(plain), strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
        part = subject.ingredients[0]
        assert isinstance(part, GPM)
        before, old = weights(subject), part._inputs(lesson(0))["extractor.0"]
        later = lesson(1)
        subject.learn(Lesson(1, later.x[:, [1, 0, 2, 3, 4, 5]], later.y, 3), Watch())
        change = weights(subject)[0] - before[0]
        moved[threshold] = float((old @ change.T).norm() / old.norm())
    assert moved[0.999] < moved[0.0] / 5


def test_each_layers_inputs_are_those_of_the_samples() -> None:
    part = GPM(GPMSettings(samples=20))
    subject = method(part)
    subject.learn(lesson(0), Watch())
    found = part._inputs(lesson(0))
    assert {name: tuple(rows.shape) for name, rows in found.items()} == {
        "extractor.0": (20, 6),
        "extractor.2": (20, 8),
        "head": (20, 8),
    }
    prepared = subject.network.prepare(lesson(0).x)
    assert all(any(torch.equal(row, sample) for sample in prepared) for row in found["extractor.0"])
    assert subject.network.training


def test_patches_are_what_a_convolution_multiplies() -> None:
    conv = torch.nn.Conv2d(3, 4, 2, stride=2, padding=1)
    x = torch.randn(5, 3, 6, 6)
    product = input_rows(conv, x) @ conv.weight.flatten(1).T
    assert conv.bias is not None
    torch.testing.assert_close(product.transpose(1, 2).view(5, 4, 4, 4) + conv.bias[:, None, None], conv(x))
