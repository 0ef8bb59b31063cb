"""The report as one HTML page that needs nothing else: no network, no library."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.resources import files
from string import Template

from engram.report.content import Entry, Picture, Section, Table
from engram.report.evidence import Progress
from engram.report.style import as_svg, theme

SCALE = 96
"""pixels an inch"""
LONG = 60
"""letters from which a table's text may take several lines"""
HALF = 7.0
"""inches that fit into half the page"""


def page(title: str, subtitle: str, progress: Sequence[Progress], sections: Sequence[Section]) -> str:
    links = "".join(f'<li><a href="#{one.key}">{escape(one.short)}</a></li>' for one in sections)
    style = Template(_asset("page.css")).substitute(light=theme(dark=False), dark=theme(dark=True))
    return Template(_asset("page.html")).substitute(
        title=escape(title),
        subtitle=escape(subtitle),
        style=style,
        script=_asset("page.js"),
        links=links,
        sections="\n".join(_section(one, _progress(progress) if one.key == "done" else "") for one in sections),
    )


def _section(section: Section, above: str) -> str:
    words = "".join(f"<p>{escape(word)}</p>" for word in section.words)
    parts = "\n".join(_table(part) if isinstance(part, Table) else _picture(part) for part in section.parts)
    return (
        f'<section id="{section.key}" aria-labelledby="{section.key}-title">\n'
        f'<h2 id="{section.key}-title">{escape(section.title)}</h2>\n{above}{words}\n'
        f'<div class="parts">{parts}</div>\n</section>'
    )


def _table(table: Table) -> str:
    kinds = ["" if table.numeric(column) else ' class="text"' for column in range(len(table.head))]
    head = "".join(_head(name, kind) for name, kind in zip(table.head, kinds, strict=True))
    body = "\n".join(f"<tr>{_row(row, kinds)}</tr>" for row in table.rows)
    notes = "".join(f"<p>{escape(note)}</p>" for note in table.notes)
    named = f'aria-labelledby="table-{table.key}-title"'
    return (
        f'<div class="block wide" id="table-{table.key}">{_protocol(table.protocol)}\n'
        f'<h3 id="table-{table.key}-title">{escape(table.title)}</h3>\n'
        f'<div class="scroll" role="region" {named} tabindex="0"><table class="sortable" {named}>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>"
        f'\n<div class="notes">{notes}</div></div>'
    )


def _head(name: str, kind: str) -> str:
    if not name:
        return '<th scope="col"><span class="unseen">remark</span></th>'
    arrow = '<span class="arrow" aria-hidden="true"></span>'
    return f'<th scope="col"{kind}><button type="button">{escape(name)}{arrow}</button></th>'


def _row(entries: Sequence[Entry], kinds: Sequence[str]) -> str:
    first, *others = entries
    cells = (_entry(entry, kind) for entry, kind in zip(others, kinds[1:], strict=True))
    return f'<th scope="row">{escape(first.text)}</th>' + "".join(cells)


def _entry(entry: Entry, kind: str) -> str:
    value = "" if entry.value is None else f' data-value="{entry.value!r}"'
    remarks = "".join(f'<span class="remark">{escape(remark)}</span>' for remark in entry.remarks)
    text = escape(entry.text)
    if entry.strong:
        text = f"<strong>{text}</strong>"
    if len(entry.text) > LONG:
        text = f'<span class="long">{text}</span>'
    return f"<td{kind}{value}>{text}{remarks}</td>"


def _picture(picture: Picture) -> str:
    """Text in a figure is as large as text beside it, so wide figures take the whole width."""
    inches = picture.figure.get_size_inches()[0]
    svg = as_svg(picture.figure, picture.key)
    attributes = f'role="img" aria-label="{escape(picture.description)}" style="max-width: {inches * SCALE:.0f}px"'
    svg = svg.replace("<svg ", f"<svg {attributes} ", 1)
    links = ", ".join(f'<a href="figures/{picture.key}.{kind}">{kind.upper()}</a>' for kind in ("png", "pdf"))
    return (
        f'<div class="block{" wide" if inches > HALF else ""}">{_protocol(picture.protocol)}'
        f'<figure id="{picture.key}-figure"><h3>{escape(picture.title)}</h3>\n{svg}\n'
        f'<figcaption>{escape(picture.caption)} <span class="files">{links}</span></figcaption></figure></div>'
    )


def _protocol(lines: Sequence[str]) -> str:
    if not lines:
        return ""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    few = " open" if len(lines) <= 2 else ""
    return f'<details class="protocol"{few}><summary>Protocol</summary><ul>{items}</ul></details>'


def _progress(progress: Sequence[Progress]) -> str:
    bars = "".join(
        f'<div class="progress"><span class="name">{escape(one.column)}</span>'
        f'<progress max="{max(1, one.wanted)}" value="{one.done}" aria-label="{escape(one.column)}"></progress>'
        f'<span class="count">{one.done} of {one.wanted}</span></div>'
        for one in progress
    )
    return f'<div class="progresses">{bars}</div>'


def _asset(name: str) -> str:
    return (files("engram.report") / "assets" / name).read_text(encoding="utf-8")
