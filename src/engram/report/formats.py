"""A report's tables as Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from engram.report import paper
from engram.report.content import Entry, Section, Table, percent
from engram.report.evidence import Evidence
from engram.report.findings import comparison

LATEX_MARKS = {"†": r"$^{\dagger}$", "⋆": r"$^{\star}$", "↓": r"$^{\downarrow}$"}
COLUMNS = ["column", "row", "mean", "standard_error", "seeds", "mark", "paper", "paper_standard_error", "difference"]


def markdown(title: str, sections: Sequence[Section]) -> str:
    """Every table of the report, each with its protocol above it."""
    blocks = [f"# {title}"]
    for section in sections:
        tables = [part for part in section.parts if isinstance(part, Table)]
        if tables or section.words:
            blocks += [f"## {section.title}", *section.words]
        for table in tables:
            blocks += [f"### {table.title}", *_bullets(table.protocol), _markdown_table(table), *table.notes]
    return "\n\n".join(blocks) + "\n"


def latex(table: Table) -> str:
    """Table 2 in the paper's layout, for LaTeX without packages."""
    lines = [
        r"\begin{table*}",
        r"\centering",
        rf"\begin{{tabular}}{{l|{'c' * (len(table.head) - 1)}}}",
        r"\hline",
        " & ".join(_escaped(name) for name in table.head) + r" \\",
        r"\hline",
        *(" & ".join(_latex_entry(entry) for entry in row) + r" \\" for row in table.rows),
        r"\hline",
        r"\end{tabular}",
        rf"\caption{{{_escaped(table.title)}. {' '.join(_escaped(line) + '.' for line in table.protocol)}",
        r"Mean $\pm$ standard error over seeds; $^{\star}$ $p<0.05$, $^{\dagger}$ $p<0.01$ against owm (Welch).}",
        r"\end{table*}",
    ]
    return "\n".join(lines) + "\n"


def table_2_csv(evidence: Evidence) -> str:
    """One line a cell, in percent; also where only the paper has a number."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    for column in evidence.columns:
        for row in evidence.rows:
            summary, printed = evidence.summary(column, row, "accuracy"), paper.accuracies().get((column, row))
            if summary is None and printed is None:
                continue
            ours, theirs, gap = ["", "", 0, ""], ["", ""], ""
            if summary:
                test = comparison(evidence, column, row)
                error = "" if summary.error is None else percent(summary.error)
                ours = [percent(summary.mean), error, summary.count, test.mark if test else ""]
            if printed:
                theirs = [f"{printed.mean:.2f}", "" if printed.error is None else f"{printed.error:.2f}"]
            if summary and printed:
                gap = f"{100 * summary.mean - printed.mean:.2f}"
            writer.writerow([column, row, *ours, *theirs, gap])
    return file.getvalue()


def _markdown_table(table: Table) -> str:
    head = [_cell(name) for name in table.head]
    lines = [head, ["---"] * len(head), *([_markdown_entry(entry) for entry in row] for row in table.rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _markdown_entry(entry: Entry) -> str:
    text = f"**{_cell(entry.text)}**" if entry.strong else _cell(entry.text)
    return f"{text} ({_cell('; '.join(entry.remarks))})" if entry.remarks else text


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _bullets(lines: Sequence[str]) -> list[str]:
    return ["\n".join(f"- {line}" for line in lines)] if lines else []


def _latex_entry(entry: Entry) -> str:
    text = _escaped(entry.text).replace("±", r"$\pm$").replace("–", "--")
    for mark, command in LATEX_MARKS.items():
        text = text.replace(mark, command)
    return rf"\textbf{{{text}}}" if entry.strong else text


def _escaped(text: str) -> str:
    return "".join(rf"\{letter}" if letter in "&%$#_{}" else letter for letter in text)
