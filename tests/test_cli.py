import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from engram.cli import main

TINY = ["--epochs", "1", "--network.filters", "2", "3", "4", "--network.hidden", "8", "--quiet", "--threads", "1"]


def ask(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "engram", *words], capture_output=True, text=True, env=os.environ)


OWN_DATA = [[command] for command in ("learn", "predict", "evaluate", "show", "forget")]


@pytest.mark.parametrize("words", [[], ["run"], ["run", "owm"], ["data"], ["demo"], ["study"], ["report"], *OWN_DATA])
def test_help_imports_no_torch(words: list[str]) -> None:
    code = "import sys\nfrom engram.cli import main\n"
    code += "try:\n main(sys.argv[1:])\nexcept SystemExit as end:\n assert not end.code\n"
    code += "heavy = {'torch', 'sklearn', 'scipy', 'matplotlib', 'pooch'} & set(sys.modules)\nassert not heavy, heavy"
    done = subprocess.run([sys.executable, "-c", code, *words, "--help"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--help" in done.stdout


def test_every_setting_of_a_recipe_is_a_flag_and_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    for name, owm in (("owm", True), ("finetune", False)):
        with pytest.raises(SystemExit):
            main(["run", name, "--help"])
        shown = capsys.readouterr().out
        for flag in ("--tasks", "--class-order-seed", "--selection", "--epochs", "--clip-norm", "--network.hidden"):
            assert flag in shown
        assert ("--owm.alpha-conv" in shown) == owm


def test_a_recipe_that_learns_in_one_pass_has_no_epochs(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run", "analytic", "--help"])
    shown = capsys.readouterr().out
    assert "--epochs" not in shown
    for flag in ("--analytic.size", "--analytic.filters", "--head.ridge", "--tasks"):
        assert flag in shown


def test_a_run_writes_its_result_with_the_settings_it_was_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run", "owm", "digits", "--tasks", "3", "--seed", "4", "--class-order-seed", "2", "--selection", "seen"]
    assert main([*words, "--out", str(tmp_path), "--owm.alpha-hidden", "0.5", "--precision", "float32", *TINY]) == 0
    result = json.loads((tmp_path / "result.json").read_text())
    assert (result["tasks"], result["seed"], result["class_order_seed"]) == (3, 4, 2)
    assert result["settings"]["owm"]["alpha_hidden"] == 0.5
    assert result["settings"]["network"]["filters"] == [2, 3, 4]
    assert result["groups"] != [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9]]
    said = capsys.readouterr().out
    for part in ("3 tasks", "class order 2", "seed 4", "selection seen", f"{result['accuracy']:.2%}", "result.json"):
        assert part in said


def test_the_order_of_the_ingredients_is_a_flag_where_there_are_several(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    generator = ["--replay.generator-steps", "1", "--replay.generator-width", "8", "--replay.generator-batch", "4"]
    words = ["run", "owm+gfr", "digits", "--order", "replay", "owm", "--tasks", "2", *generator]
    assert main([*words, "--out", str(tmp_path), *TINY]) == 0
    assert json.loads((tmp_path / "result.json").read_text())["order"] == ["replay", "owm"]
    assert main(["run", "owm+gfr", "digits", "--out", str(tmp_path), "--resume", *generator, *TINY]) == 2
    assert "with tasks 2" in capsys.readouterr().err
    for name, given in (("owm+gfr", True), ("owm", False)):
        with pytest.raises(SystemExit):
            main(["run", name, "--help"])
        assert ("--order" in capsys.readouterr().out) == given


def test_help_that_nobody_reads_to_its_end_leaves_no_traceback() -> None:
    line = f"{sys.executable} -m engram run owm --help | head -n 1"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, env=os.environ)
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["run", "owm", "cifar11"], "did you mean cifar10"),
        (["run", "owmm", "digits"], "did you mean 'owm'"),
        (["run", "owm", "digits", "--checkpoint-seconds", "nan"], "--checkpoint-seconds"),
        (["run", "owm", "digits", "--tasks", "11"], "choose 1 to 10 tasks"),
        (["run", "owm", "digits", "--epochs", "0"], "epochs must be"),
        (["run", "owm", "digits", "--owm.alpha-conv", "-1"], "alpha_conv"),
        (["run", "owm+gfr", "digits", "--order", "owm"], "must name each of owm, replay once"),
        (["run", "owm", "digits", "--seed", "-1"], "seed must be"),
        (["run", "owm", "digits", "--class-order-seed", "-1"], "class order seed"),
        (["run", "owm", "cifar10", "--data-dir", "no/such/folder"], "no/such/folder"),
        (["run", "owm", "digits", "--threads", "-2"], "--threads -2"),
        (["run", "owm", "digits", "--out", "a file"], "a file"),
    ],
)
def test_a_mistake_is_one_sentence_on_stderr_and_exit_status_2(
    words: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a file").write_text("")
    defaults = [] if "--epochs" in words else ["--epochs", "1"]
    status = main([*words, *defaults, "--quiet"]) if "--out" not in words else main([*words, *TINY])
    caught = capsys.readouterr()
    assert status == 2
    assert sentence in caught.err
    assert len(caught.err.strip().splitlines()) == 1
    assert not caught.out
    assert not Path("runs").exists()


@pytest.mark.parametrize("words", [["run", "owm"], ["fly"], ["run", "owm", "digits", "--wings", "2"]])
def test_words_that_are_not_understood_end_with_exit_status_2(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2


def test_ctrl_c_ends_without_a_traceback(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("engram.study.run.run", interrupt)
    assert main(["run", "owm", "digits", "--quiet"]) == 130
    assert "--resume" in capsys.readouterr().err


def test_the_help_of_study_lists_the_studies_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["study", "--help"])
    shown = capsys.readouterr().out
    for part in ("digits (Handwritten digits", "paper (Table 2 of", "--retry-failed", "--ray", "--dry-run", "--only"):
        assert part in shown


def test_data_lists_every_set_with_its_place_and_licence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data"]) == 0
    shown = capsys.readouterr().out
    for name in ("digits", "cifar10", "cifar100", "svhn", "built in", "licence"):
        assert name in shown


def test_the_version_comes_alone() -> None:
    done = ask("--version")
    assert done.stdout.startswith("engram ")
    assert done.returncode == 0
