from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from engram.report import demo as demo_module
from engram.report.figures import accuracy_figure
from engram.report.tables import print_comparison, protocol


def made_up(name: str, after: list[float]) -> dict[str, Any]:
    return {
        "recipe": name, "dataset": "digits", "tasks": 3, "class_order_seed": 0, "seed": 1, "epochs": 2,
        "selection": "last", "precision": "float32", "accuracy_after_task": after, "seconds": 12.3,
        "forgetting": None if len(after) == 1 else 0.25,
    }  # fmt: skip


RESULTS = [made_up("finetune", [1.0, 0.5, 0.333]), made_up("joint", [0.96])]


def test_the_table_shows_every_number_with_its_protocol(capsys: pytest.CaptureFixture[str]) -> None:
    print_comparison(list(RESULTS))
    shown = capsys.readouterr().out
    for part in ("100.0%", "50.0%", "33.3%", "96.0%", "25.0%", protocol(RESULTS[0])):
        assert part in shown


def test_the_picture_is_a_png_that_can_be_opened(tmp_path: Path) -> None:
    accuracy_figure(list(RESULTS), tmp_path / "new" / "picture.png")
    with Image.open(tmp_path / "new" / "picture.png") as picture:
        assert min(picture.size) > 300
        assert len(set(picture.convert("L").tobytes())) > 10


def test_the_demo_names_its_picture_and_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small: dict[str, dict[str, Any]] = {"training": {"epochs": 1}, "network": {"filters": (2, 3, 4), "hidden": 8}}
    small["replay"] = {"generator_steps": 2, "generator_width": 8, "generator_batch": 8}
    monkeypatch.setattr(demo_module, "SETTINGS", small)
    demo_module.demo(str(tmp_path), quiet=True)
    results = demo_module.demo(str(tmp_path), quiet=True)
    assert [result["recipe"] for result in results] == list(demo_module.RECIPES)
    assert str(tmp_path / "accuracy.png") in capsys.readouterr().out.replace("\n", "")
    assert (tmp_path / "accuracy.png").exists()
