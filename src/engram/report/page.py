"""The report as one HTML page that needs nothing else: no network, no library."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.resources import files
from string import Template

from engram.report.content import Entry, Picture, Section, Table
from engram.report.evidence import Progress
from engram.report.style import as_svg, theme


def page(title: str, subtitle: str, progress: Sequence[Progress], sections: Sequence[Section]) -> str:
    links = "".join(f'<li><a href="#{one.key}">{escape(one.title)}</a></li>' for one in sections)
    style = Template(_asset("page.css")).substitute(light=theme(dark=False), dark=theme(dark=True))
    return Template(_asset("page.html")).substitute(
        title=escape(title),
        subtitle=escape(subtitle),
        style=style,
        script=_asset("page.js"),
        links=links,
        progress=_progress(progress),
        sections="\n".join(map(_section, sections)),
    )


def _section(section: Section) -> str:
    words = "".join(f"<p>{escape(word)}</p>" for word in section.words)
    parts = "\n".join(_table(part) if isinstance(part, Table) else _picture(part) for part in section.parts)
    return (
        f'<section id="{section.key}" aria-labelledby="{section.key}-title">\n'
        f'<h2 id="{section.key}-title">{escape(section.title)}</h2>\n{words}\n{parts}\n</section>'
    )


def _table(table: Table) -> str:
    head = "".join(
        f'<th scope="col"><button type="button">{escape(name)}<span class="arrow" aria-hidden="true"></span></button></th>'
        if name
        else '<th scope="col"><span class="unseen">remark</span></th>'
        for name in table.head
    )
    body = "\n".join(f"<tr>{_row(row)}</tr>" for row in table.rows)
    notes = "".join(f"<p>{escape(note)}</p>" for note in table.notes)
    return (
        f'<div class="block" id="{table.key}">{_protocol(table.protocol)}\n'
        f'<div class="scroll" role="region" aria-label="{escape(table.title)}" tabindex="0"><table class="sortable">'
        f"<caption>{escape(table.title)}</caption>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>"
        f'\n<div class="notes">{notes}</div></div>'
    )


def _row(entries: Sequence[Entry]) -> str:
    first, *others = entries
    return f'<th scope="row">{escape(first.text)}</th>' + "".join(map(_entry, others))


def _entry(entry: Entry) -> str:
    value = "" if entry.value is None else f' data-value="{entry.value!r}"'
    kind = ' class="strong"' if entry.strong else ""
    remark = f'<span class="remark">{escape(entry.remark)}</span>' if entry.remark else ""
    return f"<td{value}{kind}>{escape(entry.text)}{remark}</td>"


def _picture(picture: Picture) -> str:
    svg = as_svg(picture.figure, picture.key)
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{escape(picture.description)}" ', 1)
    links = ", ".join(f'<a href="figures/{picture.key}.{kind}">{kind.upper()}</a>' for kind in ("png", "pdf"))
    return (
        f'<div class="block">{_protocol(picture.protocol)}<figure id="{picture.key}-figure">'
        f"<h3>{escape(picture.title)}</h3>\n{svg}\n"
        f'<figcaption>{escape(picture.caption)} <span class="files">{links}</span></figcaption></figure></div>'
    )


def _protocol(lines: Sequence[str]) -> str:
    if not lines:
        return ""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    few = " open" if len(lines) <= 2 else ""
    return f'<details class="protocol"{few}><summary>Protocol</summary><ul>{items}</ul></details>'


def _progress(progress: Sequence[Progress]) -> str:
    return "".join(
        f'<div class="progress"><span class="name">{escape(one.column)}</span>'
        f'<progress max="{max(1, one.wanted)}" value="{one.done}" aria-label="{escape(one.column)}"></progress>'
        f'<span class="count">{one.done} of {one.wanted}</span></div>'
        for one in progress
    )


def _asset(name: str) -> str:
    return (files("engram.report") / "assets" / name).read_text(encoding="utf-8")
