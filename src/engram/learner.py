"""The public face: arrays and labels in, labels out, with scikit-learn's habits."""

from __future__ import annotations

import copy
import operator
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import sklearn.exceptions
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from torch import Tensor, nn

from engram import files
from engram.classes import ClassTable
from engram.devices import resolve_device, resolve_precision
from engram.errors import EngramError, FileError, InputError
from engram.inputs import InputForm, check_classes, check_inputs, check_labels
from engram.lesson import Lesson, State, Watch
from engram.methods.analytic import AnalyticMethod
from engram.methods.base import Method
from engram.methods.registry import Start, start_method
from engram.networks.frozen import own_copy
from engram.randomness import generator, isolated
from engram.recipes import Recipe, as_recipe
from engram.settings import Precision, TextSettings
from engram.text.encoder import TextEncoder

LARGEST_SCORES = 1 << 24
"""scores that are worked on at a time where only the best of each sample is asked for"""


class NotFittedError(EngramError, sklearn.exceptions.NotFittedError):
    """The learner has not learnt anything yet."""


class Learner(ClassifierMixin, BaseEstimator):
    """A classifier that learns new classes, task after task, without keeping the old data.

    Parameters
    ----------
    recipe : a name in `engram.recipes.RECIPES`, or a `Recipe` (see `engram.recipe`) with settings of your own.
    epochs : passes over each task's data; None takes the recipe's. Recipes without a training loop have none.
    seed : of the weights and of everything random in training.
    precision : "float32", "bfloat16", or "auto" for the faster one on this machine.
    device : "cpu", "cuda", or "auto".
    network : a module of your own whose outputs are the features. A copy of it is used: in evaluation mode and never
        trained by the recipes analytic, lda and ncm; trained by the others, but for parameters that need no gradient
        and batch norms. It gets inputs as they are, as float32, images as samples x channels x height x width; files
        hold no code, so `load` must be given it again.
    embeddings : for texts, a file of word vectors in the text format of word2vec or GloVe, or a folder with several, of
        which the one is taken that knows most of the first task's words. None looks in the data folder's `embeddings`.
    """

    classes_: np.ndarray

    def __init__(
        self,
        recipe: str | Recipe = "analytic",
        *,
        epochs: int | None = None,
        seed: int = 0,
        precision: Precision = "auto",
        device: str = "auto",
        network: nn.Module | None = None,
        embeddings: str | None = None,
    ) -> None:
        self.recipe = recipe
        self.epochs = epochs
        self.seed = seed
        self.precision: Precision = precision
        self.device = device
        self.network = network
        self.embeddings = embeddings

    def fit(self, X: Any, y: Any) -> Self:
        """Forget everything, then learn this as the first task."""
        with self._all_or_nothing():
            for name in [name for name in vars(self) if name.endswith("_")]:
                delattr(self, name)
            return self.partial_fit(X, y)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Learn one further task.

        With `classes` given at the first call, the head has its full width from the start; otherwise it grows with
        each new class. Nothing of X and y is kept (recipe "joint" apart). A call that fails or is interrupted leaves
        the learner as it was.
        """
        return self.learn(X, y, classes, Watch())

    def learn(self, X: Any, y: Any, classes: Any, watch: Watch) -> Self:
        """`partial_fit` with somebody looking on."""
        x = check_inputs(X)
        labels = check_labels(y, len(x))
        with self._all_or_nothing():
            if not hasattr(self, "method_"):
                table = ClassTable(() if classes is None else check_classes(classes))
                self._start(InputForm.of(x), table, partial(TextEncoder.fit, x, self.embeddings))
            elif classes is not None and set(check_classes(classes)) != set(self.table_.columns):
                raise InputError("classes differs from that of the first call: leave it out after the first call.")
            rows = self._rows(x)
            self._go_on_or_begin(rows if self.texts_ else x, labels)
            self._set_table(self.table_.admit(labels))
            columns = torch.tensor(self.table_.encode(labels), device=self.device_)
            inputs = torch.tensor(rows, device=self.device_)
            self.method_.learn(Lesson(self.tasks_, inputs, columns, len(self.table_.columns)), watch)
            self.tasks_, self.under_way_ = self.tasks_ + 1, None
        return self

    def forget(self, X: Any = None, y: Any = None, *, classes: Any = None, keep_products: bool = False) -> Self:
        """Take samples, or whole classes, out of what was learnt, exactly; the features stay.

        Samples must be given as they were learnt, with the same labels; that they were is not known but by their
        number. Whole classes need sums of their own (see `head.class_memory`). Without, `keep_products` forgets a
        class's mean and never predicts it again, while what its samples told of how features vary together remains.
        """
        method = self._closed_form("forget")
        if [X is None, y is None, classes is None] not in ([False, False, True], [True, True, False]):
            raise InputError("forget takes either X and y, or classes.")
        if keep_products and classes is None:
            raise InputError("Products are kept of classes only: leave keep_products out when forgetting samples.")
        with self._all_or_nothing():
            if classes is None:
                self._forget_samples(method, check_inputs(X), y)
            else:
                self._forget_classes(method, check_classes(classes), keep_products)
            seen = zip(self.table_.columns, method.counts().tolist(), strict=True)
            table, kept = self.table_.without(label for label, count in seen if not count)
            method.keep_columns(kept)
            self._set_table(table)
        return self

    def merge(self, other: Learner) -> Self:
        """Add what another learner with the same features has learnt; see `blank`. It is as if one had learnt both."""
        if not isinstance(other, Learner):
            raise InputError(f"Only a Learner can be merged with another, not {other!r}.")
        method, theirs = self._closed_form("merge"), other._closed_form("merge")
        if self.form_ != other.form_:
            raise InputError("The two learners have learnt inputs of different shapes.")
        with self._all_or_nothing():
            self._set_table(self.table_.united(other.table_))
            ours = self.table_.columns
            columns = {other.table_.columns[label]: ours[label] for label in other.table_.seen}
            method.merge(theirs, columns, len(ours))
            self.tasks_ += other.tasks_
        return self

    def blank(self) -> Self:
        """A learner with the same features that has learnt nothing: what it learns can be merged with this one."""
        self._closed_form("blank")
        twin = copy.deepcopy(self)
        twin._set_table(self.table_.without(self.table_.seen)[0])
        twin._closed_form("blank").empty(len(twin.table_.columns))
        twin.tasks_ = 0
        return twin

    def encoder(self) -> nn.Module:
        """A frozen copy of the trained network, from raw inputs to features: a `network` for another learner."""
        self._check_fitted()
        encoder = self.method_.encoder()
        if encoder is None:
            raise InputError(f"Recipe {self.recipe_.name!r} trains no network, so that there is no encoder to take.")
        return encoder

    def exportable(self) -> nn.Module:
        """A copy of what gives raw inputs their scores, in plain operations: see `engram.export`."""
        self._check_known()
        if self.texts_ is not None:
            raise InputError("Models of text cannot be exported: to split texts into words takes more than numbers.")
        module = self.method_.exportable()
        if module is None:
            raise InputError(
                f"Recipe {self.recipe_.name!r} cannot be exported: the closed form and recipes that train one network "
                "by gradient can."
            )
        return module

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each sample, among the classes learnt so far."""
        x = self._tensor(X)
        parts = x.split(LARGEST_SCORES // max(1, len(self.classes_)) or 1)
        best = [self._scores_of(part).argmax(1) for part in parts]
        return self.classes_[np.concatenate(best)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities in the order of `classes_`; 0 for classes that were announced but not learnt yet."""
        scores = self._class_scores(X)
        exponentials = np.exp(scores - scores.max(1, keepdims=True))
        return exponentials / exponentials.sum(1, keepdims=True)

    def features(self, X: Any) -> np.ndarray:
        """What the head sees of each sample."""
        x = self._tensor(X)
        return self.method_.features(x).cpu().numpy()

    def extract(self, X: Any) -> np.ndarray:
        """The extractor's own features of each sample, without what ingredients do at prediction."""
        return self.method_.extract(self._tensor(X)).cpu().numpy()

    def generate(self, y: Any) -> np.ndarray | None:
        """Generated features of samples of these classes, for recipes that generate features; None for others."""
        columns = self._learnt_columns(y)
        features = self.method_.generate(columns, generator(self.seed_, "generate"))
        return None if features is None else features.cpu().numpy()

    def images(self, y: Any) -> np.ndarray | None:
        """Generated images (uint8, N x C x H x W) of these classes, for recipes that generate images; None for others.

        They are for people to look at: black and white are the darkest and lightest values of the first task.
        """
        columns = self._learnt_columns(y)
        images = None if self.texts_ is not None else self._generated(columns)
        return None if images is None else (255 * images).round().to(torch.uint8).cpu().numpy()

    def texts(self, count: int) -> list[str] | None:
        """Generated texts of old classes, as many, for recipes that generate texts; None for others."""
        columns = self._learnt_columns(np.resize(self.table_.seen, count))
        if self.texts_ is None or (numbers := self._generated(columns)) is None:
            return None
        return self.texts_.decode(numbers.cpu().numpy())

    def measures(self) -> dict[str, Any]:
        """What the ingredients have measured of the task just learnt; empty after `load`."""
        self._check_fitted()
        return self.method_.measures()

    def expected_accuracy(self, classes: Any) -> float | None:
        """What stored sums let expect on samples of these learnt classes, without any; None where nothing can tell.

        Closed-form recipes only. It takes scores for spread alike in all classes, so that it shows how much is lost to
        further classes rather than how much there is.
        """
        columns = self._learnt_columns(classes).tolist()
        return self.method_.expected_accuracy(columns) if isinstance(self.method_, AnalyticMethod) else None

    def projector_traces(self) -> dict[str, float]:
        """For recipes with OWM: the share of each layer's input space that is still free."""
        self._check_fitted()
        return self.method_.traces()

    def save(self, path: str | Path) -> None:
        """Write the learner to one file, whole or not at all."""
        state = self.state()
        files.save(path, state.tensors, state.meta, kind="model")

    @classmethod
    def load(
        cls,
        path: str | Path,
        recipe: str | Recipe | None = None,
        device: str = "auto",
        network: nn.Module | None = None,
    ) -> Self:
        """Read what `save` wrote; no code is run. A recipe that is not in RECIPES and a network must be given again."""
        tensors, meta = files.load(path, kind="model")
        try:
            base = as_recipe(recipe or meta["recipe"])
            if base.name != meta["recipe"]:
                raise InputError(f"It was learnt with the recipe {meta['recipe']!r} and not with {base.name!r}.")
            chosen = base.changed(_tuples(meta["settings"])).reordered(meta["order"])
            learner = cls(chosen, **meta["parameters"], device=device, network=network)
            learner.restore(State(tensors, meta))
        except InputError as error:
            raise FileError(f"{path} cannot be loaded like this: {error}") from error
        except Exception as error:  # a forged file, its checksum included, may break anything
            reason = (str(error).splitlines() or [""])[0] or type(error).__name__
            raise FileError(f"{path} is not a model that this version of Engram can read: {reason}") from error
        return learner

    def state(self) -> State:
        """All that the learner's future depends on, also in the middle of a task; the tensors are the live ones."""
        self._check_fitted()
        state = self.method_.state()
        state.meta |= {
            "recipe": self.recipe_.name,
            "settings": self.recipe_.settings(),
            "order": list(self.recipe_.ingredients),
            "parameters": {"seed": self.seed_, "precision": self.precision},
            "form": {"layout": self.form_.layout, "shape": list(self.form_.shape), "kind": self.form_.kind},
            "classes": self.table_.state(),
            "tasks": self.tasks_,
            "under_way": self.under_way_,
            "notes": self.notes_,
        }
        if self.texts_ is not None:
            own = self.texts_.state()
            state.put("text", own.tensors)
            state.meta["text"] = own.meta
        return state

    def restore(self, state: State) -> None:
        """Take on a state; a task that was under way goes on with the next `learn` of the same data."""
        meta = state.meta
        form = InputForm(meta["form"]["layout"], tuple(meta["form"]["shape"]), meta["form"].get("kind", "float32"))
        texts = State(state.take("text"), meta.get("text", {}))
        self._start(form, ClassTable.from_state(meta["classes"]), partial(TextEncoder.from_state, texts))
        self.tasks_, self.under_way_ = meta["tasks"], meta["under_way"]
        self.notes_ = copy.deepcopy(meta.get("notes", {}))
        with isolated(self.device_):
            self.method_.restore(State({name: t.to(self.device_) for name, t in state.tensors.items()}, meta))

    def __getstate__(self) -> dict[str, Any]:
        """For copies: hooks tie a live method to its own network, so its state stands in for it."""
        plain = dict(vars(self))
        if "method_" in plain:
            plain["method_"] = self.method_.state()
        return plain

    def __setstate__(self, plain: dict[str, Any]) -> None:
        self.__dict__.update(plain)
        if "method_" in plain:
            self._revive(plain["method_"])

    def _revive(self, state: State) -> None:
        """A new method in this state; the parameters may have been changed since the learner was started."""
        with isolated(self.device_):
            self.method_ = self._new_method()
            self.method_.restore(state)

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """What fails or is interrupted in here leaves the learner as it was."""
        before = vars(self).copy()
        method = copy.deepcopy(self.method_.state()) if hasattr(self, "method_") else None
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            if method is not None:
                self._revive(method)
            raise

    def _start(
        self, form: InputForm, table: ClassTable, encoder: Callable[[TextSettings, torch.device], TextEncoder]
    ) -> None:
        chosen = as_recipe(self.recipe)
        if self.epochs is not None and "training" not in chosen.own:
            raise InputError(f"Recipe {chosen.name!r} has no epochs to set: leave epochs out.")
        if self.network is not None and not isinstance(self.network, nn.Module):
            raise InputError(f"network must be a torch.nn.Module, not {self.network!r}.")
        if self.epochs is not None:
            chosen = chosen.changed({"training": {"epochs": self.epochs}})
        self.recipe_ = chosen.settled(form.layout == "texts")
        self.seed_ = _check_seed(self.seed)
        self.form_ = form
        self._set_table(table)
        self.tasks_ = 0
        self.under_way_: int | None = None
        self.notes_: dict[str, Any] = {}
        """plain data that is kept in the file, such as how the command line reads inputs"""
        self.device_ = resolve_device(self.device)
        self.precision_ = resolve_precision(self.precision, self.device_, form.shape)
        self.network_ = None if self.network is None else own_copy(self.network, self.device_)
        self.texts_ = None if form.layout != "texts" else encoder(self._text_settings(), self.device_)
        self.method_ = self._new_method()
        self.n_features_in_ = int(np.prod(form.shape))

    def _new_method(self) -> Method:
        return start_method(
            Start(
                self.recipe_,
                self.form_.shape,
                len(self.table_.columns),
                self.seed_,
                self.device_,
                self.precision_ == "bfloat16",
                self.network_,
                self.texts_,
            )
        )

    def _text_settings(self) -> TextSettings:
        if self.recipe_.text is None:
            raise InputError(f"Recipe {self.recipe_.name!r} generates images, and these are texts: choose another.")
        return self.recipe_.text

    def _closed_form(self, wish: str) -> AnalyticMethod:
        self._check_fitted()
        if not isinstance(self.method_, AnalyticMethod):
            raise InputError(
                f"Recipe {self.recipe_.name!r} cannot {wish}: only sums can be added and subtracted, "
                "so use 'analytic', 'lda' or 'ncm'."
            )
        if self.under_way_ is not None:
            raise InputError(f"A task is under way: go on with the same X and y before you {wish}.")
        return self.method_

    def _forget_samples(self, method: AnalyticMethod, x: np.ndarray, y: Any) -> None:
        labels = check_labels(y, len(x))
        self._check_learnt(np.unique(labels).tolist())
        inputs = torch.tensor(self._rows(x), device=self.device_)
        method.forget(inputs, torch.tensor(self.table_.encode(labels), device=self.device_))

    def _forget_classes(self, method: AnalyticMethod, labels: list[Any], keep_products: bool) -> None:
        self._check_learnt(labels)
        if not (method.sums.apart or keep_products):
            raise InputError(
                "The classes' products are in one sum: forget the class's samples by forget(X, y), or its mean alone "
                "by keep_products=True; a larger head.class_memory, from the first task on, keeps them apart."
            )
        method.forget_columns([self.table_.columns[label] for label in labels])

    def _check_learnt(self, labels: list[Any]) -> None:
        seen = set(self.table_.seen)
        if strange := [label for label in labels if label not in seen]:
            raise InputError(f"Class {strange[0]!r} has not been learnt, so that it cannot be forgotten.")

    def _go_on_or_begin(self, x: np.ndarray, labels: np.ndarray) -> None:
        """A state from the middle of a task can only go on with that task's data, told by their checksum."""
        checksum = zlib.crc32(str(labels.tolist()).encode(), zlib.crc32(x.data))
        if self.under_way_ not in (None, checksum):
            raise InputError("A task is under way and this is other data: go on with the same X and y, or call fit.")
        self.under_way_ = checksum

    def _class_scores(self, X: Any) -> np.ndarray:
        """Scores in the order of `classes_`, -inf for classes not learnt yet."""
        return self._scores_of(self._tensor(X))

    def _scores_of(self, x: Tensor) -> np.ndarray:
        self._check_known()
        scores = self.method_.scores(x).double().cpu().numpy()[:, self.table_.sorted_columns()]
        scores[:, self.table_.unseen()] = -np.inf
        return scores

    def _generated(self, columns: Tensor) -> Tensor | None:
        return self.method_.images(columns, generator(self.seed_, "generate"))

    def _learnt_columns(self, y: Any) -> Tensor:
        self._check_fitted()
        labels = check_labels(y, None)
        if strange := sorted(set(labels.tolist()) - set(self.table_.seen), key=str):
            raise InputError(f"Class {strange[0]!r} has not been learnt: only learnt classes can be generated.")
        return torch.tensor(self.table_.encode(labels), device=self.device_)

    def _set_table(self, table: ClassTable) -> None:
        self.table_ = table
        self.classes_ = table.sorted()

    def _tensor(self, X: Any) -> Tensor:
        self._check_fitted()
        return torch.tensor(self._rows(check_inputs(X)), device=self.device_)

    def _rows(self, x: np.ndarray) -> np.ndarray:
        """Checked inputs as the method takes them: texts as rows of numbers."""
        arranged = self.form_.arrange(x)
        return arranged if self.texts_ is None else self.texts_.encode(arranged)

    def _check_known(self) -> None:
        self._check_fitted()
        if not self.table_.seen:
            raise NotFittedError("This Learner knows no class now: let it learn some first.")

    def _check_fitted(self) -> None:
        if not hasattr(self, "method_"):
            raise NotFittedError("This Learner has not learnt anything yet: call fit or partial_fit first.")


def _check_seed(seed: Any) -> int:
    try:
        number = operator.index(seed)
    except TypeError:
        number = -1
    if isinstance(seed, bool) or number < 0:
        raise InputError(f"seed must be a whole number of at least 0, not {seed!r}.")
    return number


def _tuples(settings: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """JSON knows lists only; settings hold tuples."""
    return {
        group: {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
        for group, values in settings.items()
    }
