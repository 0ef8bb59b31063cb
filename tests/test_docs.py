"""What the README and the docs say works as it stands: Python blocks run, commands are understood, flags exist."""

import dataclasses
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engram.bench.command import BenchCommand
from engram.cli import DataCommand, DemoCommand, ReportCommand, StudyCommand, main, parsed
from engram.commands.asked import COMMANDS
from engram.recipes import RECIPES
from engram.study.options import RunOptions
from engram.testing import check_recipe

KNOWN = frozenset(RECIPES)
ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "results" / "README.md"]
TEXTS = {page: page.read_text(encoding="utf-8") for page in PAGES}
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
INDENTED = re.compile(r"(?:^    .*\n?)+", re.MULTILINE)
STANDS_FOR = {"RECIPE": "owm", "SET": "cifar10", "DATASET": "cifar10", "N": "5", "K": "0", "FLAGS": ""}
TOGETHER = ROOT / "docs" / "start.md"
"""a page whose blocks are one story: they run in their order, in one folder"""


def blocks(text: str, *languages: str) -> list[str]:
    return [block for language, block in FENCED.findall(text) if language in languages]


def shell_lines(text: str) -> Iterator[list[str]]:
    """The words of each line of the shell, continued ones as one, without comments."""
    inside = [*blocks(text, "", "bash", "sh"), *(found.replace("\n    ", "\n") for found in INDENTED.findall(text))]
    for block in inside:
        for line in block.replace("\\\n", " ").splitlines():
            if re.match(r"\s*(engram|python|make|pip|curl) ", line):
                yield shlex.split(re.sub(r"\[(-[^]]*)\]", r"\1", line), comments=True)  # what may be left out


LINES = [
    pytest.param(words, id=f"{page.name}: {' '.join(words)}") for page in PAGES for words in shell_lines(TEXTS[page])
]
INLINE = [
    pytest.param(shlex.split(found.replace("\n", " ")), id=f"{page.name}: {' '.join(found.split())}")
    for page in PAGES
    for found in re.findall(r"`(engram [^`]*--[^`]*)`", FENCED.sub("", TEXTS[page]))
]
PYTHON = [
    pytest.param(page, block, id=f"{page.name}-{number}")
    for page in PAGES
    if page != TOGETHER
    for number, block in enumerate(blocks(TEXTS[page], "python"))
]


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    try:
        yield
    finally:
        for name in RECIPES.keys() - KNOWN:
            del RECIPES[name]


@pytest.mark.parametrize(("page", "block"), PYTHON)
def test_a_block_of_python_runs(page: Path, block: str, capsys: pytest.CaptureFixture[str]) -> None:
    run(page, block)
    for name in RECIPES.keys() - KNOWN:  # a recipe that the page adds keeps every promise, as it says
        check_recipe(name)
    if "of all ten digits" in block:
        assert float(capsys.readouterr().out.split("%")[0]) > 80


def run(page: Path, block: str) -> None:
    exec(compile(block, str(page), "exec"), {"__name__": "__main__"})


def test_the_first_five_minutes_go_as_they_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    for language, block in FENCED.findall(TEXTS[TOGETHER]):
        if language == "python":
            run(TOGETHER, block)
        for words in shell_lines(f"```\n{block}```\n") if not language else ():
            if words[0] == "engram":
                assert main(words[1:]) == 0, words
    said = capsys.readouterr().out
    assert "['zero']" in said
    (accuracy,) = re.findall(r"all ten classes: ([\d.]+) %", TEXTS[TOGETHER])
    found = re.search(r"accuracy ([\d.]+)% of 360 samples", said)
    assert found is not None
    assert float(found[1]) == pytest.approx(float(accuracy), abs=1)


@pytest.mark.parametrize("words", [*LINES, *INLINE])
def test_a_line_of_the_shell_is_understood(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    match words:
        case ["engram", *arguments]:
            replaced = [STANDS_FOR.get(word, re.sub(r"\b[A-Z]\b|RECIPE", "0", word)) for word in arguments]
            if "--help" in replaced:
                with pytest.raises(SystemExit, match="0"):
                    parsed(replaced)
            else:
                assert callable(parsed([word for word in replaced if word]))
        case ["python", script, *arguments]:
            assert (ROOT / script).exists()
            flags = {word for word in arguments if word.startswith("--")}
            assert flags <= set(re.findall(r"--[\w-]+", (ROOT / script).read_text(encoding="utf-8")))
        case ["make", target, *_]:
            assert f"\n{target}:" in (ROOT / "Makefile").read_text(encoding="utf-8")
        case ["pip", "install", extra]:
            project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
            assert extra.removeprefix("engram[").removesuffix("]") in project["optional-dependencies"]
        case ["curl", *arguments]:
            (address,) = [word for word in arguments if word.startswith("http")]
            app = (ROOT / "src" / "engram" / "serving" / "app.py").read_text(encoding="utf-8")
            assert f'"{re.sub("^http://[^/]*", "", address)}"' in app
        case _:
            raise AssertionError(f"a command that nobody checks: {words}")


def test_every_flag_that_is_named_exists() -> None:
    known = {f"--{name}" for kind in asked() for name in flags_of(kind)}
    for chosen in RECIPES.values():
        for group, settings in chosen.groups().items():
            known |= {f"--{name}" if group == "training" else f"--{group}.{name}" for name in flags_of(settings)}
    known |= {"--help", "--version", "--order"}
    for script in (ROOT / "benchmarks").glob("*.py"):
        known |= set(re.findall(r"--[a-z-]+", script.read_text(encoding="utf-8")))
    for page in PAGES[:-1]:  # the results' page tells what was run in its time
        text = TEXTS[page]
        named = {
            flag for code in re.findall(r"`[^`]+`", text) for flag in re.findall(r"(?<![\w-])--[a-z][\w.-]*", code)
        }
        groups = {flag for flag in named if flag.endswith("-") and any(name.startswith(flag) for name in known)}
        unknown = named - known - groups
        assert not unknown, f"{page.name}: {unknown}"


def flags_of(settings: Any) -> list[str]:
    """What is on can be switched off, and what is off switched on."""
    fields = dataclasses.fields(settings)
    return [f"no-{one.name}".replace("_", "-") if one.default is True else one.name.replace("_", "-") for one in fields]


def asked() -> list[Any]:
    return [
        RunOptions,
        DataCommand,
        DemoCommand,
        StudyCommand,
        ReportCommand,
        BenchCommand,
        *(kind for kind, *_ in COMMANDS),
    ]


def test_blocks_of_toml_can_be_read() -> None:
    for text in TEXTS.values():
        for block in blocks(text, "toml"):
            tomllib.loads(block)


def test_links_between_pages_lead_somewhere() -> None:
    for page, text in TEXTS.items():
        for target in re.findall(r"\]\(([^)#:]+)\)", text):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_site_is_built_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    pytest.importorskip("material")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    pages = list((tmp_path / "site").glob("*.html"))
    assert len(pages) > 10
    for page in pages:
        content = page.read_text(encoding="utf-8")
        assert not re.findall(
            r"<(?:script|img|iframe)[^>]*src=\"?https?:[^>]*>|<link[^>]*stylesheet[^>]*https?:[^>]*>", content
        )
    shutil.rmtree(tmp_path / "site")
