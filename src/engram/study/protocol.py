"""How a run learnt: what its result and its checkpoint say of it, and whether that is what is asked for now."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from engram.errors import FileError, InputError
from engram.recipes import Recipe
from engram.study.options import RunOptions

HELD = {
    **dict.fromkeys(("recipe", "dataset"), str),
    **dict.fromkeys(("tasks", "seed", "class_order_seed"), int),
    **dict.fromkeys(("accuracy", "seconds"), int | float),
    **dict.fromkeys(("matrix", "groups", "confusion", "accuracy_after_task", "drift"), list),
}
"""what whoever reads a result relies on"""


def read_result(path: Path) -> dict[str, Any]:
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FileError(f"{path} cannot be read as a result: {error}; delete it to run again.") from error
    if not isinstance(result, dict) or not all(isinstance(result.get(name), kind) for name, kind in HELD.items()):
        raise FileError(f"{path} does not hold a result: delete it to run again.")
    return result


def protocol(recipe: Recipe, options: RunOptions) -> dict[str, Any]:
    """How the run learns, wherever it runs."""
    return {
        "recipe": recipe.name,
        "dataset": options.dataset,
        "tasks": options.resolved_tasks(),
        "seed": options.seed,
        "class_order_seed": options.class_order_seed,
        "epochs": recipe.epochs,
        "selection": options.selection,
        "settings": json_plain(recipe.settings()),
        "order": list(recipe.ingredients),
    }


def asked(options: RunOptions) -> dict[str, Any]:
    """What was asked for of the machine, where it was not left open."""
    wishes = {
        "precision": (options.precision, "auto"),
        "device": (options.device, "auto"),
        "threads": (options.threads, 0),
    }
    return {name: wish for name, (wish, open_) in wishes.items() if wish != open_}


def check_same(path: Path, theirs: dict[str, Any], ours: dict[str, Any]) -> None:
    for key in ours:
        if theirs.get(key) != ours[key]:
            raise InputError(
                f"{path} belongs to a run with {key} {theirs.get(key)!r}, not {ours[key]!r}: "
                "resume with the same settings, or choose another --out."
            )


def json_plain(value: Any) -> Any:
    """As it looks after a round trip through JSON, where tuples are lists."""
    if isinstance(value, dict):
        return {key: json_plain(item) for key, item in value.items()}
    return [json_plain(item) for item in value] if isinstance(value, list | tuple) else value
