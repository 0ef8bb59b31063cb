"""Generated images as one picture, a row for each class."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

LABEL_WIDTH = 90
SMALLEST = 32
"""pixels that an image shall at least be wide and high in the picture"""


def write_grid(path: Path, rows: dict[str, np.ndarray]) -> None:
    """Images (uint8, N x C x H x W) side by side, their class's name before them."""
    count, channels, height, width = next(iter(rows.values())).shape
    zoom = max(1, -(-SMALLEST // min(height, width)))
    tall, wide = height * zoom + 2, width * zoom + 2
    sheet = Image.new("RGB", (LABEL_WIDTH + count * wide, len(rows) * tall), "white")
    draw = ImageDraw.Draw(sheet)
    for row, (name, images) in enumerate(rows.items()):
        draw.text((4, row * tall + tall // 2 - 6), name, fill="black")
        coloured = np.repeat(images, 3, 1) if channels == 1 else images[:, :3]
        for column, image in enumerate(coloured):
            picture = Image.fromarray(np.ascontiguousarray(image.transpose(1, 2, 0)))
            picture = picture.resize((width * zoom, height * zoom), Image.Resampling.NEAREST)
            sheet.paste(picture, (LABEL_WIDTH + column * wide, row * tall))
    path.parent.mkdir(parents=True, exist_ok=True)
    sheet.save(path)
