"""f: what a generator's training takes, and its share of a run on CIFAR-10."""

from __future__ import annotations

import dataclasses
import itertools
import time
from statistics import median

import torch

from engram.bench.figures import Effort, Figure
from engram.bench.steps import BATCH, Kind, Stepper, paper_cnn
from engram.devices import resolve_precision
from engram.generators.conditional import ConditionalGAN
from engram.generators.feature_gan import FeatureGAN
from engram.generators.image_gan import ImageGAN
from engram.recipes import recipe
from engram.settings import ReplaySettings
from engram.settings.training import EPOCHS

SAMPLES = 10_000
"""of CIFAR-10 in one of five tasks"""
STEPS = 4
"""of the generator that are timed, after one that is not"""


def generator_share(effort: Effort) -> list[Figure]:
    kind = paper_cnn(effort.quick)
    device = torch.device("cpu")
    low = resolve_precision("auto", device, kind.shape) == "bfloat16"
    features, images = recipe("owm+gfr").ingredients["replay"], recipe("gir").ingredients["replay"]
    assert isinstance(features, ReplaySettings)
    assert isinstance(images, ReplaySettings)
    shape = kind.shape[0], kind.shape[1], kind.shape[2]
    kinds = [
        ("features, owm+gfr", FeatureGAN(_few(features), kind.settings.hidden, device, low), features, "owm"),
        ("images, gir", ImageGAN(_few(images), shape, device, low), images, "finetune"),
    ]
    figures = []
    for name, gan, settings, trained in kinds:
        samples = torch.rand(512, kind.settings.hidden) if isinstance(gan, FeatureGAN) else torch.rand(512, *shape)
        seconds = settings.generator_steps * _step_seconds(gan, samples)
        training = EPOCHS * -(-SAMPLES // BATCH) * _training_step(kind, trained, low)
        figures += [
            Figure(f"generator of {name}", seconds, "s a task"),
            Figure(f"generator of {name}: share of the run", seconds / (seconds + training), "share"),
        ]
    return figures


def _few(settings: ReplaySettings) -> ReplaySettings:
    return dataclasses.replace(settings, generator_steps=STEPS + 1)


def _step_seconds(gan: ConditionalGAN, samples: torch.Tensor) -> float:
    """Of a step of the second task, where the former generator takes part."""
    columns = torch.arange(len(samples)) % 2
    gan.learn(samples, columns, 4, lambda done, steps: None)
    moments: list[float] = []
    gan.learn(samples, columns + 2, 4, lambda done, steps: moments.append(time.perf_counter()))
    return median(after - before for before, after in itertools.pairwise(moments))


def _training_step(kind: Kind, trained: str, low: bool) -> float:
    step, times = Stepper(kind, trained, low), []
    for _ in range(6):
        begun = time.perf_counter()
        step()
        times.append(time.perf_counter() - begun)
    return median(times[1:])
