import csv
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tests.study.studies import fill, made_up, put, tiny

from engram import files
from engram.cli import main
from engram.recipes import RECIPES, Recipe
from engram.report import findings, paper
from engram.report.evidence import Evidence
from engram.report.report import report
from engram.report.style import LOOKS, look
from engram.settings import ExperienceReplaySettings
from engram.study.definition import Study
from engram.study.folder import STUDY, write_failure
from engram.study.grid import cells_of
from engram.study.reading import read_study
from engram.study.run import ANALYSIS
from engram.study.statistics import compare

ROWS: dict[str, Any] = {name: {} for name in ("finetune", "owm", "owm+gfr", "joint")}


def started(folder: Path, **changes: Any) -> Study:
    """A study that has just begun."""
    study = tiny(**({"rows": ROWS, "columns": {"digits-5": {}}, "seeds": 3} | changes))
    files.write_json(folder / STUDY, {"name": study.name, "study": study.plain()})
    return study


class Page(HTMLParser):
    """Tags, ids and text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self.ids += [str(named["id"])] if named.get("id") else []
        self.links += [str(named[name]) for name in ("src", "href") if named.get(name)]

    def handle_data(self, data: str) -> None:
        self.words += data


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole study in two class orders, with generated features, and its report."""
    folder = tmp_path_factory.mktemp("full")
    study = started(folder, class_orders=[0, 3])
    fill(folder, study)
    random = torch.Generator().manual_seed(0)
    labels = torch.arange(10).repeat_interleave(4)
    features = {name: torch.rand(40, 6, generator=random) for name in ("real", "generated")}
    tensors = features | {"real_y": labels, "generated_y": labels}
    files.save(folder / "digits-5/owm+gfr/seed0" / ANALYSIS, tensors, {"recipe": "owm+gfr"}, kind="analysis")
    report(str(folder), None)
    return folder


def test_a_full_study_has_every_section_and_needs_no_network(full: Path) -> None:
    text = (full / "report/index.html").read_text()
    page = Page(text)
    sections = {"done", "accuracy", "learning", "errors", "incremental", "drift", "features", "projectors", "confusion"}
    assert sections <= set(page.ids)
    assert "24 of 24 runs are done. Nothing is missing." in page.words
    outside = [link for link in page.links if not link.startswith(("#", "data:", "figures/"))]
    assert outside == []
    assert "url(http" not in text
    assert "@import" not in text
    for link in page.links:
        if link.startswith("figures/"):
            assert (full / "report" / link).stat().st_size > 1000
        if link.startswith("#") and not re.match(r"#[mp][0-9a-f]{10}$", link):  # matplotlib's own marks
            assert link[1:] in page.ids
    own = [name for name in page.ids if not re.match(r"[mp][0-9a-f]{10}$", name)]
    assert len(own) == len(set(own))


def test_each_figure_is_a_png_and_a_pdf(full: Path) -> None:
    names = {path.stem for path in (full / "report/figures").iterdir()}
    parts = ("after", "drift", "features", "traces", "confusion")
    assert {name.partition("-")[0] for name in names} == set(parts)
    assert len(names) == len(parts)
    for name in names:
        with Image.open(full / f"report/figures/{name}.png") as picture:
            assert min(picture.size) > 300
            assert len(set(picture.convert("L").resize((100, 100)).tobytes())) > 5
        assert (full / f"report/figures/{name}.pdf").read_bytes().startswith(b"%PDF")


def test_the_numbers_are_those_of_the_results(full: Path) -> None:
    evidence = Evidence(full)
    values = [one.result["accuracy"] for one in evidence.results("digits-5", "owm+gfr")]
    table = findings.table_2(evidence)
    entry = dict(zip(evidence.rows, table.rows, strict=True))["owm+gfr"][1]
    mean, error = 100 * np.mean(values), 100 * np.std(values, ddof=1) / np.sqrt(3)
    test = compare(values, evidence.values("digits-5", "owm", "accuracy"))
    assert test is not None
    assert entry.text == f"{mean:.2f} ± {error:.2f}{test.mark}"
    assert test.mark
    assert entry.strong, "the best that stores nothing: joint has more and does not count"
    assert entry.text in (full / "report/index.html").read_text()


def test_csv_and_latex_and_markdown_say_the_same(full: Path) -> None:
    with (full / "report/table2.csv").open() as file:
        lines = {line["row"]: line for line in csv.DictReader(file)}
    assert list(lines) == list(ROWS)
    gfr = lines["owm+gfr"]
    assert (gfr["seeds"], gfr["paper"]) == ("3", "")
    latex = (full / "report/table2.tex").read_text()
    mark = {"†": "dagger", "⋆": "star"}[gfr["mark"]]
    assert rf"owm+gfr & \textbf{{{gfr['mean']} $\pm$ {gfr['standard_error']}$^{{\{mark}}}$}} \\" in latex
    assert latex.count(r"\begin") == latex.count(r"\end") == 2
    assert latex.isascii()
    markdown = (full / "report/tables.md").read_text()
    assert f"**{gfr['mean']} ± {gfr['standard_error']}{gfr['mark']}**" in markdown
    for heading in re.findall(r"### .*\n\n(.*)", markdown):
        assert heading.startswith(("- digits-5: 5 tasks", "| ")), "the protocol comes before the table"


