"""A study from start to end: what is missing is done, and nothing twice."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from engram import files
from engram.devices import resolve_device
from engram.study.board import Board
from engram.study.definition import Study
from engram.study.estimates import seconds_of
from engram.study.folder import RESULT, STUDY, Contents, Found, Status, read_folder, status, write_failure
from engram.study.grid import Cell, cells_of, check_patterns, matching, nested, pairs, trials_of
from engram.study.on_ray import on_ray
from engram.study.processes import Started, in_processes, usable_cores
from engram.study.store import write_store
from engram.study.tuning import Trial, choose, score, write_choice
from engram.study.worker import Machine, Order

NO_CHOICE = "no setting could be chosen by validation data, as every trial failed"


@dataclass(frozen=True)
class Plan:
    """Which part of a study is wanted, and where it is to be computed."""

    folder: Path
    only: tuple[str, ...] = ()
    retry_failed: bool = False
    jobs: int | None = None
    ray: str | None = None
    machine: Machine = field(default_factory=Machine)
    quiet: bool = False


@dataclass(frozen=True)
class Outlook:
    """A cell, how far it is, why it failed, and the seconds that it should take."""

    cell: Cell
    state: Status
    reason: str
    seconds: float


def outlook(study: Study, plan: Plan) -> list[Outlook]:
    """Every cell of the plan as it stands, trials first; nothing is computed."""
    check_patterns(study, plan.only)
    done = _comparable(read_folder(plan.folder), plan) if plan.folder.is_dir() else ()
    cells = [*_trials(study, plan), *_counting(study, plan)]
    return [Outlook(cell, *status(plan.folder, cell), seconds_of(cell, done)) for cell in cells]


def conduct(study: Study, plan: Plan) -> list[Outlook]:
    """Do all that the plan asks for and that is not done; what failed is left alone unless asked for."""
    before = outlook(study, plan)  # a mistake in the plan is found before anything is written
    files.write_json(plan.folder / STUDY, {"name": study.name, "study": study.plain()})
    write_store(plan.folder, read_folder(plan.folder))
    states, seconds = ({one.cell.place: getattr(one, name) for one in before} for name in ("state", "seconds"))
    board = Board(study.title, states, seconds, plan.quiet)
    with board:
        _run(_trials(study, plan), plan, board)
        _run(_decided(study, plan, board), plan, board)
    return outlook(study, plan)


def _run(cells: Sequence[Cell], plan: Plan, board: Board) -> None:
    orders = [Order(cell, str(plan.folder), plan.machine) for cell in cells if _to_do(cell, plan)]
    start = (
        in_processes(orders, plan.jobs or usable_cores()) if plan.ray is None else on_ray(orders, plan.ray, plan.jobs)
    )
    with closing(start) as events:
        for event in events:
            if isinstance(event, Started):
                board.started(event.cell.place)
                continue
            contents = read_folder(plan.folder)
            write_store(plan.folder, contents)
            done = _comparable(contents, plan)
            board.estimates |= {cell.place: seconds_of(cell, done) for cell in cells}
            board.ended(event.cell.place, event.reason)


def _comparable(contents: Contents, plan: Plan) -> Sequence[Found]:
    """Results whose times tell how long others will take: those of the same kind of device, as far as it is known."""
    if plan.ray is not None:
        return contents.results
    device = str(resolve_device(plan.machine.device))
    return [found for found in contents.results if found.result.get("device", device) == device]


def _to_do(cell: Cell, plan: Plan) -> bool:
    state = status(plan.folder, cell)[0]
    if state == "failed":
        return plan.retry_failed and not (plan.folder / cell.place / RESULT).exists()
    return state != "done"


def _trials(study: Study, plan: Plan) -> list[Cell]:
    cells = [cell for column, row in pairs(study) if row.tune for cell in trials_of(study, column, row)]
    return matching(cells, plan.only)


def _counting(study: Study, plan: Plan) -> list[Cell]:
    """With the settings that were chosen, as far as they are."""
    chosen = {pair: nested(best.values) for pair, (_, best) in _choices(study, plan.folder).items() if best}
    return matching(cells_of(study, chosen), plan.only)


def _decided(study: Study, plan: Plan, board: Board) -> list[Cell]:
    """The cells whose settings are known, written down; the others fail."""
    decided = []
    choices = _choices(study, plan.folder)
    for trials, best in choices.values():
        if best:
            write_choice(plan.folder, trials, best)
    for cell in _counting(study, plan):
        trials, best = choices.get((cell.column, cell.row), ([], None))
        if trials and not best and status(plan.folder, cell)[0] != "done":
            write_failure(plan.folder / cell.place, NO_CHOICE)
            board.states[cell.place] = "failed"
        else:
            decided.append(cell)
    return decided


def _choices(study: Study, folder: Path) -> dict[tuple[str, str], tuple[list[Trial], Trial | None]]:
    """By (column, row): the trials, and the best one once all have ended."""
    choices = {}
    for column, row in pairs(study):
        if row.tune:
            trials = [score(folder, cell, list(row.tune)) for cell in trials_of(study, column, row)]
            choices[column.name, row.name] = trials, choose(trials)
    return choices
