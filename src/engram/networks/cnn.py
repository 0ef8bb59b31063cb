"""The convolutional extractor of Zeng et al. 2019, which the paper uses on images."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engram.networks.dropout import Dropout
from engram.networks.mlp import mlp_extractor
from engram.settings import NetworkSettings


class ConvBlock(nn.Module):
    """Replication pad 1 → 2x2 convolution → ReLU → dropout → 2x2 max-pool.

    The ReLU comes last here: it commutes with dropout's factors (never negative) and with the maximum, so the
    function is the same and the work a quarter.
    """

    def __init__(self, inputs: int, outputs: int, dropout: float) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 2, bias=False)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):  # which would pad in float32
            padded = F.pad(x, (1, 1, 1, 1), mode="replicate")
        return F.max_pool2d(self.dropout(self.conv(padded)), 2).relu()


def cnn_extractor(channels: int, height: int, width: int, settings: NetworkSettings) -> nn.Sequential:
    blocks: list[nn.Module] = []
    for filters in settings.filters:
        outputs = filters * (settings.width or 1)
        blocks.append(ConvBlock(channels, outputs, settings.dropout))
        channels, height, width = outputs, (height + 1) // 2, (width + 1) // 2
    return nn.Sequential(*blocks, nn.Flatten(), *mlp_extractor(channels * height * width, settings.hidden))
