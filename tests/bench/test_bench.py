import json
from pathlib import Path

import pytest

from engram.bench import run as bench_run
from engram.bench.figures import Effort, Figure, ratio
from engram.cli import main


def test_quick_measures_every_item_and_writes_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(bench_run.ITEMS, "g")  # it starts processes: a test of its own
    assert main(["bench", "--quick", "--threads", "1", "--json", str(tmp_path / "bench.json")]) == 0
    report = json.loads((tmp_path / "bench.json").read_text())
    assert list(report["items"]) == list("abcdefhi")
    assert report["quick"]
    assert report["threads"] == 1
    assert {"processor", "cores"} <= report["machine"].keys()
    for item in report["items"].values():
        assert item["error"] is None
        assert item["figures"]
        for figure in item["figures"]:
            assert figure["value"] > 0
            assert figure.keys() == {"name", "value", "unit", "most", "least", "met"}


def test_peak_memory_is_that_of_a_process_that_holds_the_data() -> None:
    (figure,) = bench_run.peak_memory(Effort(quick=True))
    assert 0.2 < figure.value < 4


def test_an_item_that_fails_is_reported_and_the_others_are_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(effort: Effort) -> list[Figure]:
        raise RuntimeError("no such luck")

    monkeypatch.setitem(bench_run.ITEMS, "a", ("fails", fails))
    monkeypatch.setitem(bench_run.ITEMS, "b", ("works", lambda effort: [Figure("one", 1.0, most=2)]))
    path = tmp_path / "bench.json"
    assert main(["bench", "--only", "a,b", "--json", str(path)]) == 2
    captured = capsys.readouterr()
    assert "Items a failed" in captured.err
    assert "no such luck" in captured.out
    items = json.loads(path.read_text())["items"]
    assert items["a"]["error"] == "RuntimeError: no such luck"
    assert items["b"]["figures"][0]["met"] is True


def test_an_unknown_item_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--only", "a,z"]) == 2
    assert "There is no item 'z'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("figure", "target", "met"),
    [
        (Figure("", 1.2, most=1.15), "≤ 1.15", False),
        (Figure("", 1.1, most=1.15), "≤ 1.15", True),
        (Figure("", 2.9, least=3), "≥ 3", False),
        (Figure("", 5.0), "", None),
    ],
)
def test_targets_are_judged(figure: Figure, target: str, met: bool | None) -> None:
    assert (figure.target, figure.met) == (target, met)


def test_a_slow_spell_meets_both_sides_of_a_ratio() -> None:
    assert ratio([2.0, 20.0, 2.0], [1.0, 10.0, 1.0]) == 2.0
