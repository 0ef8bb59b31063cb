"""`engram study`: what the command line asks for, done and told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from engram.errors import EngramError, InputError
from engram.study.conduct import Outlook, Plan, conduct, outlook
from engram.study.definition import Study
from engram.study.estimates import in_words
from engram.study.grid import all_pairs
from engram.study.processes import usable_cores
from engram.study.reading import read_study
from engram.study.worker import Machine

if TYPE_CHECKING:
    from engram.cli import StudyCommand


def study(asked: StudyCommand) -> None:
    chosen = read_study(asked.study)
    if asked.seeds is not None:
        if asked.seeds < 1:
            raise InputError(f"--seeds {asked.seeds} makes no sense: give 1 or more.")
        chosen = replace(chosen, seeds=tuple(range(asked.seeds)))
    plan = _plan(asked)
    if asked.dry_run:
        _list(chosen, plan, outlook(chosen, plan))
        return
    cells = conduct(chosen, plan)
    _tell_the_end(cells, plan)


def _plan(asked: StudyCommand) -> Plan:
    if asked.jobs is not None and asked.jobs < 1:
        raise InputError(f"--jobs {asked.jobs} makes no sense: give 1 or more.")
    threads = max(1, usable_cores() // (asked.jobs or usable_cores()))
    # workers may have another working directory
    data_dir = None if asked.data_dir is None else str(Path(asked.data_dir).resolve())
    machine = Machine(threads, asked.device, data_dir, tensorboard=asked.tensorboard)
    return Plan(Path(asked.out).resolve(), asked.only, asked.retry_failed, asked.jobs, asked.ray, machine, asked.quiet)


def _list(chosen: Study, plan: Plan, cells: Sequence[Outlook]) -> None:
    """Plain lines, that other programs can read too."""
    for one in cells:
        when = "" if one.state == "done" else f"  about {in_words(one.seconds)}"
        print(f"{one.cell.place}  {one.state}{when}{f'  ({one.reason})' if one.reason else ''}")
    for column, row in all_pairs(chosen):
        if reason := column.missing or row.missing:
            print(f"{column.name}/{row.name}  not yet there  ({reason})")
    left = sum(one.seconds for one in cells if one.state in ("to do", "half done"))
    jobs = plan.jobs or usable_cores()
    print(f"{_counts(cells)}; about {in_words(left / jobs)} at {jobs} cells at a time")


def _tell_the_end(cells: Sequence[Outlook], plan: Plan) -> None:
    failed = [one for one in cells if one.state == "failed"]
    print(f"{_counts(cells)} in {plan.folder}; `engram report {plan.folder}` makes the page")
    if failed:
        first = failed[0]
        raise EngramError(
            f"{len(failed)} of {len(cells)} cells failed, such as {first.cell.place} ({first.reason.rstrip('.')}): "
            "--retry-failed does them again."
        )


def _counts(cells: Sequence[Outlook]) -> str:
    counted = Counter(one.state for one in cells)
    return f"{len(cells)} cells: " + (", ".join(f"{number} {state}" for state, number in counted.items()) or "none")
