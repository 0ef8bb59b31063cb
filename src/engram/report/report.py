"""`engram report`: a page, tables and figures of a folder of results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engram import files
from engram.report import findings, pictures
from engram.report.content import Picture, Section, Table
from engram.report.embedding import embeddings
from engram.report.evidence import Evidence
from engram.report.formats import latex, markdown, table_2_csv
from engram.report.page import page
from engram.report.style import drawing
from engram.study.definition import Study

PAGE = "index.html"
FIGURES = "figures"


def report(folder: str, out: str | None) -> Path:
    """Everything is made anew from what the folder holds now."""
    evidence = Evidence(Path(folder))
    target = Path(out) if out else Path(folder) / "report"
    with drawing():
        sections = sections_of(evidence)
        _write_figures(sections, target / FIGURES)
        title, subtitle = _titles(evidence)
        files.write_text(target / PAGE, page(title, subtitle, evidence.progress(), sections))
    table = findings.table_2(evidence)
    files.write_text(target / "tables.md", markdown(title, sections))
    files.write_text(target / "table2.tex", latex(table))
    files.write_text(target / "table2.csv", table_2_csv(evidence))
    print(f"page: {target / PAGE}")
    return target / PAGE


def sections_of(evidence: Evidence) -> list[Section]:
    """Those that have something to show."""
    filled = [column for column in evidence.columns if evidence.all_results(column)]
    if not filled:
        return [_missing(evidence)]
    sections = [
        _missing(evidence),
        Section(
            "accuracy", "Accuracy", "Final accuracy", (), _tables(findings.table_2(evidence), findings.tests(evidence))
        ),
        Section("learning", "Each task", "After each task", (), _learning(evidence, filled)),
        Section("errors", "Errors", "Two kinds of error", (), _tables(findings.table_3(evidence))),
        Section(
            "incremental",
            "Forgetting",
            "On the way, and forgetting",
            (),
            _tables(findings.incremental(evidence), findings.class_orders(evidence)),
        ),
        Section(
            "drift",
            "Drift",
            "Feature drift",
            (),
            [*_some(pictures.drift, evidence, filled), *_tables(findings.drift(evidence))],
        ),
        Section(
            "features", "Features", "Generated features", (), [part for c in filled for part in embeddings(evidence, c)]
        ),
        Section(
            "projectors", "Projectors", "What the projectors leave free", (), _some(pictures.traces, evidence, filled)
        ),
        Section("confusion", "Confusion", "Confusion between tasks", (), _some(pictures.confusion, evidence, filled)),
        Section("choices", "Settings", "Settings chosen on validation data", (), _tables(findings.choices(evidence))),
        Section("origins", "Machines", "Where it was computed", (), _tables(findings.origins(evidence))),
    ]
    return [section for section in sections if section.parts or section.words]


def _learning(evidence: Evidence, columns: Sequence[str]) -> list[Picture | Table]:
    drawn = [pictures.after_each_task(evidence, column) for column in columns]
    return [*drawn, *(findings.after_each_task(evidence, column) for column in columns)]


def _tables(*tables: Table) -> list[Table]:
    return [table for table in tables if table.rows]


def _some(draw, evidence: Evidence, columns: Sequence[str]) -> list[Picture]:
    return [picture for column in columns if (picture := draw(evidence, column))]


def _missing(evidence: Evidence) -> Section:
    """In words and by name, so that nobody takes half a study for a whole one."""
    progress, runs = evidence.progress(), len(evidence.contents.results)
    words = []
    if not evidence.contents.results:
        words.append("There is no result yet: this page will fill as runs end.")
    if evidence.study is None:
        words.append(f"Runs found: {runs}. No study.json is here that would say which are missing.")
    else:
        done, wanted = sum(one.done for one in progress), sum(one.wanted for one in progress)
        words.append(f"{done} of {wanted} runs are done." + (" Nothing is missing." if done == wanted else ""))
        words += _not_there_yet(evidence.study)
    words += [f"{one.column}, missing: {_by_row(one.missing)}." for one in progress if one.missing]
    words += [f"Failed: {place}: {reason}" for place, reason in evidence.contents.failures.items()]
    return Section("done", "Done", "How much is done", words)


def _not_there_yet(study: Study) -> list[str]:
    recipes = [row.name for row in study.rows if row.missing]
    sets = [column.name for column in study.columns if column.missing]
    lacking = [f"{kind} {', '.join(names)}" for kind, names in (("recipes", recipes), ("sets", sets)) if names]
    return [f"This version of Engram does not have yet: {'; '.join(lacking)}."] if lacking else []


def _by_row(places: Sequence[str]) -> str:
    """Rows that lack the same runs together: a, b (seed0, seed1); c (seed1)."""
    rows: dict[str, list[str]] = {}
    for place in places:
        _, row, run = place.split("/")
        rows.setdefault(row, []).append(run)
    same: dict[str, list[str]] = {}
    for row, runs in rows.items():
        same.setdefault(", ".join(runs), []).append(row)
    return "; ".join(f"{', '.join(names)} ({runs})" for runs, names in same.items())


def _titles(evidence: Evidence) -> tuple[str, str]:
    count = len(evidence.contents.results)
    runs = f"{count} run{'' if count == 1 else 's'} in {evidence.folder.resolve().name}/"
    return (evidence.study.title if evidence.study else f"Results in {evidence.folder.resolve().name}"), runs


def _write_figures(sections: Sequence[Section], folder: Path) -> None:
    """As PNG and PDF, for papers and slides."""
    files.make_folder(folder)
    for section in sections:
        for part in section.parts:
            if isinstance(part, Picture):
                for kind in ("png", "pdf"):
                    part.figure.savefig(folder / f"{part.key}.{kind}", facecolor="white")
