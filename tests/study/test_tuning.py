import json
from pathlib import Path

from tests.study.studies import put, tiny

from engram.study.folder import CHOICE, read_folder, write_failure
from engram.study.grid import trials_of
from engram.study.tuning import Trial, choose, score, write_choice

STUDY = tiny(rows={"owm+ssl": {"tune": {"rotation.weight": [0.5, 1.0, 2.0]}}})
CELLS = trials_of(STUDY, STUDY.columns[0], STUDY.rows[0])
TUNED = ["rotation.weight"]


def scored(folder: Path) -> list[Trial]:
    return [score(folder, cell, TUNED) for cell in CELLS]


def test_nothing_is_chosen_before_every_trial_has_ended(tmp_path: Path) -> None:
    for cell in CELLS[:2]:
        put(tmp_path, cell)
    assert choose(scored(tmp_path)) is None


def test_the_best_on_validation_data_is_chosen_and_of_equals_the_first(tmp_path: Path) -> None:
    for cell, accuracy in zip(CELLS, (0.6, 0.7, 0.7), strict=True):
        put(tmp_path, cell, accuracy)
    best = choose(scored(tmp_path))
    assert best is not None
    assert best.values == {"rotation.weight": 1.0}


def test_the_test_accuracy_has_no_say(tmp_path: Path) -> None:
    for cell, accuracy in zip(CELLS, (0.6, 0.5, 0.4), strict=True):
        put(tmp_path, cell, accuracy)
        path = tmp_path / cell.place / "result.json"
        result = json.loads(path.read_text())
        path.write_text(json.dumps(result | {"validation_accuracy": 1 - accuracy}))
    best = choose(scored(tmp_path))
    assert best is not None
    assert best.values == {"rotation.weight": 2.0}


def test_a_trial_that_failed_is_passed_over_unless_all_did(tmp_path: Path) -> None:
    for cell in CELLS[:2]:
        write_failure(tmp_path / cell.place, "it exploded")
    put(tmp_path, CELLS[2], 0.1)
    trials = scored(tmp_path)
    best = choose(trials)
    assert best is not None
    assert best.values == {"rotation.weight": 2.0}
    assert choose(trials[:2]) is None

    write_choice(tmp_path, trials, best)
    path = tmp_path / "digits-2" / "owm+ssl" / CHOICE
    written = json.loads(path.read_text())
    assert written["chosen"] == {"rotation.weight": 2.0}
    assert [trial["remark"] for trial in written["trials"]] == ["it exploded", "it exploded", ""]
    assert read_folder(tmp_path).choices == (written,)
    stamp = path.stat().st_mtime_ns
    write_choice(tmp_path, trials, best)
    assert path.stat().st_mtime_ns == stamp
