"""The command line. It imports torch only once a command needs it, so that help comes at once."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, make_dataclass
from typing import Annotated, Any, Literal

import tyro
from tyro.conf import Positional, arg

import engram
from engram.bench.command import BenchCommand
from engram.commands.asked import COMMANDS
from engram.errors import EngramError
from engram.recipes import RECIPES, Recipe
from engram.recipes import recipe as recipe_by_name
from engram.study.options import RunOptions
from engram.study.reading import built_in

OVERVIEW = "Engram teaches a classifier new classes, task after task, without keeping the old data."
ORDER = "of the ingredients' edits: replay before owm is projected with the rest, after owm it is not"
GOES_ON = {
    "run": "; the run goes on from its last checkpoint with --resume",
    "study": "; the same command goes on where it was",
    "learn": "; the model's file is as it was",
}
STOPPED = 130
"""What shells report for a program that Ctrl-C has ended."""


@dataclass(frozen=True)
class DataCommand:
    """List the data sets, where they lie, and their licences."""

    data_dir: str | None = None
    """folder that holds the data sets' files (default: ENGRAM_DATA, else the download cache)"""

    def __call__(self) -> None:
        from engram.report.tables import print_catalogue

        print_catalogue(self.data_dir)


@dataclass(frozen=True)
class DemoCommand:
    """Learn the handwritten digits in five tasks with several recipes, and compare them."""

    out: str = "demo"
    """folder for the results and the picture"""
    quiet: bool = False
    """no progress display"""

    def __call__(self) -> None:
        from engram.report.demo import demo

        demo(self.out, self.quiet)


@dataclass(frozen=True)
class StudyCommand:
    """Do a grid of runs, or what is left of it: recipes, data sets and seeds."""

    study: Annotated[Positional[str], arg(metavar="NAME|FILE.toml")]
    """a study that comes with Engram, or a file of your own (see docs/studies.md)"""
    out: str = "study"
    """folder of the study: the same command with the same folder goes on with what is missing"""
    only: tuple[str, ...] = ()
    """cells to do, as patterns of COLUMN:ROW such as 'cifar10-5:owm*' (default: all)"""
    seeds: int | None = None
    """number of seeds, from 0 on (default: the study's own)"""
    jobs: int | None = None
    """cells at a time (default: one a core); each has a fixed share of the cores as threads"""
    ray: str | None = None
    """compute with Ray: local, or the address of a cluster whose machines share --out"""
    dry_run: bool = False
    """list the cells, how far they are, and roughly how long they will take"""
    retry_failed: bool = False
    """also do cells that failed before"""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """where to compute"""
    data_dir: str | None = None
    """folder that holds the data sets' files (default: ENGRAM_DATA, else the download cache)"""
    tensorboard: bool = False
    """write each cell's curves for TensorBoard"""
    quiet: bool = False
    """no progress display"""

    def __call__(self) -> None:
        from engram.study.command import study

        study(self)


@dataclass(frozen=True)
class ReportCommand:
    """Write the report of a folder of results: a page, tables and figures."""

    folder: Annotated[Positional[str], arg(metavar="DIR")]
    """folder of a study, or any that holds SET-TASKS/RECIPE/seedK/result.json"""
    out: str | None = None
    """folder for the report (default: DIR/report)"""

    def __call__(self) -> None:
        from engram.report.report import report

        report(self.folder, self.out)


class RunCommand:
    """Base of the per-recipe commands that `_run_command` makes; each has a field for each group of settings."""

    recipe: Recipe
    options: RunOptions

    def __call__(self) -> None:
        from engram.distributed import first_process
        from engram.progress import Progress
        from engram.report.tables import print_result
        from engram.study.run import run

        recipe = self.recipe.changed({name: asdict(getattr(self, name)) for name in self.recipe.groups()})
        recipe = recipe.reordered(getattr(self, "order", tuple(recipe.ingredients)))
        options = RunOptions(**asdict(self.options))
        with Progress(f"{recipe.name} on {options.dataset}", options.quiet) as progress:
            result = run(recipe, options, progress)
        if first_process():
            print_result(result, options.folder(recipe.name))


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; errors that are Engram's own end in one sentence and exit status 2."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments == ["--version"]:
        print(f"engram {engram.__version__}")
        return 0
    try:
        parsed(arguments)()
    except EngramError as error:
        print(f"engram: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"engram: stopped{GOES_ON.get(''.join(arguments[:1]), '')}.", file=sys.stderr)
        return STOPPED
    except BrokenPipeError:  # whoever read our output, such as head, has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return STOPPED
    return 0


def parsed(arguments: Sequence[str]) -> Any:
    """The command that these words ask for: call it to run it."""
    if arguments[:1] == ["run"] and len(arguments) > 1 and not arguments[1].startswith("-"):
        recipe_by_name(arguments[1])  # names the nearest one, where the parser would list every word
    return tyro.cli(
        _commands(),
        prog="engram",
        description=OVERVIEW,
        args=arguments or ["--help"],
        config=(tyro.conf.FlagCreatePairsOff, tyro.conf.OmitSubcommandPrefixes),
    )


def _commands() -> Any:
    """The union of all commands, as tyro reads it."""
    run = _union([(_run_command(entry), entry.name, entry.about) for entry in RECIPES.values()])
    run_command = make_dataclass("Run", [("recipe", run)], namespace={"__call__": lambda self: self.recipe()})
    return _union(
        [
            (run_command, "run", "Learn a data set task by task with one recipe, measure, and write result.json."),
            (DataCommand, "data", DataCommand.__doc__),
            (DemoCommand, "demo", DemoCommand.__doc__),
            (StudyCommand, "study", f"{StudyCommand.__doc__} Built in: {_studies()}."),
            (ReportCommand, "report", ReportCommand.__doc__),
            (BenchCommand, "bench", BenchCommand.__doc__),
            *COMMANDS,
        ]
    )


def _run_command(recipe: Recipe) -> type:
    """A command whose flags are the run's options and every setting of the recipe."""
    flat = tyro.conf.OmitArgPrefixes
    fields: list[Any] = [("options", flat[_unchecked(RunOptions)])]
    for name, settings in recipe.groups().items():
        unchecked = _unchecked(type(settings))
        kind = flat[unchecked] if name == "training" else unchecked
        fields.append((name, kind, field(default=unchecked(**asdict(settings)))))
    if len(recipe.ingredients) > 1:
        fields.append(("order", Annotated[tuple[str, ...], tyro.conf.arg(help=ORDER)], tuple(recipe.ingredients)))
    return make_dataclass("RunCommand", fields, bases=(RunCommand,), namespace={"recipe": recipe}, frozen=False)


def _studies() -> str:
    return "; ".join(f"{name} ({title})" for name, title in built_in().items())


def _unchecked(settings: type) -> type:
    """The same settings without their checks: a value out of range is for `main` to report, not for the parser."""
    return type(settings.__name__, (settings,), {"__post_init__": lambda self: None, "__doc__": settings.__doc__})


def _union(commands: Sequence[tuple[type, str, str | None]]) -> Any:
    choices = [Annotated[kind, tyro.conf.subcommand(name, description=about)] for kind, name, about in commands]
    union: Any = choices[0]
    for choice in choices[1:]:
        union = union | choice
    return union
