"""Small studies, and results made up for them."""

from pathlib import Path
from typing import Any

from engram import files
from engram.study.definition import Study
from engram.study.grid import Cell, cells_of
from engram.study.reading import study_from
from engram.study.run import RESULT

TINY: dict[str, Any] = {
    "title": "Tiny",
    "seeds": 2,
    "epochs": 1,
    "settings": {
        "training": {"batch_size": 64},
        "network": {"filters": [2, 3, 4], "hidden": 8},
        "replay": {"generator_steps": 1, "generator_width": 8, "generator_batch": 8},
    },
    "columns": {"digits-2": {}},
    "rows": {"finetune": {}, "owm": {}},
}


def tiny(**changes: Any) -> Study:
    return study_from(TINY | changes, "tiny")


def made_up(cell: Cell, accuracy: float = 0.5) -> dict[str, Any]:
    """A result as `engram run` writes it, of ten classes, 7 samples each."""
    tasks = cell.tasks
    size = 10 // tasks
    groups = [list(range(task * size, (task + 1) * size)) for task in range(tasks)]
    joint = cell.recipe == "joint"
    after = [accuracy] if joint else [1 - (1 - accuracy) * task / max(1, tasks - 1) for task in range(tasks)]
    after[-1] = accuracy
    owm = cell.recipe.startswith("owm")
    recipe = cell.chosen_recipe().changed({"network": {"width": 1}})  # which a run looks up for its data set
    return {
        "recipe": cell.recipe,
        "dataset": cell.dataset,
        "tasks": tasks,
        "seed": cell.seed,
        "class_order_seed": cell.class_order,
        "epochs": 1,
        "selection": cell.selection,
        "precision": "float32",
        "device": "cpu",
        "threads": 1,
        "settings": recipe.settings(),
        "groups": groups,
        "class_names": [f"class {label}" for label in range(10)],
        "samples": {"train": 100, "validation": 30, "test": 70},
        "accuracy": accuracy,
        "validation_accuracy": accuracy - 0.01,
        "inter_task_error": 0.75 * (1 - accuracy),
        "inner_task_error": 0.25 * (1 - accuracy),
        "accuracy_after_task": after,
        "average_incremental_accuracy": sum(after) / len(after),
        "forgetting": None if joint else 0.3,
        "matrix": [[accuracy] * tasks] if joint else [[accuracy] * (task + 1) for task in range(tasks)],
        "drift": [] if joint else [0.1 * task for task in range(1, tasks)],
        "confusion": [[5 if true == label else 0 for label in range(9)] + [2] for true in range(10)],
        "projector_traces": [{"extractor.4": 0.5**task, "head": 0.9**task} for task in range(1, tasks + 1)]
        if owm
        else [{}],
        "measures": [{}] * tasks,
        "seconds": 12.0,
        "versions": {"engram": "0.1.0", "commit": "abc", "python": "3.11", "torch": "2.13.0", "numpy": "2.4"},
        "machine": {"processor": "a processor", "gpu": None},
    }


def put(folder: Path, cell: Cell, accuracy: float = 0.5) -> None:
    files.write_json(folder / cell.place / RESULT, made_up(cell, accuracy))


def fill(folder: Path, study: Study) -> None:
    """Every cell, with accuracies that differ by row and seed."""
    rows = [row.name for row in study.rows]
    for cell in cells_of(study, {}):
        put(folder, cell, 0.4 + 0.05 * rows.index(cell.row) + 0.007 * cell.seed**1.5)
