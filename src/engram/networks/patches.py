"""Features of images from small patches: how much each place of an image looks like patches of the first task."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from engram.lesson import State
from engram.networks.clusters import cluster_centres
from engram.settings import AnalyticSettings

FILTERS = {"small": 512, "medium": 1536, "large": 2048}
PER_NUMBER = 24
"""largest number of filters for each number that a patch consists of: more would only repeat each other"""
SAMPLED = 100_000
"""patches that whitening and filters are made from"""
SIDE = 32
"""images of twice this side or more are first averaged down towards it"""
CHUNK_BYTES = 4 << 20
"""of answers that are worked on at a time: what processors keep close by"""
MIRROR_ROWS = 1024
MIRROR_FILTERS = 64
TELLS = 0.6
"""share of held-out images whose mirroring a linear classifier may recognise before flips are taken to matter"""


@dataclass(frozen=True, eq=False)
class PatchLayer:
    """Answers of filters to an image's contrast-normalised patches, rectified and averaged over a grid of cells.

    Maps images (samples x channels x height x width) to images of as many channels as there are answers. `filters`
    has a column for each filter, whitening folded in, and a last row that is added to each answer. With `mirrored`
    its second half belongs to mirrored patches, and an image and its mirror image have the same answers.
    """

    filters: Tensor
    side: int
    grid: int
    contrast: float
    threshold: float
    both: bool
    mirrored: bool
    low_precision: bool

    def __call__(self, images: Tensor) -> Tensor:
        height, width = images.shape[2] - self.side + 1, images.shape[3] - self.side + 1
        each = height * width * self.filters.shape[1] * (2 if self.low_precision else 4)
        filters = self.filters.bfloat16() if self.low_precision else self.filters
        if torch.compiler.is_compiling():  # an exported graph knows no number of images to part by
            return self._answers(images, filters)
        parts = images.split(max(1, CHUNK_BYTES // each))
        return torch.cat([self._answers(part, filters) for part in parts])

    def _answers(self, images: Tensor, filters: Tensor) -> Tensor:
        patches = normalised_patches(images, self.side, self.contrast, filters.dtype)
        answers = patches @ filters
        above = self._pooled(_positive(answers, in_place=not self._below_is_needed()))
        if not self.both:
            below = self._pooled(patches[..., :-1])
            if self.mirrored:
                below = below + mirrored(below, self.side)
            return torch.cat([self._tempered(above), below], 1)
        if self._below_is_needed():
            below = self._pooled(_positive(torch.rsub(answers, -2 * self.threshold), in_place=True))
        else:  # relu(-z) = relu(z) - z, and the mean of z is that of the patches, filtered
            linear = self._pooled(patches.float()).permute(0, 2, 3, 1) @ filters.float()
            below = above - linear.permute(0, 3, 1, 2)
        return torch.cat([self._tempered(above), self._tempered(below)], 1)

    def _below_is_needed(self) -> bool:
        return self.both and self.threshold > 0

    def _pooled(self, answers: Tensor) -> Tensor:
        """Means over the cells. Neighbours have half their area in common, and the whole is its own mirror image."""
        height, width = answers.shape[1:3]
        halves = (min(self.grid + 1, height), min(self.grid + 1, width))
        means = F.adaptive_avg_pool2d(answers.permute(0, 3, 1, 2), halves).float()
        return F.avg_pool2d(means, (min(2, height), min(2, width)), 1)

    def _tempered(self, answers: Tensor) -> Tensor:
        """Square roots, as a patch that is there twice does not tell twice as much."""
        if self.mirrored:
            straight, turned = answers.chunk(2, 1)
            answers = straight + turned.flip(3)
        return answers.clamp_min(0).sqrt()


class PatchFeatures:
    """Layers of different patch sizes side by side."""

    def __init__(self, layers: list[PatchLayer]) -> None:
        self.layers = layers

    def __call__(self, x: Tensor) -> Tensor:
        images = shrunk(x)
        return torch.cat([layer(images).flatten(1) for layer in self.layers], 1)

    def plain(self) -> PatchFeatures:
        """The same in float32, whatever the precision."""
        return PatchFeatures([replace(layer, low_precision=False) for layer in self.layers])

    @classmethod
    def fit(cls, x: Tensor, settings: AnalyticSettings, random: torch.Generator, low_precision: bool) -> PatchFeatures:
        """From images of the first task."""
        images = shrunk(x)
        flips = settings.flips == "yes" or (settings.flips == "auto" and not tells_mirrored(images, settings, random))
        sides = sorted({min(side, *images.shape[2:]) for side in settings.patch or (default_side(images),)})
        layers = [_fitted_layer(images, side, len(sides), settings, flips, low_precision, random) for side in sides]
        return cls(layers)

    def state(self) -> State:
        meta = [{k: v for k, v in vars(layer).items() if k != "filters"} for layer in self.layers]
        return State({f"filters{i}": layer.filters for i, layer in enumerate(self.layers)}, {"layers": meta})

    @classmethod
    def from_state(cls, state: State) -> PatchFeatures:
        layers = enumerate(state.meta["layers"])
        return cls([PatchLayer(filters=state.tensors[f"filters{i}"].clone(), **values) for i, values in layers])


def shrunk(x: Tensor) -> Tensor:
    """As float images, the channels last in memory, averaged down by a whole factor if they are large."""
    images = x.float()
    factor = min(x.shape[2:]) // SIDE
    if factor > 1:
        images = F.avg_pool2d(images, factor)
    return images.contiguous(memory_format=torch.channels_last)


def default_side(images: Tensor) -> int:
    """About a fifth of the image: 6 pixels of 32, 3 of 8."""
    return min(max(3, round(min(images.shape[2:]) * 6 / 32)), *images.shape[2:])


def patches_of(images: Tensor, side: int) -> Tensor:
    """samples x places down x places across x numbers; the numbers of a patch go row by row, channels last."""
    samples, channels, height, width = images.shape
    pixels = images.permute(0, 2, 3, 1).contiguous()
    if torch.compiler.is_compiling():  # and no strides
        down, across = height - side + 1, width - side + 1
        places = [(row, column) for row in range(side) for column in range(side)]
        return torch.cat([pixels[:, row : row + down, column : column + across] for row, column in places], 3)
    shape = (samples, height - side + 1, width - side + 1, side, side * channels)
    steps = (height * width * channels, width * channels, channels, width * channels, 1)
    return pixels.as_strided(shape, steps).reshape(*shape[:3], -1)


def normalised_patches(images: Tensor, side: int, contrast: float, dtype: torch.dtype) -> Tensor:
    """Patches of mean 0 and variance 1, but for `contrast`, which is added to it; a one follows the numbers of each."""
    patches = patches_of(images, side)
    numbers = patches.shape[3]
    normalised = torch.ones(*patches.shape[:3], numbers + 1, dtype=dtype, device=patches.device)
    normalised[..., :numbers] = F.layer_norm(patches, (numbers,), eps=contrast)
    return normalised


def mirrored(patches: Tensor, side: int) -> Tensor:
    """Patches (along dimension 1: pooled ones, samples x numbers x cells) of the mirror image."""
    turned = patches.unflatten(1, (side, side, -1)).flip(2).flatten(1, 3)
    return turned.flip(3) if turned.ndim == 4 else turned


def sampled_patches(images: Tensor, side: int, random: torch.Generator) -> Tensor:
    """Some patches of each image, from places picked at random."""
    each = math.ceil(SAMPLED / len(images))
    found = []
    for image in images.split(1):
        patches = patches_of(image, side).flatten(0, 2)
        places = torch.randperm(len(patches), generator=random)[:each]
        found.append(patches[places.to(patches.device)])
    return torch.cat(found)


def whitening_of(patches: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """The mean, and the symmetric matrix that brings the covariance, plus `share`, to the identity (ZCA)."""
    mean = patches.double().mean(0)
    covariance = torch.zeros(patches.shape[1], patches.shape[1], dtype=torch.float64, device=patches.device)
    for part in patches.split(1 << 14):
        centred = part.double() - mean
        covariance += centred.T @ centred / len(patches)
    values, vectors = torch.linalg.eigh(covariance)
    return mean, vectors @ ((values.clamp_min(0) + share).rsqrt()[:, None] * vectors.T)


def _fitted_layer(
    images: Tensor,
    side: int,
    parts: int,
    settings: AnalyticSettings,
    flips: bool,
    low_precision: bool,
    random: torch.Generator,
) -> PatchLayer:
    raw = sampled_patches(images, side, random)
    variance = float(raw.double().var(1, correction=0).mean())
    contrast = max(settings.contrast * variance, torch.finfo(raw.dtype).tiny) if variance else 1.0
    lively = raw[raw.var(1, correction=0) > contrast]  # an image's blank places would all be the same filter
    patches = F.layer_norm(lively if len(lively) else raw, raw.shape[1:], eps=contrast)
    if flips:
        patches = torch.cat([patches, mirrored(patches, side)])
    mean, whiten = whitening_of(patches, settings.whitening)
    white = ((patches.double() - mean) @ whiten).float()
    most = settings.filters or min(FILTERS[settings.size], PER_NUMBER * raw.shape[1])
    chosen = _chosen(white, max(1, most // parts), settings.pick, random)
    weights = whiten @ chosen.double().T
    # whitened patches have no mean; that of patches and mirrored patches is its own mirror image
    added = -(mean @ weights) - settings.threshold
    if flips:
        weights, added = torch.cat([weights, mirrored(weights.T, side).T], 1), torch.cat([added, added])
    filters = torch.cat([weights, added[None]]).float()
    both = settings.sides == "both"
    return PatchLayer(filters, side, settings.grid, contrast, settings.threshold, both, flips, low_precision)


def _chosen(white: Tensor, count: int, pick: str, random: torch.Generator) -> Tensor:
    """Filters of length 1: some of the whitened patches, or the centres of clusters of them."""
    if pick == "kmeans":
        return cluster_centres(white, count, random)
    rows = torch.randint(len(white), (count,), generator=random).to(white.device)
    return F.normalize(white[rows])


def tells_mirrored(images: Tensor, settings: AnalyticSettings, random: torch.Generator) -> bool:
    """Whether a linear classifier tells mirror images from images, on images that it was not made from.

    It does for digits and letters, and hardly for photographs. Its features are those of few filters.
    """
    images = images[:MIRROR_ROWS]
    few = replace(settings, filters=MIRROR_FILTERS, patch=(), pick="random")
    layer = _fitted_layer(images, default_side(images), 1, few, flips=False, low_precision=False, random=random)
    straight, turned = layer(images).flatten(1), layer(images.flip(3)).flatten(1)
    differences = (straight - turned).double()
    learn, test = differences[::2], differences[1::2]
    if not len(test):
        return True
    size = learn.shape[1]
    ridge = learn.square().sum() / size * 0.1 + 1e-12
    square = learn.T @ learn + ridge * torch.eye(size, dtype=learn.dtype, device=learn.device)
    direction = torch.linalg.solve(square, learn.sum(0))
    return float((test @ direction > 0).double().mean()) > TELLS


def _positive(answers: Tensor, in_place: bool) -> Tensor:
    """ReLU. Read as 16-bit integers, negative bfloat16 numbers are negative too, and integers are faster."""
    half = answers.dtype == torch.bfloat16
    numbers = answers.view(torch.int16) if half else answers
    above = numbers.clamp_min_(0) if in_place else numbers.clamp_min(0)
    return above.view(torch.bfloat16) if half else above
