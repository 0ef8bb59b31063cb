"""Uploaded images as the inputs of a model."""

from __future__ import annotations

import io
import warnings

import numpy as np
from PIL import Image, ImageOps

from engram.errors import InputError
from engram.inputs import InputForm


def prepare_image(content: bytes, form: InputForm) -> np.ndarray:
    """One sample in the form that the model has learnt."""
    if form.layout == "table":
        raise InputError("This model takes tables and no images: send rows of numbers as JSON to /api/predict.")
    if form.kind != "uint8" or form.shape[0] == 4:
        raise InputError(
            "This model has learnt images in numbers of its own making, and files cannot be brought to them: send "
            "such numbers as JSON to /api/predict."
        )
    channels, height, width = form.shape
    try:
        with warnings.catch_warnings(), Image.open(io.BytesIO(content)) as image:
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            upright = ImageOps.exif_transpose(image).convert("L" if channels == 1 else "RGB")
            found = np.asarray(ImageOps.fit(upright, (width, height), Image.Resampling.LANCZOS))
    except Exception as error:  # what pillow's many decoders raise for broken files is not to be foreseen
        raise InputError(f"It cannot be read as an image ({type(error).__name__}): send a PNG or JPEG.") from error
    rows = found.reshape(height, width, channels).transpose(2, 0, 1)
    return rows.transpose(1, 2, 0) if form.layout == "channels last" else rows.reshape(form.given)
