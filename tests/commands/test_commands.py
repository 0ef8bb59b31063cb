"""The commands for one's own data, used as a stranger would."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.commands.conftest import Ask, photographs, rows

from engram import Learner, recipe
from engram.cli import main

QUICK = "--set analytic.filters=16"


def test_images_are_learnt_in_two_lessons_predicted_measured_and_shown(ask: Ask, tmp_path: Path) -> None:
    photographs(tmp_path / "one", "ant bee", 20)
    photographs(tmp_path / "two", "cow", 20)
    photographs(tmp_path / "test", "ant bee cow", 5, seed=1)
    said = ask(f"learn m.engram one {QUICK}")
    for part in ("learnt 36 samples", "2 new classes: ant, bee", "4 samples of these classes", "100.0%", "2 classes"):
        assert part in said
    assert "old classes" not in said
    said = ask("learn m.engram two")
    for part in ("learnt 18 samples", "1 new class: cow", "among all 3 classes", "old classes: estimated accuracy"):
        assert part in said
    assert "of 2 held-out samples of new classes are taken for old ones" in said

    said = ask("predict m.engram test/cow test/ant/0.png")
    assert said.count(": cow 9") + said.count(": cow 100") == 5
    assert "test/ant/0.png: ant" in said

    numbers = json.loads(ask("evaluate m.engram test --json --picture deep/confusion.png"))
    assert numbers["accuracy"] == 1
    assert numbers["accuracy"] + numbers["inter_task_error"] + numbers["inner_task_error"] == 1
    assert [one["lesson"] for one in numbers["classes"]] == [1, 1, 2]
    assert numbers["confusion"] == [[5, 0, 0], [0, 5, 0], [0, 0, 5]]
    with Image.open("deep/confusion.png") as picture:
        assert min(picture.size) > 300
    assert "accuracy 100.0% of 15 samples, among all 3 learnt classes of 2 lessons" in ask("evaluate m.engram test")

    shown = json.loads(ask("show m.engram --json"))
    assert shown["inputs"] == "grey images of 10 x 10 pixels"
    assert shown["changed_settings"] == {"analytic.filters": 16}
    assert shown["classes"][2] | {"when": 0} == {
        "class": "cow",
        "lesson": 2,
        "when": 0,
        "samples": 18,
        "held_out": 2,
        "accuracy_then": 1.0,
    }
    said = ask("show m.engram")
    for part in ("2 lessons, 3 classes", "recipe: analytic", "cow", "protocol: class-incremental", "may reveal: means"):
        assert part in said


def test_a_table_of_numbers_in_any_format_and_more_of_a_known_class(ask: Ask, tmp_path: Path) -> None:
    rows(tmp_path / "one.csv", "a b")
    rows(tmp_path / "two.csv", "b c", seed=1)
    ask("learn m one.csv")
    said = ask("learn m two.csv")
    assert "1 new class: c" in said
    assert "more of known classes: b (added to the sums: as if all had come at once)" in said
    shown = {one["class"]: one for one in json.loads(ask("show m --json"))["classes"]}
    assert (shown["b"]["samples"], shown["b"]["lesson"], shown["c"]["lesson"]) == (22, 1, 2)
    lines = (tmp_path / "two.csv").read_text().splitlines()[1:]
    values = [line.split(",") for line in lines]
    (tmp_path / "new.jsonl").write_text("\n".join(json.dumps({"b": float(b), "a": float(a)}) for a, b, _ in values))
    found = json.loads(ask("predict m new.jsonl --json"))
    assert [one["answer"] for one in found] == [label for _, _, label in values]
    assert found[2]["input"] == "new.jsonl:3"


def test_what_was_learnt_in_parts_is_what_is_learnt_at_once(ask: Ask, tmp_path: Path) -> None:
    """The held-out part goes by content, so that both ways learn the same rows."""
    rows(tmp_path / "first.csv", "a b")
    both = [rows(tmp_path / f"{part}.csv", "c d", seed=part).read_text() for part in (1, 2)]
    (tmp_path / "all.csv").write_text(both[0] + both[1].partition("\n")[2])
    for model, parts in (("apart", ("1.csv", "2.csv")), ("whole", ("all.csv",))):
        ask(f"learn {model} first.csv")
        for part in parts:
            ask(f"learn {model} {part} --held-out 0")
    found = [json.loads(ask(f"predict {model} all.csv --json")) for model in ("apart", "whole")]
    for one, other in zip(*found, strict=True):
        assert one["answer"] == other["answer"]
        assert one["classes"][0]["probability"] == pytest.approx(other["classes"][0]["probability"], abs=1e-6)


def test_top_csv_json_and_unknown(ask: Ask, tmp_path: Path) -> None:
    rows(tmp_path / "t.csv", "a b c", 30)
    ask("learn m t.csv")
    (tmp_path / "x.csv").write_text("b,a\n40,20\n40,25\n")
    first, second = json.loads(ask("predict m x.csv --json --top 5"))
    assert len(first["classes"]) == 3
    assert sum(one["probability"] for one in first["classes"]) == pytest.approx(1)
    best = [answer["classes"][0]["probability"] for answer in (first, second)]
    assert best[0] > best[1]  # the second lies between two classes
    between = sum(best) / 2
    answers = json.loads(ask(f"predict m x.csv --json --reject-below {between}"))
    assert [answer["rejected"] for answer in answers] == [False, True]
    assert [answer["answer"] for answer in answers] == ["a", "unknown"]
    assert "unknown (" in ask(f"predict m x.csv --reject-below {between}")


def test_csv_can_be_read_back_whatever_the_names_hold(ask: Ask, tmp_path: Path) -> None:
    names = ['a "quoted", name', "line\nbreak", "\x1b[31mred", "名前"]
    with (tmp_path / "t.jsonl").open("w") as file:
        for number in range(40):
            file.write(json.dumps({"a": number % 4 * 10 + number / 100, "label": names[number % 4]}) + "\n")
    ask("learn m t.jsonl")
    done = subprocess.run(
        [sys.executable, "-m", "engram", "predict", "m", "t.jsonl", "--csv", "--top", "2"],
        capture_output=True,
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
    )
    lines = list(csv.reader(io.StringIO(done.stdout.decode("utf-8"), newline="")))
    assert lines[0] == ["input", "answer", "class1", "probability1", "class2", "probability2"]
    assert [line[1] for line in lines[1:]] == names * 10
    assert "\x1b" not in ask("predict m t.jsonl")
    assert "\x1b" not in ask("evaluate m t.jsonl --picture x.png")
    assert "\x1b" not in ask("show m")


def test_a_broken_image_among_many_is_left_out_named_and_counted(ask: Ask, tmp_path: Path) -> None:
    photographs(tmp_path / "one", "ant bee")
    (tmp_path / "one" / "ant" / "broken.jpg").write_text("no image")
    (tmp_path / "one" / "bee" / "empty.png").touch()
    said = ask(f"learn m one {QUICK}")
    assert "left out: one/ant/broken.jpg cannot be read as an image" in said
    assert "2 files or rows left out" in said
    assert "learnt 22 samples" in said
    assert "1 file or row left out" in ask("predict m one/ant")
    for command in ("learn m one", "predict m one", "evaluate m one"):
        assert "broken.jpg cannot be read" in ask(f"{command} --strict", 2)
    assert "Nothing there can be used: one/ant/broken.jpg" in ask("predict m one/ant/broken.jpg", 2)


def test_the_held_out_part_goes_by_content_and_not_by_order(ask: Ask, tmp_path: Path) -> None:
    header, *lines = rows(tmp_path / "t.csv", "a b", 30).read_text().splitlines()
    for name, order in (("same", lines), ("turned", lines[::-1]), ("twice", lines + lines)):
        (tmp_path / f"{name}.csv").write_text("\n".join([header, *order]))
        ask(f"learn {name} {name}.csv")
    learnt = {name: Learner.load(name).notes_["lessons"][0]["classes"] for name in ("same", "turned", "twice")}
    assert learnt["same"] == learnt["turned"]
    assert learnt["twice"]["a"] == {"learnt": 54, "held_out": 6, "right": 6}
    a, b = (json.loads(ask(f"predict {name} t.csv --json")) for name in ("same", "turned"))
    assert [one["answer"] for one in a] == [one["answer"] for one in b]


def test_forgetting_takes_a_class_out_of_the_file(ask: Ask, tmp_path: Path) -> None:
    rows(tmp_path / "t.csv", "a b c")
    ask("learn m t.csv")
    assert "did you mean 'a'" in ask("forget m aa", 2)
    assert "forgotten: b" in ask("forget m b")
    assert [one["class"] for one in json.loads(ask("show m --json"))["classes"]] == ["a", "c"]
    assert '"b"' not in Path("m").read_bytes()[:5000].decode("latin-1")
    said = ask("evaluate m t.csv --reject-below 0.5")
    assert "not counted: 12 samples of classes not learnt (b)" in said
    ask("forget m a c")
    assert "knows no class" in ask("predict m t.csv", 2)
    ask("learn m t.csv")
    assert len(json.loads(ask("show m --json"))["classes"]) == 3


def test_forgetting_says_how_where_classes_share_their_products(ask: Ask, tmp_path: Path) -> None:
    rows(tmp_path / "t.csv", "a b c")
    ask("learn m t.csv --set head.class_memory=0")
    assert "by --keep-products" in ask("forget m b", 2)
    assert "their means only" in ask("forget m b --keep-products")
    ask("learn g t.csv --recipe finetune --set training.epochs=1 network.hidden=8")
    assert "Recipe 'finetune' cannot forget" in ask("forget g b", 2)


def test_a_recipe_that_trains_learns_and_says_what_is_not_known(ask: Ask, tmp_path: Path) -> None:
    rows(tmp_path / "one.csv", "a b", 40)
    rows(tmp_path / "two.csv", "b c", 40)
    ask("learn m one.csv --recipe owm --set training.epochs=3 network.hidden=16 --seed 3")
    said = ask("learn m two.csv")
    assert "owm trains on the new samples of them; the old ones are not there" in said
    assert "what they lost is not known" in said
    shown = json.loads(ask("show m --json"))
    assert (shown["seed"], shown["changed_settings"]) == (3, {"training.epochs": 3, "network.hidden": 16})


def test_what_is_for_new_models_is_refused_for_old_ones(ask: Ask, tmp_path: Path) -> None:
    rows(tmp_path / "t.csv", "a b")
    ask("learn m t.csv --columns a b")
    before = Path("m").read_bytes()
    for flag, said in (
        ("--recipe lda", "--recipe"),
        ("--set head.ridge=1", "--set"),
        ("--seed 0", "--seed"),
        ("--columns a", "--columns"),
        ("--image-size 9 9", "--image-size"),
    ):
        assert f"{said} is for new models" in ask(f"learn m t.csv {flag}", 2)
    assert Path("m").read_bytes() == before


def test_a_model_saved_in_python_can_be_shown_and_forget_but_reads_no_files(ask: Ask, tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(40, 3))
    Learner().fit(x, np.arange(40) % 2).save("m")
    assert "given in Python" in ask("show m")
    rows(tmp_path / "t.csv", "a b")
    for command in ("learn m t.csv", "predict m t.csv", "evaluate m t.csv"):
        assert "was saved in Python" in ask(command, 2)
    assert "forgotten: 1" in ask("forget m 1")


def test_a_model_of_the_command_line_is_a_learner_in_python(ask: Ask, tmp_path: Path) -> None:
    rows(tmp_path / "t.csv", "a b")
    ask("learn m t.csv")
    learner = Learner.load("m")
    assert learner.classes_.tolist() == ["a", "b"]
    learner.partial_fit([[90.0, 90.0]] * 5, ["new"] * 5).save("again")
    assert "a 100.0%" in ask("predict again t.csv")
    assert "among all 3 learnt classes of 1 lesson" in ask("evaluate again t.csv")
    assert "new" in ask("show again")
    learner.notes_["form"] = {"columns": 3}
    learner.save("again")
    assert "in a way that this Engram does not know" in ask("predict again t.csv", 2)


def test_ctrl_c_while_learning_leaves_the_old_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real signal to a real process, at several moments of its work."""
    photographs(tmp_path / "one", "ant bee", 40)
    photographs(tmp_path / "two", "cow dog", 400, side=40)
    monkeypatch.chdir(tmp_path)
    assert main(["learn", "m", "one", "--set", "analytic.filters=16", "--quiet"]) == 0
    before = Path("m").read_bytes()
    stopped = 0
    for wait in (1.0, 2.0, 3.0):
        process = subprocess.Popen(
            [sys.executable, "-m", "engram", "learn", "m", "two"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        time.sleep(wait)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate()
        if process.returncode == 130:
            stopped += 1
            assert Path("m").read_bytes() == before
            assert "stopped; the model's file is as it was" in error
    assert sorted(os.listdir()) == ["m", "one", "two"]
    assert stopped or Path("m").read_bytes() != before


def test_a_recipe_that_learns_each_class_once_says_so(ask: Ask, tmp_path: Path) -> None:
    photographs(tmp_path / "one", "ant bee", 8, side=8)
    ask("learn m one --recipe dgm --set dgm.generator_steps=1 dgm.generator_batch=4")
    before = Path("m").read_bytes()
    assert "'ant' is known already" in ask("learn m one", 2)
    assert Path("m").read_bytes() == before


@pytest.mark.parametrize(
    ("name", "settings", "reveals"),
    [
        ("analytic", {}, ["means of features of each class", "means and deviations of the columns"]),
        ("joint", {"training": {"epochs": 1}}, ["every sample, as it was learnt"]),
        ("icarl", {"training": {"epochs": 1}, "icarl": {"memory": 7}}, ["up to 7 samples as they were", "weights"]),
        ("owm", {"training": {"epochs": 1}}, ["projectors", "weights of networks"]),
    ],
)
def test_show_says_what_a_file_may_reveal(
    name: str, settings: dict[str, dict[str, int]], reveals: list[str], tmp_path: Path, ask: Ask
) -> None:
    x = np.random.default_rng(0).normal(size=(40, 3))
    Learner(recipe(name, **settings)).fit(x, np.arange(40) % 2).save(tmp_path / "m")
    said = ask("show m")
    for part in reveals:
        assert part in said
