"""`engram show`: what is in a model file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from engram.commands.model import known_classes, lessons_of, open_model, tasks_of
from engram.commands.words import count, share, shown
from engram.data.own import form_from
from engram.learner import Learner
from engram.methods.analytic import AnalyticMethod
from engram.recipes import RECIPES, Recipe

if TYPE_CHECKING:
    from engram.commands.asked import ShowCommand

MOST_ROWS = 200
PROTOCOL = (
    "class-incremental: one head for all classes, lesson after lesson, none told at prediction; held-out samples were "
    "never learnt; their accuracy is that of the day of their lesson, among the classes known then"
)


def show(asked: ShowCommand) -> None:
    learner = open_model(asked.model)
    content = contents(learner, Path(asked.model))
    if asked.json:
        print(json.dumps(content, indent=1))
    else:
        _print(content)


def contents(learner: Learner, path: Path) -> dict[str, Any]:
    """All that there is to tell, as plain data."""
    chosen = learner.recipe_
    base = RECIPES[chosen.name].settings() if chosen.name in RECIPES else {}
    changed = {
        f"{group}.{key}": value
        for group, values in chosen.settings().items()
        for key, value in values.items()
        if base.get(group, {}).get(key) != value
    }
    form = learner.notes_.get("form")
    return {
        "file": str(path),
        "bytes": path.stat().st_size,
        "recipe": chosen.name,
        "about": chosen.about,
        "changed_settings": changed,
        "seed": learner.seed_,
        "inputs": str(form_from(form)) if form else f"{learner.form_.layout} {learner.form_.shape}, given in Python",
        "lessons": [lesson["when"] for lesson in lessons_of(learner)],
        "classes": [_class(learner, name) for name in known_classes(learner)],
        "protocol": PROTOCOL,
        "may_reveal": may_reveal(chosen, learner),
    }


def _class(learner: Learner, name: Any) -> dict[str, Any]:
    parts = [lesson["classes"][str(name)] for lesson in lessons_of(learner) if str(name) in lesson["classes"]]
    held = sum(part["held_out"] for part in parts)
    first = tasks_of(learner).get(str(name))
    return {
        "class": str(name),
        "lesson": None if first is None else first + 1,
        "when": None if first is None else lessons_of(learner)[first]["when"],
        "samples": sum(part["learnt"] for part in parts),
        "held_out": held,
        "accuracy_then": sum(part["right"] for part in parts) / held if held else None,
    }


def may_reveal(chosen: Recipe, learner: Learner) -> str:
    """What can be read of the samples in the model's file."""
    if chosen.keeps_data:
        return "every sample, as it was learnt"
    parts = []
    if chosen.exemplars:
        parts.append(f"up to {count(chosen.exemplars, 'sample')} as they were learnt")
    if isinstance(learner.method_, AnalyticMethod):
        parts.append(
            "means of features of each class (of a class with one sample: that sample's features), products of "
            "features summed over samples"
        )
        if len(learner.form_.shape) == 3:
            picked = getattr(chosen.own["analytic"], "pick", "") == "random"
            parts.append("patches of images of the first lesson" if picked else "averages of such images' patches")
    else:
        parts.append("weights of networks that were trained on the samples")
    if {"owm", "gpm"} & set(chosen.ingredients):
        parts.append("projectors, of which directions that the samples had can be read")
    if "replay" in chosen.ingredients or chosen.method in ("dgm", "pgma"):
        parts.append("generators, which may give back samples or features close to those learnt")
    if len(learner.form_.shape) == 1:
        parts.append("means and deviations of the columns in the first lesson")
    parts.append("the classes' names, numbers of samples and dates")
    return "; ".join(parts)


def _print(content: dict[str, Any]) -> None:
    console = Console(soft_wrap=True, highlight=False, markup=False)
    settings = "".join(f", {name} {value}" for name, value in content["changed_settings"].items())
    console.print(
        f"{content['file']}: {content['bytes'] / 1e6:.1f} MB, {count(len(content['lessons']), 'lesson')}, "
        f"{count(len(content['classes']), 'class', 'classes')}"
    )
    console.print(f"recipe: {content['recipe']} ({content['about']}){settings}, seed {content['seed']}")
    console.print(f"inputs: {shown(content['inputs'])}")
    table = Table("class", "lesson", "learnt on (UTC)", "samples", "held out", "accuracy then")
    for one in content["classes"][:MOST_ROWS]:
        accuracy = "" if one["accuracy_then"] is None else share(one["accuracy_then"])
        when = (one["when"] or "")[:16].replace("T", " ")
        table.add_row(
            Text(shown(one["class"])),
            str(one["lesson"] or ""),
            when,
            f"{one['samples']:,}",
            f"{one['held_out']:,}",
            accuracy,
        )
    Console().print(table)
    if len(content["classes"]) > MOST_ROWS:
        console.print(f"and {len(content['classes']) - MOST_ROWS:,} more; --json lists all")
    console.print(f"protocol: {content['protocol']}")
    console.print(f"the file may reveal: {content['may_reveal']}")
