"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from engram.data import catalogue


def print_catalogue(data_dir: str | None) -> None:
    table = Table("set", "what it is", "where it lies", "licence", title="Data sets")
    for entry in catalogue(data_dir):
        table.add_row(entry.name, entry.about, str(entry.where), entry.licence)
    Console().print(table)


def print_result(result: Mapping[str, Any], folder: Path) -> None:
    Console(soft_wrap=True, highlight=False).print(
        f"{protocol(result)}\n"
        f"accuracy {result['accuracy']:.2%} over all {len(result['class_names'])} classes after the last task "
        f"(inter-task error {result['inter_task_error']:.2%}, inner-task error {result['inner_task_error']:.2%})\n"
        f"result: {folder / 'result.json'}"
    )


def print_comparison(results: list[Mapping[str, Any]]) -> None:
    """The recipes of one data set side by side, with the protocol that they share."""
    table = Table(title="Accuracy on the test part, over all classes seen so far, after each task")
    table.add_column("recipe", no_wrap=True)
    tasks = results[0]["tasks"]
    for task in range(tasks):
        table.add_column(f"{task + 1}", justify="right")
    table.add_column("forgetting", justify="right")
    table.add_column("s", justify="right")
    for result in results:
        after = [f"{accuracy:.1%}" for accuracy in result["accuracy_after_task"]]
        cells = [""] * (tasks - len(after)) + after
        forgetting = "" if result["forgetting"] is None else f"{result['forgetting']:.1%}"
        table.add_row(result["recipe"], *cells, forgetting, f"{result['seconds']:.0f}")
    console = Console()
    console.print(table)
    console.print(protocol(results[0]), highlight=False)


def protocol(result: Mapping[str, Any]) -> str:
    """How a result came about, in one line."""
    order = "natural class order" if result["class_order_seed"] == 0 else f"class order {result['class_order_seed']}"
    return (
        f"{result['dataset']}, {result['tasks']} tasks, {order}, seed {result['seed']}, {effort(result)}, "
        f"selection {result['selection']}, {result['precision']}"
    )


def effort(result: Mapping[str, Any]) -> str:
    """How long each task is learnt."""
    settings = result.get("settings", {})
    if "dgm" in settings:  # it has no epochs
        return f"{settings['dgm']['generator_steps']:,} generator steps"
    epochs = result.get("epochs") or 1
    return "one pass" if epochs == 1 else f"{epochs} epochs"
