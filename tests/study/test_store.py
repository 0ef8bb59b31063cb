import json
import sqlite3
from pathlib import Path

import pytest
from tests.study.studies import made_up, put, tiny

from engram.errors import FileError
from engram.study.folder import read_folder, write_failure
from engram.study.grid import cells_of
from engram.study.store import STORE, write_store

CELLS = cells_of(tiny(), {})


def query(folder: Path, words: str) -> list[tuple]:
    connection = sqlite3.connect(folder / STORE)
    try:
        return connection.execute(words).fetchall()
    finally:
        connection.close()


def test_the_store_holds_what_the_results_hold(tmp_path: Path) -> None:
    put(tmp_path, CELLS[1], 0.625)
    write_failure(tmp_path / CELLS[0].place, "no luck")
    write_store(tmp_path, read_folder(tmp_path))
    result = made_up(CELLS[1], 0.625)
    asked = "cell, column_name, row_name, seed, accuracy, forgetting, torch, commit_id, processor, seconds"
    assert query(tmp_path, f"SELECT {asked} FROM results") == [
        ("digits-2/owm/seed0", "digits-2", "owm", 0, 0.625, 0.3, "2.13.0", "abc", "a processor", 12.0)
    ]
    after = query(tmp_path, "SELECT after_task, accuracy, drift FROM after_task ORDER BY after_task")
    assert after == [(1, 1.0, None), (2, 0.625, 0.1)]
    assert query(tmp_path, "SELECT sum(accuracy), count(*) FROM matrix") == [(3 * 0.625, 3)]
    assert query(tmp_path, "SELECT share FROM traces WHERE layer = 'head' AND after_task = 2") == [(0.81,)]
    assert query(tmp_path, "SELECT * FROM failures") == [("digits-2/finetune/seed0", "no luck")]
    assert "alpha_conv" in str(result["settings"])
    assert query(tmp_path, "SELECT json_extract(settings, '$.owm.alpha_conv') FROM results") == [(1e-5,)]


def test_it_is_made_anew_and_never_left_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, CELLS[0])
    write_store(tmp_path, read_folder(tmp_path))
    before = (tmp_path / STORE).read_bytes()
    put(tmp_path, CELLS[1])
    with monkeypatch.context() as patch:
        patch.setattr("engram.study.store.os.replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
        with pytest.raises(FileError, match=r"store\.sqlite cannot be written \(full\)"):
            write_store(tmp_path, read_folder(tmp_path))
    assert (tmp_path / STORE).read_bytes() == before
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == [STORE]
    write_store(tmp_path, read_folder(tmp_path))
    assert query(tmp_path, "SELECT count(*) FROM results") == [(2,)]


def test_a_damaged_result_is_a_failure_and_not_the_end(tmp_path: Path) -> None:
    put(tmp_path, CELLS[0])
    broken = tmp_path / CELLS[1].place / "result.json"
    broken.parent.mkdir(parents=True)
    whole = made_up(CELLS[1])
    lacking = [{key: value for key, value in whole.items() if key != name} for name in ("class_order_seed", "groups")]
    wrong = [whole | {"accuracy": "much"}, whole | {"seconds": None}, whole | {"drift": 3}]
    for text in ("{", "[]", "{}", *map(json.dumps, lacking + wrong)):
        broken.write_text(text)
        contents = read_folder(tmp_path)
        assert [found.place for found in contents.results] == [CELLS[0].place]
        assert "delete it to run again" in contents.failures[CELLS[1].place]
