"""A conditional generator of images: three deconvolutions for the generator, three convolutions for its critic."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engram.generators.conditional import LEAK, ConditionalGAN, Growing, bend, grown
from engram.settings import GeneratorSettings, ReplaySettings

HALVINGS = 3
"""Each convolution halves an image, each deconvolution doubles it."""
KERNEL, STRIDE, PADDING = 4, 2, 1


class ImageGenerator(Growing):
    """[noise ; class] → 4·width small maps → 2·width → width → an image with values from −1 to 1."""

    def __init__(self, settings: GeneratorSettings, shape: tuple[int, int, int]) -> None:
        super().__init__()
        width = settings.generator_width
        self.shape = shape
        self.start = (4 * width, _small(shape[1]), _small(shape[2]))
        size = self.start[0] * self.start[1] * self.start[2]
        self.enter = nn.Linear(settings.noise, size)
        self.classes = nn.Parameter(torch.empty(0, size))
        channels = (4 * width, 2 * width, width, shape[0])
        self.layers = nn.ModuleList(
            nn.ConvTranspose2d(channels[i], channels[i + 1], KERNEL, STRIDE, PADDING) for i in range(HALVINGS)
        )

    def forward(self, noise: Tensor, columns: Tensor) -> Tensor:
        x = (self.enter(noise) + self.classes[columns]).view(-1, *self.start)
        for layer in self.layers:
            x = layer(F.leaky_relu(x, LEAK))
        return x[:, :, : self.shape[1], : self.shape[2]].tanh()

    def grow(self, classes: int) -> None:
        self.classes = grown(self.classes, classes, 0.5)


class ImageCritic(Growing):
    """An image → width → 2·width → 4·width small maps → how real it looks, and a score for each class."""

    def __init__(self, settings: GeneratorSettings, shape: tuple[int, int, int]) -> None:
        super().__init__()
        width = settings.generator_width
        self.size = shape[1:]
        channels = (shape[0], width, 2 * width, 4 * width)
        self.layers = nn.ModuleList(
            nn.Conv2d(channels[i], channels[i + 1], KERNEL, STRIDE, PADDING) for i in range(HALVINGS)
        )
        self.last = (4 * width, _small(shape[1]), _small(shape[2]))
        self.judge = nn.Linear(self.last[0] * self.last[1] * self.last[2], 1)
        self.classes = nn.Parameter(torch.empty(0, self.judge.in_features))

    def features(self, x: Tensor) -> Tensor:
        x = self._whole(x)
        for layer in self.layers:
            x = F.leaky_relu(layer(x), LEAK)
        return x.flatten(1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        found = self.features(x)
        return self.judge(found)[:, 0], F.linear(found, self.classes)

    def slope(self, x: Tensor, columns: Tensor | None = None) -> Tensor:
        """Written out, backwards through the layers: linear wherever no unit changes its sign."""
        bends = []
        with torch.no_grad():
            x = self._whole(x)
            for layer in self.layers:
                x = layer(x)
                bends.append(bend(x))
                x = x * bends[-1]
        judge = self.judge.weight if columns is None else self.judge.weight + self.classes[columns]
        slope = judge.expand(len(x), -1).view(-1, *self.last)
        for layer, bent in zip(reversed(self.layers), reversed(bends), strict=True):
            assert isinstance(layer, nn.Conv2d)
            slope = F.conv_transpose2d(slope * bent, layer.weight, None, STRIDE, PADDING)
        return slope[:, :, : self.size[0], : self.size[1]]

    def grow(self, classes: int) -> None:
        self.classes = grown(self.classes, classes, self.classes.shape[1] ** -0.5)

    def _whole(self, x: Tensor) -> Tensor:
        """Padded to a size that can be halved so often."""
        factor = 2**HALVINGS
        return F.pad(x, (0, self.last[2] * factor - self.size[1], 0, self.last[1] * factor - self.size[0]))


class ImageGAN(ConditionalGAN):
    """Learns the images of class after class; those of earlier classes it learns from its former self."""

    def __init__(
        self, settings: ReplaySettings, shape: tuple[int, int, int], device: torch.device, low_precision: bool
    ) -> None:
        self.shape = shape
        super().__init__(settings, ImageGenerator(settings, shape), ImageCritic(settings, shape), device, low_precision)

    def standardise(self, samples: Tensor) -> None:
        """The first images' range becomes −1 to 1; later ones may leave it, and are generated within it."""
        low, high = float(samples.amin()), float(samples.amax())
        self.shift, self.scale = (low + high) / 2, (high - low) / 2 or 1.0

    def picture(self, columns: Tensor, random: torch.Generator) -> Tensor:
        """Generated images with values from 0 to 1, for people to look at."""
        return (self._make(self.generator, columns, random) + 1) / 2


def _small(size: int) -> int:
    return -(-size // 2**HALVINGS)
