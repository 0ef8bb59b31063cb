"""The model that is served: asked by one thread, taught on a copy, and replaced when the copy is safe on disk."""

from __future__ import annotations

import copy
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from engram.commands.model import lessons_of, now
from engram.errors import EngramError, InputError
from engram.inputs import check_inputs, check_labels
from engram.learner import Learner
from engram.methods.analytic import AnalyticMethod
from engram.serving.images import prepare_image


class BusyError(EngramError):
    """Somebody else is teaching the model."""


@dataclass(frozen=True)
class Upload:
    """A file as it came."""

    name: str
    content: bytes


class ServedModel:
    """Predictions come from the last good learner, whatever is being learnt."""

    def __init__(self, path: str, learner: Learner) -> None:
        self.path = path
        self.learner = learner
        self.asking = ThreadPoolExecutor(1, "predictions")
        """one thread, as a network cannot be switched to evaluation by several at a time"""
        self._teaching = threading.Lock()
        ready(learner)

    @property
    def busy(self) -> bool:
        """Whether a task is being learnt."""
        return self._teaching.locked()

    def about(self) -> dict[str, Any]:
        learner = self.learner
        return {
            "recipe": learner.recipe_.name,
            "classes": sorted(learner.table_.seen),
            "tasks": learner.tasks_,
            "input": {
                "layout": learner.form_.layout,
                "shape": list(learner.form_.given),
                "type": learner.form_.kind,
            },
            "learning": self.busy,
        }

    def answers(self, inputs: Any, top: int) -> list[dict[str, Any]]:
        """The most probable classes of each input, the first of them first."""
        learner = self.learner
        probabilities = learner.predict_proba(inputs)
        order = np.argsort(-probabilities, axis=1, kind="stable")[:, : min(top, len(learner.table_.seen))]
        return [
            {"classes": learner.classes_[chosen].tolist(), "probabilities": row[chosen].tolist()}
            for row, chosen in zip(probabilities, order, strict=True)
        ]

    def answers_to_images(self, uploads: list[Upload], top: int) -> list[dict[str, Any]]:
        """An answer for each file, or what is wrong with it."""
        found: list[dict[str, Any]] = [{"name": upload.name} for upload in uploads]
        good, images = [], []
        for entry, upload in zip(found, uploads, strict=True):
            try:
                images.append(prepare_image(upload.content, self.learner))
                good.append(entry)
            except InputError as error:
                entry["error"] = str(error)
        for entry, answer in zip(good, self.answers(np.stack(images), top) if images else [], strict=True):
            entry |= answer
        return found

    def learn(self, inputs: Any, labels: Any) -> dict[str, Any]:
        """One further task; whatever happens, the file and the answers are the old ones or the new ones."""
        if not self._teaching.acquire(blocking=False):
            raise BusyError("The model is learning something else: try again when it is done.")
        try:
            x = check_inputs(inputs)
            known = set(self.learner.table_.seen)
            names = check_labels(labels, len(x))
            twin = copy.deepcopy(self.learner).partial_fit(x, names)
            learnt = {
                str(name): {"learnt": n, "held_out": 0, "right": 0} for name, n in Counter(names.tolist()).items()
            }
            lessons_of(twin).append({"when": now(), "classes": learnt})
            ready(twin)
            twin.save(self.path)
            self.learner = twin
            return {"learnt": len(x), "new": [label for label in twin.table_.seen if label not in known]}
        finally:
            self._teaching.release()

    def learn_images(self, uploads: list[Upload], labels: list[str]) -> dict[str, Any]:
        """All of these files, or none if one of them cannot be read."""
        if len(labels) not in (1, len(uploads)):
            raise InputError(
                f"There are {len(uploads)} images and {len(labels)} labels: give one for each, or for all."
            )
        images = []
        for upload in uploads:
            try:
                images.append(prepare_image(upload.content, self.learner))
            except InputError as error:
                raise InputError(f"{upload.name}: {error}") from error
        every = labels if len(labels) == len(uploads) else labels * len(uploads)
        return self.learn(np.stack(images), [self._label(text) for text in every])

    def _label(self, text: str) -> Any:
        """Forms hold text only: numbers where the model's classes are numbers."""
        if self.learner.classes_.dtype.kind == "U":
            return text
        try:
            return int(text)
        except ValueError:
            raise InputError(f"The classes of this model are whole numbers, and {text!r} is none.") from None


def ready(learner: Learner) -> None:
    """The closed form solves for its head when it is first asked: not while somebody waits for an answer."""
    if isinstance(learner.method_, AnalyticMethod):
        learner.method_.head()
