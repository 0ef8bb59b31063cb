"""Uploaded images as the inputs of a model, made as `engram learn` and `engram predict` make them."""

from __future__ import annotations

import io

import numpy as np

from engram.data.folder import ImageForm
from engram.errors import DataError, InputError
from engram.learner import Learner


def prepare_image(content: bytes, learner: Learner) -> np.ndarray:
    """One sample in the form that the model has learnt."""
    try:
        found = image_form(learner).read(io.BytesIO(content))
    except DataError as error:
        raise InputError(f"It {error}: send a PNG or JPEG.") from error
    form = learner.form_
    if form.layout == "channels first":
        return found.reshape(*form.shape[1:], -1).transpose(2, 0, 1)
    return found.reshape(form.given)


def image_form(learner: Learner) -> ImageForm:
    """Of a model that the command line has taught, its own; of one that Python has, by the images it was given."""
    form, notes = learner.form_, learner.notes_.get("form", {})
    if "height" in notes:
        return ImageForm(**notes)
    if len(form.shape) != 3:
        raise InputError("This model takes no images: send its inputs as JSON to /api/predict.")
    if form.kind != "uint8" or form.shape[0] == 4:
        raise InputError(
            "This model has learnt images in numbers of its own making, and files cannot be brought to them: send "
            "such numbers as JSON to /api/predict."
        )
    return ImageForm(*form.shape[1:], colour=form.shape[0] == 3)
