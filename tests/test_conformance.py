"""Every promise, tried on every recipe there is, with every kind of input that it learns."""

from functools import cache

import pytest

from engram.recipes import RECIPES, recipe
from engram.testing import CHECKS, Inputs, inputs_of

VARIANTS = RECIPES | {
    "owm task_end": recipe("owm", owm={"refresh": "task_end"}),
    "owm+gfr, the sum projected": recipe("owm+gfr").reordered(["replay", "owm"]),
    "owm+gfr, head free": recipe("owm+gfr", owm={"head": "free"}),
}


@cache
def accepted(name: str) -> list[Inputs]:
    return inputs_of(VARIANTS[name])


@pytest.mark.parametrize("check", list(CHECKS))
@pytest.mark.parametrize("inputs", ["images", "tables", "texts"])
@pytest.mark.parametrize("name", list(VARIANTS))
def test_every_recipe_keeps_every_promise(name: str, inputs: Inputs, check: str) -> None:
    if inputs not in accepted(name):
        pytest.skip(f"{name} does not learn {inputs}")
    CHECKS[check](VARIANTS[name], inputs)


@pytest.mark.parametrize("name", list(RECIPES))
def test_all_learn_images_tables_and_texts_but_those_that_turn_or_generate_images(name: str) -> None:
    if "ssl" in name or name == "dgm":
        assert accepted(name) == ["images"]
    elif "gir" in name:
        assert accepted(name) == ["images", "texts"]
    else:
        assert accepted(name) == ["images", "tables", "texts"]
