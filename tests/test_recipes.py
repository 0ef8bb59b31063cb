import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from engram.errors import InputError
from engram.recipes import METHOD_SETTINGS, RECIPES, Recipe, recipe
from engram.settings import (
    AnalyticSettings,
    DGMSettings,
    EWCSettings,
    ExperienceReplaySettings,
    FeatureDistillationSettings,
    FeatureReplaySettings,
    GPMSettings,
    HeadSettings,
    ICaRLSettings,
    InputReplaySettings,
    LwFSettings,
    MASSettings,
    NetworkSettings,
    OWMSettings,
    PGMASettings,
    RotationSettings,
    TrainingSettings,
)


def test_the_table_lists_each_recipe_under_its_name() -> None:
    assert {"finetune", "owm", "joint"} <= set(RECIPES)
    assert all(name == entry.name and entry.about for name, entry in RECIPES.items())
    assert [name for name, entry in RECIPES.items() if entry.keeps_data] == ["joint"]


def test_recipes_with_exemplars_say_how_many_and_no_others_do() -> None:
    assert {name: entry.exemplars for name, entry in RECIPES.items() if entry.exemplars} == {"icarl": 2000, "er": 2000}
    assert recipe("icarl", icarl={"memory": 200}).exemplars == 200
    assert [name for name, entry in RECIPES.items() if entry.grows] == ["dgm"]


def test_changed_settings_leave_the_table_alone() -> None:
    changed = recipe("owm", owm={"alpha_hidden": 1e-3}, training={"epochs": 3})
    assert changed.settings()["owm"]["alpha_hidden"] == 1e-3
    assert changed.training == TrainingSettings(epochs=3)
    assert RECIPES["owm"].ingredients["owm"] == OWMSettings()
    assert recipe("owm") == RECIPES["owm"]


def test_a_recipe_has_the_groups_of_its_method_and_of_its_ingredients() -> None:
    assert list(recipe("owm").groups()) == ["training", "network", "text", "owm"]
    assert list(recipe("lda").groups()) == ["analytic", "head", "text"]
    assert recipe("lda", head={"rows": 5}).own["head"] == HeadSettings(kind="lda", rows=5)
    with pytest.raises(InputError, match="no settings 'training'; it has analytic, head"):
        recipe("analytic", training={"epochs": 2})
    with pytest.raises(InputError, match="no method 'magic': there are gradient, joint"):
        Recipe("mine", "", method="magic")


def test_every_method_can_be_started() -> None:
    from engram.methods.registry import METHODS

    assert set(METHODS) == set(METHOD_SETTINGS)


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (lambda: recipe("own"), "There is no recipe 'own': did you mean 'owm'?"),
        (lambda: recipe("jiont"), "did you mean 'joint'?"),
        (lambda: recipe("zzz"), "there are analytic, lda, ncm, finetune, owm, gfr"),
        (lambda: recipe(5), "There is no recipe 5"),  # pyright: ignore[reportArgumentType]
        (
            lambda: recipe("finetune", owm={}),
            "Recipe 'finetune' has no settings 'owm'; it has training, network, text.",
        ),
        (lambda: recipe("owm", owm={"alpha": 1}), "Settings 'owm' have no 'alpha'; they have alpha_conv,"),
        (lambda: recipe("owm", owm=5), "mapping"),  # pyright: ignore[reportArgumentType]
    ],
)
def test_a_wrong_name_is_refused_with_the_right_ones(call: Any, wanted: str) -> None:
    with pytest.raises(InputError) as caught:
        call()
    assert wanted in str(caught.value)


def test_another_order_of_the_ingredients_keeps_their_settings() -> None:
    chosen = recipe("owm+gfr", replay={"weight": 3.0})
    other = chosen.reordered(["replay", "owm"])
    assert list(chosen.ingredients) == ["owm", "replay"]
    assert list(other.ingredients) == ["replay", "owm"]
    assert other.settings() == chosen.settings()
    assert list(other.changed({"owm": {"alpha_conv": 1}}).ingredients) == ["replay", "owm"]


@pytest.mark.parametrize("order", [[], ["owm"], ["owm", "replay", "owm"], ["owm", "rotation"]])
def test_an_order_names_each_ingredient_once(order: list[str]) -> None:
    with pytest.raises(InputError, match="must name each of owm, replay once"):
        recipe("owm+gfr").reordered(order)


