"""The paper's rows as a table: a name, a method and the settings of its ingredients. Free of torch."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engram.data.sets import SetInfo
from engram.errors import InputError
from engram.settings import (
    AnalyticSettings,
    DGMSettings,
    EWCSettings,
    ExemplarSettings,
    ExperienceReplaySettings,
    FeatureDistillationSettings,
    FeatureReplaySettings,
    GPMSettings,
    HeadSettings,
    ICaRLSettings,
    IngredientSettings,
    InputReplaySettings,
    LwFSettings,
    MASSettings,
    NetworkSettings,
    OWMSettings,
    PGMASettings,
    RotationSettings,
    TextSettings,
    TrainingSettings,
)
from engram.settings.training import EPOCHS, TEXT_EPOCHS

_TRAINED: dict[str, type] = {"training": TrainingSettings, "network": NetworkSettings, "text": TextSettings}
METHOD_SETTINGS: dict[str, dict[str, type]] = {
    "gradient": _TRAINED,
    "joint": _TRAINED,
    "analytic": {"analytic": AnalyticSettings, "head": HeadSettings, "text": TextSettings},
    "dgm": {"dgm": DGMSettings},
    "pgma": {**_TRAINED, "pgma": PGMASettings},
}
"""Each method's own groups of settings; `engram.methods.registry` has the methods themselves."""


@dataclass(frozen=True)
class Recipe:
    """What `Learner` and `engram run` learn with: frozen settings, nothing live."""

    name: str
    about: str
    ingredients: Mapping[str, IngredientSettings] = field(default_factory=dict)
    """settings by group name; their order is the order of the ingredients' edits"""
    method: str = "gradient"
    """a key of METHOD_SETTINGS"""
    own: Mapping[str, Any] = field(default_factory=dict)
    """the method's own settings by group name; what is left out has its defaults"""

    def __post_init__(self) -> None:
        if self.method not in METHOD_SETTINGS:
            raise InputError(f"There is no method {self.method!r}: there are {', '.join(METHOD_SETTINGS)}.")
        defaults = {name: kind() for name, kind in METHOD_SETTINGS[self.method].items()}
        object.__setattr__(self, "own", defaults | dict(self.own))

    @property
    def training(self) -> TrainingSettings:
        """Of a method that trains by gradient; others have none."""
        return self.own["training"]

    @property
    def network(self) -> NetworkSettings:
        """Of a method that trains by gradient; others have none."""
        return self.own["network"]

    @property
    def text(self) -> TextSettings | None:
        """None where the method learns no texts."""
        return self.own.get("text")

    @property
    def epochs(self) -> int | None:
        """Passes over each task's data; None where the method counts its steps instead."""
        if "training" in self.own:
            return self.training.epochs
        return None if self.method == "dgm" else 1

    @property
    def keeps_data(self) -> bool:
        """Whether all samples are stored: only the upper bound does so."""
        return self.method == "joint"

    @property
    def grows(self) -> bool:
        """Whether what is stored grows with the number of tasks."""
        return self.method == "dgm"

    @property
    def exemplars(self) -> int:
        """How many samples are stored at most by recipes that store some."""
        return sum(group.memory for group in self.ingredients.values() if isinstance(group, ExemplarSettings))

    def groups(self) -> dict[str, Any]:
        """All settings by the name of their group."""
        return {**self.own, **self.ingredients}

    def settings(self) -> dict[str, dict[str, Any]]:
        """The same as plain JSON-able values."""
        return {name: dataclasses.asdict(group) for name, group in self.groups().items()}

    def changed(self, groups: Mapping[str, Mapping[str, Any]]) -> Recipe:
        """A copy with some settings replaced, by group: {"owm": {"alpha_hidden": 1e-3}}."""
        new = self.groups()
        for name, values in groups.items():
            if name not in new:
                raise InputError(f"Recipe {self.name!r} has no settings {name!r}; it has {', '.join(new)}.")
            if not isinstance(values, Mapping):
                raise InputError(f"Settings {name!r} must be given as a mapping of names to values, not {values!r}.")
            known = [f.name for f in dataclasses.fields(new[name])]
            for key in values:
                if key not in known:
                    raise InputError(f"Settings {name!r} have no {key!r}; they have {', '.join(known)}.")
            new[name] = dataclasses.replace(new[name], **values)
        return self.with_groups(new)

    def settled(self, texts: bool) -> Recipe:
        """A copy with the epochs that are usual for texts, or for anything else, where they were left open."""
        if "training" not in self.own or self.training.epochs is not None:
            return self
        return self.changed({"training": {"epochs": TEXT_EPOCHS if texts else EPOCHS}})

    def for_set(self, info: SetInfo) -> Recipe:
        """A copy with the paper's sizes for this set, where they were left open."""
        recipe = self.settled(info.texts)
        if "network" in self.own and not self.network.width:
            recipe = recipe.changed({"network": {"width": info.width}})
        if "network" in self.own and self.text is not None and info.filters and not self.text.filters:
            recipe = recipe.changed({"text": {"filters": info.filters}})
        return recipe

    def reordered(self, order: Sequence[str]) -> Recipe:
        """A copy whose ingredients make their edits in this order."""
        if sorted(order) != sorted(self.ingredients):
            raise InputError(
                f"The order of recipe {self.name!r} must name each of {', '.join(self.ingredients)} once, "
                f"not {', '.join(order) or 'nothing'}."
            )
        return dataclasses.replace(self, ingredients={name: self.ingredients[name] for name in order})

    def with_groups(self, groups: Mapping[str, Any]) -> Recipe:
        """A copy with these settings objects in the place of its own."""
        own, ingredients = ({name: groups[name] for name in part} for part in (self.own, self.ingredients))
        return dataclasses.replace(self, own=own, ingredients=ingredients)


