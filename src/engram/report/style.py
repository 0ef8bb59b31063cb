"""One colour, marker and dash for each recipe, the same in every figure; told apart without colours too.

Figures are drawn once, on light ground. For the page, `as_svg` puts the page's own colours in the place of theirs, so
that they follow its light or dark theme.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

INK, LINE = "#1d2733", "#c9d1db"
DARK_INK, DARK_LINE = "#e6ebf2", "#3b4756"


@dataclass(frozen=True)
class Look:
    light: str
    dark: str
    marker: str
    dash: str = "-"


LOOKS = {
    "owm": Look("#0062a3", "#5cb3f5", "o"),
    "owm+gfr": Look("#c24e00", "#ff9a52", "s"),
    "owm+ssl": Look("#007a5a", "#3fd1a4", "^"),
    "owm+ssl+gfr": Look("#a8006b", "#ff7cc4", "D"),
    "analytic": Look("#b3131b", "#ff7a73", "*"),
    "finetune": Look("#6b7683", "#a4afbc", "v", "--"),
    "gfr": Look("#856000", "#e2bd45", "P", "--"),
    "fd+gfr": Look("#6a41b8", "#b99bf7", "X", "--"),
    "joint": Look(INK, DARK_INK, "", "--"),
    "owm+gir": Look("#00707f", "#4fd0e0", "<", "-."),
    "gir": Look("#00707f", "#4fd0e0", ">", ":"),
    "ewc": Look("#7a4a2b", "#d6a584", "h", ":"),
    "mas": Look("#4c6b00", "#b3d357", "p", ":"),
    "pgma": Look("#3f5aa6", "#93abf2", "d", "-."),
    "dgm": Look("#8c2f5d", "#ec96be", "H", "-."),
    "icarl-200": Look("#4c6b00", "#b3d357", "x", "-."),
    "icarl-2000": Look("#3d7a1f", "#8fdb6b", "+", "-."),
    "icarl": Look("#4c6b00", "#b3d357", "X", "-."),
    "er": Look("#3d7a1f", "#8fdb6b", "*", "-."),
    "lwf": Look("#7a4a2b", "#d6a584", "d", ":"),
    "gpm": Look("#3f5aa6", "#93abf2", "s", ":"),
    "lda": Look("#b3131b", "#ff7a73", "v", ":"),
    "ncm": Look("#856000", "#e2bd45", "^", ":"),
}
CLASSES = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c7ae6", "#9a8f00", "#e0457b", "#7f8c8d"]
"""For classes; lightness between the two grounds."""


def look(row: str) -> Look:
    """Recipes that nobody has drawn before get a colour by their name."""
    if row in LOOKS:
        return LOOKS[row]
    hue = hashlib.sha256(row.encode()).digest()
    known = list(LOOKS.values())
    base = known[hue[0] % len(known)]
    return Look(base.light, base.dark, "ovs^Dp"[hue[1] % 6], ("-", "--", "-.", ":")[hue[2] % 4])


@contextmanager
def drawing() -> Iterator[None]:
    settings: dict[Any, Any] = {
        "font.size": 10,
        "text.color": INK,
        "axes.labelcolor": INK,
        "axes.edgecolor": LINE,
        "axes.titlecolor": INK,
        "axes.titlesize": 11,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.color": LINE,
        "grid.linewidth": 0.6,
        "xtick.color": INK,
        "ytick.color": INK,
        "lines.linewidth": 1.8,
        "lines.markersize": 5.5,
        "legend.frameon": False,
        "svg.fonttype": "none",
        "pdf.fonttype": 42,
        "savefig.dpi": 160,
    }
    with matplotlib.rc_context(settings):
        yield


def new_figure(width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def as_svg(figure: Figure, key: str) -> str:
    """For use within a page: no ids that two figures could share, its colours as variables of the page."""
    file = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": key}):
        figure.savefig(file, format="svg", transparent=True, dpi=72, metadata={"Date": None, "Creator": None})
    text = file.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r' id="([a-zA-Z0-9.]+_\d+|image[0-9a-f]+)"', "", text)
    text = re.sub(r"\b([1-9]\d*\.\d\d)\d+", r"\1", text)  # a hundredth of a point cannot be seen
    for light, name in variables().items():
        text = text.replace(light, f"var({name})")
    return re.sub(r'width="[\d.]+pt" height="[\d.]+pt" ', "", text, count=1)


def variables() -> dict[str, str]:
    """The page's variable for each colour of a figure."""
    colours = dict.fromkeys(one.light for one in LOOKS.values())
    return {INK: "--ink", LINE: "--line"} | {c: f"--c{i}" for i, c in enumerate(colours) if c != INK}


def theme(dark: bool) -> str:
    """The variables' values, as CSS."""
    values = {one.light: one.dark if dark else one.light for one in LOOKS.values()}
    values |= {INK: DARK_INK if dark else INK, LINE: DARK_LINE if dark else LINE}
    return " ".join(f"{name}: {values[light]};" for light, name in variables().items())