BAD = [
    *[(TrainingSettings, "epochs", value) for value in (0, -1, 2.5, "3", True)],
    *[(TrainingSettings, "batch_size", value) for value in (-1, 0, 1.5)],
    *[(TrainingSettings, "learning_rate", value) for value in (0, -0.1, math.nan, math.inf, "fast")],
    *[(TrainingSettings, "momentum", value) for value in (-0.1, 1, math.nan)],
    *[(TrainingSettings, "clip_norm", value) for value in (-1, math.nan, None)],
    *[(NetworkSettings, "filters", value) for value in ((4, 6), (1, 2, 3, 4), (0, 1, 2), 64, "abc", (1.5, 2, 3))],
    *[(NetworkSettings, "dropout", value) for value in (-0.1, 1, 1.5, math.nan, "a")],
    *[(NetworkSettings, name, value) for name in ("width", "hidden") for value in (-3, 2.5)],
    (NetworkSettings, "hidden", 0),
    *[(OWMSettings, f"alpha_{kind}", value) for kind in ("conv", "first", "hidden", "last") for value in (0, -1.0)],
    *[(OWMSettings, "head", value) for value in ("fre", None)],
    *[(RotationSettings, "weight", value) for value in (-1, math.inf)],
    *[(FeatureReplaySettings, "weight", value) for value in (-1, math.nan)],
    *[(FeatureReplaySettings, "temperature", value) for value in (0, -2)],
    *[(FeatureReplaySettings, "generator_rate", value) for value in (0, "x")],
    *[(FeatureReplaySettings, "penalty", value) for value in (-1, None)],
    *[
        (FeatureReplaySettings, name, 0)
        for name in ("generator_steps", "generator_width", "generator_batch", "critic_steps", "noise", "batch_size")
    ],
    *[(kind, "weight", value) for kind in (EWCSettings, MASSettings, LwFSettings) for value in (-1, math.nan)],
    *[(kind, "decay", -0.1) for kind in (EWCSettings, MASSettings)],
    (EWCSettings, "labels", "both"),
    (LwFSettings, "temperature", 0),
    (FeatureDistillationSettings, "weight", -1),
    *[(kind, "memory", value) for kind in (ICaRLSettings, ExperienceReplaySettings) for value in (0, 2.5)],
    (ICaRLSettings, "distillation", -1),
    (ExperienceReplaySettings, "batch_size", 0),
    *[(GPMSettings, name, value) for name in ("threshold", "growth") for value in (-0.1, 1)],
    (GPMSettings, "samples", 0),
    *[(FeatureReplaySettings, name, "none") for name in ("labels", "share", "critic")],
    (InputReplaySettings, "alignment", -1),
    *[(PGMASettings, name, 0) for name in ("latent", "hidden", "rank", "rate", "generator_steps", "generator_batch")],
    *[(PGMASettings, name, -1) for name in ("replay", "spread", "temperature", "batch_size", "generator_width")],
    *[(DGMSettings, name, -1) for name in ("mask_weight", "mask_scale")],
    *[(OWMSettings, "patch_stride", value) for value in (-1, 0.5)],
    *[(AnalyticSettings, name, value) for name in ("filters", "width", "grid") for value in (0, -2, 1.5, "3")],
    *[(AnalyticSettings, name, "none") for name in ("size", "pick", "sides", "flips")],
    *[(AnalyticSettings, name, value) for name in ("contrast", "whitening") for value in (0, math.nan)],
    *[(AnalyticSettings, "patch", value) for value in ((0,), (3, 1.5), 6)],
    (AnalyticSettings, "threshold", -0.1),
    *[(HeadSettings, "ridge", value) for value in (0, -1, math.inf)],
    (HeadSettings, "class_memory", -1),
    (HeadSettings, "rows", 0),
    (HeadSettings, "kind", "svm"),
    *[(OWMSettings, "refresh", value) for value in ("onlin", None, ["online"])],
]


@pytest.mark.parametrize(("group", "name", "value"), BAD)
def test_a_bad_setting_is_named_before_anything_starts(group: type, name: str, value: object) -> None:
    with pytest.raises(InputError, match=name) as caught:
        group(**{name: value})
    message = str(caught.value)
    assert message.endswith(f"{value!r}.")
    assert "must be" in message
    assert "\n" not in message


def test_the_limits_themselves_are_allowed() -> None:
    TrainingSettings(epochs=1, batch_size=1, learning_rate=1e-9, momentum=0, clip_norm=0)
    NetworkSettings(filters=(1, 1, 1), width=1, hidden=1, dropout=0)
    OWMSettings(patch_stride=0, refresh="task_end")


def test_numpy_numbers_and_lists_become_plain_ones() -> None:
    changed = recipe("owm", training={"epochs": np.int64(3)}, network={"filters": [np.int32(1), 2, 3]})
    assert type(changed.training.epochs) is int
    assert changed.network.filters == (1, 2, 3)
    assert all(type(number) is int for number in changed.network.filters)
    assert type(recipe("owm", owm={"alpha_conv": np.float32(0.5)}).settings()["owm"]["alpha_conv"]) is float


def test_the_table_imports_no_torch() -> None:
    code = "import sys, engram.recipes, engram.settings; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
