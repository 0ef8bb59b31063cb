"""Closed-form learning: features fixed after the first task, running sums, and a head that is solved for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor

from engram.closed_form.heads import STEP, Head, best_strength, nearest_mean, solved_head
from engram.closed_form.holdout import fair_sample, held_out
from engram.closed_form.sums import Sums
from engram.closed_form.temperature import expected_accuracy, sharpness
from engram.closed_form.triangles import BLOCK
from engram.distributed import world
from engram.errors import EngramError, InputError
from engram.lesson import Lesson, Position, State, Watch
from engram.networks.frozen import FrozenFeatures, check_given
from engram.networks.patches import PatchFeatures
from engram.networks.random_features import RandomFeatures
from engram.networks.text_features import TextFeatures
from engram.randomness import generator
from engram.settings import AnalyticSettings, HeadSettings
from engram.text.encoder import TextEncoder

FIT_ROWS = 2048
"""of the first task, from which the features are made"""
MEGABYTE = 1 << 20


class FeatureMap(Protocol):
    """Features of raw inputs, a row a sample; fixed."""

    def __call__(self, x: Tensor) -> Tensor: ...

    def plain(self) -> Callable[[Tensor], Tensor]: ...


class AnalyticMethod:
    """Given the features, the same head whatever the order, grouping and number of tasks."""

    def __init__(
        self,
        settings: AnalyticSettings,
        head: HeadSettings,
        seed: int,
        device: torch.device,
        low_precision: bool,
        network: torch.nn.Module | None = None,
        texts: TextEncoder | None = None,
    ) -> None:
        self.settings = settings
        self.head_settings = head
        self.seed = seed
        self.device = device
        self.low_precision = low_precision
        self.frozen = None if network is None else FrozenFeatures(network, device, low_precision)
        self.texts = texts
        self.map: FeatureMap | None = None
        self.done = 0
        """rows of the task under way that are in the sums"""
        self._head: Head | None = None
        self._measures: dict[str, Any] = {}

    # --- learning ---

    def learn(self, lesson: Lesson, watch: Watch) -> None:
        """One pass over a task, or what is left of it where `restore` has left it."""
        with self._computing():
            if self.map is None:
                self._fix_features(lesson.x)
                world().agree(self._feature_state().tensors.values())
            self.sums.widen(lesson.width)
            with self._summed_up():
                self._go_over(lesson, watch)
            self.done = 0

    def _go_over(self, lesson: Lesson, watch: Watch) -> None:
        rows, everyone = self.head_settings.rows, world()
        steps = -(-len(lesson.y) // rows)
        for step in range(self.done // rows, steps):
            part = slice(step * rows, (step + 1) * rows)
            if step % everyone.size == everyone.rank:
                self._add(lesson.x[part], lesson.y[part])
            self.done = (step + 1) * rows
            watch.stepped(Position(0, 1, step + 1, steps, len(lesson.y[part])))

    @contextmanager
    def _summed_up(self) -> Iterator[None]:
        """Each process adds some rows in here, the first to what was known before; afterwards all know everything."""
        if world().rank:
            self.empty(self.sums.columns)
        yield
        for tensor in self.sums.state().tensors.values():
            for part in tensor.view(-1, tensor.shape[-1]).split(BLOCK):  # a whole copy would be large
                world().sum([part])
        self._head = None

    def _fix_features(self, x: Tensor) -> None:
        """From a sample of the first task that does not depend on the order of its rows."""
        sample = fair_sample(x, FIT_ROWS)
        random = generator(self.seed, "features")
        if self.frozen is not None:
            self.map = self.frozen
        elif self.texts is not None:
            self.map = TextFeatures.make(self.texts, self.settings, random)
        elif x.ndim == 4:
            self.map = PatchFeatures.fit(sample, self.settings, random, self.low_precision)
        else:
            self.map = RandomFeatures.fit(sample, self.settings, random)
        raw = self._raw(sample).double()
        self.shift, spread = raw.mean(0), raw.std(0, correction=0)
        varies = spread > 1e-6 * self.shift.abs().clamp_min(1e-12)  # the rest is rounding
        self.scale = torch.where(varies, 1 / spread, 1.0)
        self.sums = Sums(raw.shape[1], self.head_settings.class_memory * MEGABYTE, self.device)

    def _add(self, x: Tensor, y: Tensor, sign: int = 1) -> None:
        self.sums.add(self._features(x), y, held_out(x), sign)
        self._head = None

    def _raw(self, x: Tensor) -> Tensor:
        assert self.map is not None
        with torch.no_grad():
            raw = torch.cat([self.map(part) for part in x.split(self.head_settings.rows)])
        if not torch.isfinite(raw).all():  # sums could never be rid of them again
            raise EngramError("Features of these samples are not finite numbers: check the network or the inputs.")
        return raw

    def _features(self, x: Tensor) -> Tensor:
        raw = self._raw(x)
        return raw.sub_(self.shift.to(raw.dtype)).mul_(self.scale.to(raw.dtype))

    @contextmanager
    def _computing(self) -> Iterator[None]:
        """With bfloat16, products of float32 matrices may be as precise as that too, where it is faster."""
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("medium" if self.low_precision else "highest")
        try:
            yield
        finally:
            torch.set_float32_matmul_precision(before)

    # --- predicting ---

    def features(self, x: Tensor) -> Tensor:
        with self._computing():
            return torch.cat([self._features(part) for part in x.split(self.head_settings.rows)]).float()

    def extract(self, x: Tensor) -> Tensor:
        return self.features(x)

    def generate(self, columns: Tensor, random: torch.Generator) -> Tensor | None:
        return None

    def images(self, columns: Tensor, random: torch.Generator) -> Tensor | None:
        return None

    def scores(self, x: Tensor) -> Tensor:
        head = self.head()
        with self._computing():
            parts = x.split(self.head_settings.rows)
            return torch.cat([self._features(part).double() @ head.weights + head.bias for part in parts])

    def head(self) -> Head:
        """Solved for when it is first asked for after the sums have changed."""
        if self._head is None:
            self._head = self._solve()
        return self._head

    def _solve(self) -> Head:
        kind = self.head_settings.kind
        strength = self.head_settings.ridge
        if kind != "ncm" and strength is None:
            strength = STEP ** best_strength(self.sums)
        part, whole = self._head_of(0, kind, strength), self._head_of(2, kind, strength)
        factor = sharpness(part, self.sums)
        self._measures = {"ridge": strength, "temperature": 1 / factor}
        return Head(whole.weights * factor, whole.bias * factor)

    def _head_of(self, part: int, kind: str, strength: float | None) -> Head:
        moments = self.sums.moments(part)
        if strength is None:
            return nearest_mean(moments)
        head = solved_head(moments, strength, kind == "lda")
        if head is None:
            raise EngramError(f"The regulariser of {strength:g} is too weak for these features: raise ridge.")
        return head

    def expected_accuracy(self, columns: list[int]) -> float | None:
        """What the sums let expect on these columns' classes, by rows not learnt from where there are some."""
        self.head()
        part = self._head_of(0, self.head_settings.kind, self._measures["ridge"])
        return expected_accuracy(part, self.sums, columns)

    def encoder(self) -> torch.nn.Module | None:
        return None

    def exportable(self) -> torch.nn.Module | None:
        return ClosedFormScores(self)

    def traces(self) -> dict[str, float]:
        return {}

    def measures(self) -> dict[str, Any]:
        """How the head that was last solved for was chosen, and from how many features."""
        return self._measures | {"features": self.sums.width}

    # --- taking out, and putting together ---

    def forget(self, x: Tensor, y: Tensor) -> None:
        """Take samples out of the sums again."""
        with self._computing():
            for start in range(0, len(y), self.head_settings.rows):
                part = slice(start, start + self.head_settings.rows)
                self._add(x[part], y[part], sign=-1)

    def counts(self) -> Tensor:
        """How many rows of each column's class there are."""
        return self.sums.counts.sum(0)

    def forget_columns(self, columns: list[int]) -> None:
        self.sums.forget(columns)
        self._head = None

    def keep_columns(self, columns: list[int]) -> None:
        self.sums.keep(columns)
        self._head = None

    def empty(self, columns: int) -> None:
        """As if nothing had been learnt, the features apart."""
        self.sums = Sums(self.sums.width, self.sums.limit, self.device)
        self.sums.widen(columns)
        self._head = None

    def merge(self, other: AnalyticMethod, columns: dict[int, int], width: int) -> None:
        """Add what another has learnt; `columns` says which of ours its columns are."""
        ours, theirs = self._feature_state(), other._feature_state()
        tensors = [(tensor, theirs.tensors.get(name)) for name, tensor in ours.tensors.items()]
        if ours.meta != theirs.meta or not all(b is not None and torch.equal(a, b) for a, b in tensors):
            raise InputError("The two learners have different features: start the one as a `blank()` of the other.")
        self.sums.widen(width)
        self.sums.merge(other.sums, columns)
        self._head = None

    # --- state ---

    def state(self) -> State:
        state = State(meta={"fitted": self.map is not None, "done": self.done})
        if self.map is None:
            return state
        for name, part in (("features", self._feature_state()), ("sums", self.sums.state())):
            state.put(name, part.tensors)
            state.meta[name] = part.meta
        return state

    def _feature_state(self) -> State:
        if isinstance(self.map, PatchFeatures | RandomFeatures | TextFeatures):
            state = self.map.state()
        else:
            assert self.frozen is not None
            state = State(meta={"network": self.frozen.fingerprint})
        state.tensors |= {"feature_shift": self.shift, "feature_scale": self.scale}
        return state

    def restore(self, state: State) -> None:
        self.done = state.meta["done"]
        self.map, self._head, self._measures = None, None, {}
        if not state.meta["fitted"]:
            return
        features = State(state.take("features"), state.meta["features"])
        self.shift, self.scale = (features.tensors.pop(name).clone() for name in ("feature_shift", "feature_scale"))
        if "network" in features.meta or self.frozen is not None:
            self.map = self._same_network(features.meta.get("network"))
        elif self.texts is not None:
            self.map = TextFeatures.from_state(features, self.texts)
        else:
            self.map = (PatchFeatures if "layers" in features.meta else RandomFeatures).from_state(features)
        self.sums = Sums.from_state(State(state.take("sums"), state.meta["sums"]))

    def _same_network(self, wanted: str | None) -> FeatureMap:
        check_given(wanted is not None, self.frozen is not None)
        assert self.frozen is not None
        if self.frozen.fingerprint != wanted:
            raise InputError("It was learnt with another network than the one given: its weights differ.")
        return self.frozen


class ClosedFormScores(torch.nn.Module):
    """From raw inputs to scores, all at once and in full precision."""

    def __init__(self, method: AnalyticMethod) -> None:
        super().__init__()
        assert method.map is not None
        self.module = None if method.frozen is None else method.frozen.module
        self.map, self.head = method.map.plain(), method.head()
        self.shift, self.scale = method.shift, method.scale

    def forward(self, x: Tensor) -> Tensor:
        raw = self.map(x)
        features = (raw - self.shift.to(raw.dtype)) * self.scale.to(raw.dtype)
        return features.double() @ self.head.weights + self.head.bias