_TABLE = [
    Recipe("analytic", "features of the first task and a head in closed form: one pass, any order", method="analytic"),
    Recipe(
        "lda",
        "linear discriminant analysis on the features of analytic",
        method="analytic",
        own={"head": HeadSettings(kind="lda")},
    ),
    Recipe(
        "ncm",
        "nearest class mean on the features of analytic",
        method="analytic",
        own={"head": HeadSettings(kind="ncm")},
    ),
    Recipe("finetune", "train on each task in turn, with no protection"),
    Recipe("owm", "orthogonal weight modification (Zeng et al. 2019)", {"owm": OWMSettings()}),
    Recipe("gfr", "generative feature replay and no other protection", {"replay": FeatureReplaySettings()}),
    Recipe(
        "owm+gfr",
        "OWM, and generated features of old classes for the head (Shen et al. 2021)",
        {"owm": OWMSettings(), "replay": FeatureReplaySettings()},
    ),
    Recipe(
        "owm+ssl",
        "OWM, and the self-supervised task of telling rotations (images only)",
        {"rotation": RotationSettings(), "owm": OWMSettings()},
    ),
    Recipe(
        "owm+ssl+gfr",
        "OWM, rotations and generated features: the paper's whole system (images only)",
        {"rotation": RotationSettings(), "owm": OWMSettings(), "replay": FeatureReplaySettings()},
    ),
    Recipe(
        "fd+gfr",
        "generated features with hard labels, and feature distillation (Liu et al. 2020)",
        {
            "replay": FeatureReplaySettings(labels="hard", share="by_classes", critic="conditional", alignment=1e-3),
            "distillation": FeatureDistillationSettings(),
        },
    ),
    Recipe(
        "gir",
        "generative input replay: generated images (MeRGAN) or texts (SeqGAN) of old classes",
        {"replay": InputReplaySettings()},
    ),
    Recipe(
        "owm+gir",
        "OWM, and generated images or texts of old classes for the whole network",
        {"owm": OWMSettings(), "replay": InputReplaySettings()},
    ),
    Recipe("ewc", "elastic weight consolidation (Kirkpatrick et al. 2017)", {"ewc": EWCSettings()}),
    Recipe("mas", "memory-aware synapses (Aljundi et al. 2018)", {"mas": MASSettings()}),
    Recipe("gpm", "gradient projection memory (Saha et al. 2021)", {"gpm": GPMSettings()}),
    Recipe("lwf", "learning without forgetting (Li & Hoiem 2016): old scores on new data stay", {"lwf": LwFSettings()}),
    Recipe(
        "icarl",
        "iCaRL (Rebuffi et al. 2017): it stores exemplars, 2,000 samples unless told otherwise",
        {"icarl": ICaRLSettings()},
    ),
    Recipe(
        "er",
        "experience replay, for scale: it stores exemplars, 2,000 samples unless told otherwise",
        {"er": ExperienceReplaySettings()},
    ),
    Recipe(
        "pgma",
        "parameter generation and model adaptation (Hu et al. 2019), on an extractor frozen after the first task",
        method="pgma",
    ),
    Recipe(
        "dgm",
        "dynamic generative memory (Ostapenko et al. 2019): a generator with masks that grows with tasks (images only)",
        method="dgm",
    ),
    Recipe("joint", "all data at once, the upper bound: it stores every sample", method="joint"),
]

RECIPES: dict[str, Recipe] = {entry.name: entry for entry in _TABLE}
"""By name; add your own here to use it by name everywhere."""


def recipe(name: str, **groups: Mapping[str, Any]) -> Recipe:
    """A recipe by name, with changed settings: recipe("owm", owm={"alpha_hidden": 1e-3})."""
    if name not in RECIPES:
        close = difflib.get_close_matches(str(name), RECIPES, 1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(RECIPES)}."
        raise InputError(f"There is no recipe {name!r}: {hint}")
    return RECIPES[name].changed(groups)


def as_recipe(named: Any) -> Recipe:
    """A recipe from its name, or as it is."""
    found = recipe(named) if isinstance(named, str) else named
    if not isinstance(found, Recipe):
        raise InputError(f"recipe must be a name in engram.recipes.RECIPES or a Recipe, not {found!r}.")
    return found
