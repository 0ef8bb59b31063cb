import io

import pytest
from rich.console import Console
from tests.study.studies import made_up, put, tiny

from engram import files
from engram.study.board import Board
from engram.study.conduct import Plan, outlook
from engram.study.estimates import in_words, seconds_of
from engram.study.folder import RESULT, read_folder
from engram.study.grid import cells_of
from engram.study.worker import Machine

PLACES = [f"digits-2/{row}/seed{seed}" for seed in (0, 1) for row in ("finetune", "owm")]


@pytest.fixture
def board(monkeypatch: pytest.MonkeyPatch) -> Board:
    states = dict(zip(PLACES, ("done", "half done", "to do", "to do"), strict=True))
    made = Board("Tiny", states, dict.fromkeys(PLACES, 100.0), quiet=False)
    clock = iter(range(0, 1000, 10))
    monkeypatch.setattr("engram.study.board.time.monotonic", lambda: next(clock))
    return made


def test_a_line_for_each_event_where_there_is_no_terminal(board: Board, capsys: pytest.CaptureFixture[str]) -> None:
    assert board.live is None
    with board:
        board.started(PLACES[1])  # at 0 s
        board.started(PLACES[2])  # at 10 s
        board.ended(PLACES[1], None)  # at 20 s; counted at 30 s
        board.ended(PLACES[2], "no luck")
    said = capsys.readouterr().err.splitlines()
    assert said == [
        f"{PLACES[1]}: goes on",
        f"{PLACES[2]}: started",
        f"{PLACES[1]}: done in 20 s (2 done, 1 running, 1 to do, about 3 min left)",
        f"{PLACES[2]}: failed after 30 s: no luck",
    ]


def test_the_table_shows_a_symbol_for_every_cell(board: Board) -> None:
    board.started(PLACES[2])
    console = Console(width=100, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(board.table())
    shown = console.export_text()
    console.file.close()
    rows = {
        line.split("│")[1].strip(): line.split("│")[2].strip() for line in shown.splitlines() if line.count("│") == 3
    }
    assert rows == {"finetune": "●▶", "owm": "◐·"}
    for part in ("Tiny", "digits-2", "1 done, 1 running, 1 half done, 1 to do", PLACES[2]):
        assert part in shown


def test_a_terminal_gets_a_live_table_and_only_failures_as_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    monkeypatch.setattr(
        "engram.study.board.Console", lambda stderr: Console(file=written, force_terminal=True, width=100)
    )
    with Board("Tiny", {PLACES[0]: "to do", PLACES[1]: "to do"}, dict.fromkeys(PLACES, 5.0), quiet=False) as board:
        assert board.live is not None
        board.started(PLACES[0])
        board.live.refresh()
        board.ended(PLACES[0], "no luck")
        board.live.refresh()
    shown = written.getvalue()
    assert "Tiny" in shown
    assert f"{PLACES[0]}: failed after 0 s: no luck" in shown
    assert f"{PLACES[0]}: started" not in shown


def test_quiet_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with Board("Tiny", {PLACES[0]: "to do"}, {PLACES[0]: 1.0}, quiet=True) as board:
        board.started(PLACES[0])
        board.ended(PLACES[0], "no luck")
    assert capsys.readouterr().err == ""


def test_estimates_come_from_the_nearest_cells_that_are_done(tmp_path) -> None:
    study = tiny(columns={"digits-2": {}, "digits-5": {"epochs": 4}})
    cells = {cell.place: cell for cell in cells_of(study, {})}
    guess = seconds_of(cells["digits-2/owm/seed0"], ())
    assert guess == pytest.approx(4 + 1257 * 64 * 4e-6)
    put(tmp_path, cells["digits-2/owm/seed0"])  # 12 seconds, an epoch
    done = read_folder(tmp_path).results
    assert seconds_of(cells["digits-2/owm/seed1"], done) == 16
    assert seconds_of(cells["digits-5/owm/seed1"], done) == pytest.approx(4 + 4 * 12)
    assert seconds_of(cells["digits-5/finetune/seed1"], done) == pytest.approx(4 + 4 * 12), "better than a guess"


def test_what_counts_steps_is_estimated_by_its_steps() -> None:
    steps = {"generator_steps": 10, "critic_steps": 3, "generator_batch": 7}
    (cell,) = cells_of(tiny(columns={"digits-5": {}}, rows={"dgm": {"settings": {"dgm": steps}}}, seeds=1), {})
    assert seconds_of(cell, ()) == pytest.approx(4 + 5 * 10 * 3 * 7 * 64 * 4e-6)


def test_times_of_another_kind_of_device_do_not_count(tmp_path) -> None:
    study = tiny()
    first = cells_of(study, {})[0]
    plan = Plan(tmp_path, machine=Machine(device="cpu"))
    guess = [one.seconds for one in outlook(study, plan)]
    files.write_json(tmp_path / first.place / RESULT, made_up(first) | {"device": "cuda"})
    assert [one.seconds for one in outlook(study, plan)] == guess
    files.write_json(tmp_path / first.place / RESULT, made_up(first) | {"device": "cpu"})
    assert [one.seconds for one in outlook(study, plan)] != guess


@pytest.mark.parametrize(("seconds", "words"), [(3.2, "3 s"), (100, "2 min"), (7200, "2.0 h"), (400_000, "4.6 days")])
def test_times_in_words(seconds: float, words: str) -> None:
    assert in_words(seconds) == words