def test_class_orders_are_kept_apart(full: Path) -> None:
    evidence = Evidence(full)
    assert evidence.class_orders() == [0, 3]
    assert {one.class_order for one in evidence.all_results("digits-5")} == {0}
    table = findings.class_orders(evidence)
    assert [row[1].text for row in table.rows] == list(ROWS)
    assert table.head[2:] == ["natural", "order 3", "over orders"]


def test_an_empty_study_says_so(tmp_path: Path) -> None:
    started(tmp_path)
    page = Page(report(str(tmp_path), None).read_text())
    assert "There is no result yet" in page.words
    assert "0 of 12 runs are done" in page.words
    assert "finetune, owm, owm+gfr, joint (seed0, seed1, seed2)" in page.words


def test_a_folder_with_nothing_in_it_says_so_and_a_missing_one_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "nothing").mkdir()
    assert main(["report", str(tmp_path / "nothing")]) == 0
    assert "There is no result yet" in (tmp_path / "nothing/report/index.html").read_text()
    assert main(["report", str(tmp_path / "none")]) == 2
    assert "none is not a folder" in capsys.readouterr().err


def test_columns_of_any_name_and_a_damaged_choice_are_no_obstacle(tmp_path: Path) -> None:
    result = made_up(cells_of(tiny(rows={"owm": {}}, columns={"digits-5": {}}), {})[0])
    files.write_json(tmp_path / "my digits/mine/first/result.json", result)
    files.write_text(tmp_path / "my digits/mine/choice.json", "{")
    report(str(tmp_path), None)
    tables = (tmp_path / "report/tables.md").read_text()
    assert "| recipe | after 1 | after 2 | after 3 | after 4 | after 5 |" in tables
    assert "validation accuracy" not in tables


def test_a_recipe_that_stores_samples_does_not_compete_whoever_made_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Recipe("hoard", "stores", {"er": ExperienceReplaySettings(memory=3)})
    monkeypatch.setitem(RECIPES, "hoard", own)
    fill(tmp_path, tiny(rows={"owm": {}, "hoard": {}}))
    evidence = Evidence(tmp_path)
    strong = {row[0].text for row in findings.table_2(evidence).rows if row[1].strong}
    assert strong == {"owm"}
    assert "hoard" in findings.table_2(evidence).notes[-1]


def test_a_half_done_study_names_what_is_missing_and_what_failed(tmp_path: Path) -> None:
    rows = {**ROWS, "wonder": {"planned": True}}
    study = started(tmp_path, rows=rows)
    cells = cells_of(study, {})
    for cell in cells[:5]:  # all rows with seed 0, and finetune with seed 1
        put(tmp_path, cell, 0.5 + cell.seed / 10)
    write_failure(tmp_path / cells[5].place, "the disk <was> full")
    text = report(str(tmp_path), str(tmp_path / "elsewhere")).read_text()
    page = Page(text)
    assert "5 of 12 runs are done" in page.words
    missing = "owm, owm+gfr, joint (seed1, seed2); finetune (seed2)"
    assert f"digits-5, missing: {missing}" in page.words
    assert "Failed: digits-5/owm/seed1: the disk <was> full" in page.words
    assert "does not have yet: recipes wonder" in page.words
    assert not re.search(r"\d±|[†⋆↓]</td>", text)
    assert "1 seed" in page.words
    assert not (tmp_path / "report").exists()


def test_results_beside_the_papers_numbers(tmp_path: Path) -> None:
    study = read_study("paper")
    for cell in cells_of(study, {}):
        if cell.column == "cifar10-5" and cell.row == "owm" and cell.seed < 3:
            put(tmp_path, cell, 0.50 + cell.seed / 100)
    report(str(tmp_path), None)
    with (tmp_path / "report/table2.csv").open() as file:
        lines = {line["row"]: line for line in csv.DictReader(file)}
    assert lines["owm"] == {
        "column": "cifar10-5", "row": "owm", "mean": "51.00", "standard_error": "0.58", "seeds": "3", "mark": "",
        "paper": "54.52", "paper_standard_error": "0.45", "difference": "-3.52",
    }  # fmt: skip
    assert set(lines) == set(paper.rows())
    assert lines["joint"]["mean"] == ""
    errors = {row[1].text: row for row in findings.table_3(Evidence(tmp_path)).rows}
    assert errors["owm+gfr"][3].remarks == ["paper 4.87 (+1.04)"]
    assert errors["owm"][2].text.startswith("36.75 ±")


def test_the_papers_numbers_are_whole() -> None:
    assert len(paper.accuracies()) == 101
    assert str(paper.accuracies()["cifar10-5", "owm"]) == "54.52 ± 0.45"
    assert str(paper.accuracies()["cifar100-20", "joint"]) == "53.02"
    assert len(paper.errors()) == 9


def test_each_known_recipe_has_a_look_of_its_own_on_both_grounds() -> None:
    looks = [(one.marker, one.dash) for one in LOOKS.values()]
    assert len(set(looks)) == len(looks)
    assert set(RECIPES) <= set(LOOKS)
    for one in [*LOOKS.values(), look("never seen before")]:
        assert contrast(one.light, "#ffffff") > 4
        assert contrast(one.dark, "#12171e") > 4


def contrast(one: str, other: str) -> float:
    """By the definition of the Web Content Accessibility Guidelines."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)
