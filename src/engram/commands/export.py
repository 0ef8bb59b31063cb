"""`engram export`: a model file for other programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engram.commands.model import open_model
from engram.export import export

if TYPE_CHECKING:
    from engram.commands.asked import ExportCommand


def export_model(asked: ExportCommand) -> None:
    export(open_model(asked.model, "cpu"), asked.out)
    print(f"Wrote {asked.out}.")
