"""Measures the items one after another, prints a table and writes JSON."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from engram import files
from engram.bench.command import BenchCommand
from engram.bench.figures import Effort, Figure
from engram.bench.generators import generator_share
from engram.bench.growth import growth
from engram.bench.loops import loop
from engram.bench.owm_steps import double_loop_step, owm_step
from engram.bench.peak_memory import peak_memory
from engram.bench.rates import closed_form_share, plain_share
from engram.bench.recipe_steps import recipe_step
from engram.errors import EngramError, InputError
from engram.memory import keep_freed_memory
from engram.randomness import isolated
from engram.study.machine import describe_machine, threads, versions

ITEMS: dict[str, tuple[str, Callable[[Effort], list[Figure]]]] = {
    "a": ("a step with OWM", owm_step),
    "b": ("OWM's official double loop", double_loop_step),
    "c": ("the loop's own price", loop),
    "d": ("a step of each recipe", recipe_step),
    "e": ("the twentieth task", growth),
    "f": ("generators", generator_share),
    "g": ("peak memory", peak_memory),
    "h": ("arithmetic of the plain step", plain_share),
    "i": ("closed form", closed_form_share),
}


def bench(command: BenchCommand) -> None:
    chosen = [letter.strip() for letter in command.only.split(",") if letter.strip()] or list(ITEMS)
    if strange := [letter for letter in chosen if letter not in ITEMS]:
        raise InputError(f"There is no item {strange[0]!r} to measure: there are {', '.join(ITEMS)}.")
    keep_freed_memory()
    with threads(command.threads), isolated(torch.device("cpu")):
        report: dict[str, Any] = {"machine": describe_machine(), "versions": versions()}
        report |= {"threads": torch.get_num_threads(), "quick": command.quick}
        report["items"] = {letter: measured(letter, Effort(command.quick)) for letter in chosen}
    if command.json is not None:
        files.write_json(command.json, report)
    if failed := [letter for letter in chosen if report["items"][letter]["error"]]:
        raise EngramError(f"Items {', '.join(failed)} failed: see above; the others are measured.")


def measured(letter: str, effort: Effort) -> dict[str, Any]:
    """One item's figures, printed; an item that fails is reported and keeps no other from being measured."""
    title, item = ITEMS[letter]
    begun, figures, error = time.perf_counter(), [], None
    try:
        figures = item(effort)
    except Exception as raised:
        error = f"{type(raised).__name__}: {raised}"
    seconds = time.perf_counter() - begun
    Console(width=max(120, Console().width)).print(_table(f"{letter}: {title} ({seconds:.0f} s)", figures, error))
    plain = [dataclasses.asdict(figure) | {"met": figure.met} for figure in figures]
    return {"title": title, "figures": plain, "error": error, "seconds": seconds}


def _table(title: str, figures: list[Figure], error: str | None) -> Table | str:
    if error is not None:
        return f"{title}: failed, {error}"
    table = Table(title=title, title_justify="left")
    for column in ("", "value", "unit", "target", "met"):
        table.add_column(column, justify="right" if column == "value" else "left", no_wrap=True)
    for figure in figures:
        met = {True: "yes", False: "no", None: ""}[figure.met]
        table.add_row(figure.name, f"{figure.value:.3g}", figure.unit, figure.target, met)
    return table
