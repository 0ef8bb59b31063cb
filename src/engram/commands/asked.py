"""What the commands for one's own data can be asked. Free of torch: the command line reads it for --help."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from tyro.conf import Positional, arg

Device = Literal["auto", "cpu", "cuda"]
Model = Annotated[Positional[str], arg(metavar="MODEL")]
Data = Annotated[Positional[str], arg(metavar="PATH")]


@dataclass(frozen=True)
class LearnCommand:
    """Teach a model file the classes of a folder of images or of a table, as one task."""

    model: Model
    """the model's file; it is made if it is not there"""
    path: Data
    """a folder with a sub-folder of images for each class, or a table: CSV, TSV, JSONL or parquet"""
    label: str | None = None
    """column of a table that holds the classes (default: label, or the one the model learnt with)"""
    columns: tuple[str, ...] = ()
    """new models: columns to learn from, all of numbers or a single one of text (default: all but the label)"""
    image_size: tuple[int, int] | None = None
    """new models: height and width that images are brought to (default: that of the first, at most 64 pixels)"""
    recipe: str | None = None
    """new models: how to learn (default: analytic)"""
    settings: Annotated[tuple[str, ...], arg(name="set", metavar="GROUP.NAME=VALUE")] = ()
    """new models: the recipe's own settings, such as analytic.size=large (see `engram run RECIPE --help`)"""
    seed: int | None = None
    """new models: of all that is random (default: 0)"""
    held_out: float = 0.1
    """share of each class that is not learnt but measured with; 0 learns all and measures nothing"""
    strict: bool = False
    """stop at the first file or row that cannot be used, where it would be left out and named"""
    device: Device = "auto"
    """where to compute"""
    quiet: bool = False
    """no progress display"""

    def __call__(self) -> None:
        from engram.commands.learn import learn

        learn(self)


@dataclass(frozen=True)
class PredictCommand:
    """Name the classes of images, of folders of images or of a table's rows, with probabilities."""

    model: Model
    """the model's file"""
    paths: Annotated[Positional[tuple[str, ...]], arg(metavar="PATH...")]
    """images, folders of images (at any depth), tables"""
    top: int = 1
    """how many classes to give for each, the most probable first"""
    reject_below: float = 0.0
    """answer "unknown" where the most probable class is less probable than this"""
    csv: bool = False
    """write CSV to standard output"""
    json: bool = False
    """write JSON to standard output"""
    strict: bool = False
    """stop at the first file or row that cannot be read, where it would be left out and named"""
    device: Device = "auto"
    """where to compute"""
    quiet: bool = False
    """no progress display"""

    def __call__(self) -> None:
        from engram.commands.predict import predict

        predict(self)


@dataclass(frozen=True)
class EvaluateCommand:
    """Measure a model on labelled data that it has not learnt: accuracy per class, kinds of error, a picture."""

    model: Model
    """the model's file"""
    path: Data
    """as for `engram learn`"""
    label: str | None = None
    """column of a table that holds the classes (default: the one the model learnt with)"""
    reject_below: float = 0.0
    """also say what answering only from this probability on would change"""
    picture: str | None = None
    """file for the picture of the confusion, such as confusion.png"""
    json: bool = False
    """write JSON to standard output"""
    strict: bool = False
    """stop at the first file or row that cannot be used, where it would be left out and named"""
    device: Device = "auto"
    """where to compute"""
    quiet: bool = False
    """no progress display"""

    def __call__(self) -> None:
        from engram.commands.evaluate import evaluate

        evaluate(self)


@dataclass(frozen=True)
class ShowCommand:
    """Tell what is in a model file: classes, when they were learnt, recipe, size, and what it may reveal."""

    model: Model
    """the model's file"""
    json: bool = False
    """write JSON to standard output"""

    def __call__(self) -> None:
        from engram.commands.show import show

        show(self)


@dataclass(frozen=True)
class ForgetCommand:
    """Take whole classes out of a model of closed-form learning (analytic, lda, ncm)."""

    model: Model
    """the model's file"""
    classes: Annotated[Positional[tuple[str, ...]], arg(metavar="CLASS...")]
    """names of classes"""
    keep_products: bool = False
    """forget a class's mean only: what its samples told of how features vary together stays"""

    def __call__(self) -> None:
        from engram.commands.forget import forget

        forget(self)


@dataclass(frozen=True)
class ExportCommand:
    """Write a model for other programs, as ONNX or for torch.export: from raw inputs to probabilities."""

    model: Model
    """the model's file"""
    out: Annotated[Positional[str], arg(metavar="FILE.onnx|FILE.pt2")]
    """file to write; its ending says in which format"""

    def __call__(self) -> None:
        from engram.commands.export import export_model

        export_model(self)


@dataclass(frozen=True)
class ServeCommand:
    """Predict and learn over HTTP, with a page to drop images on; learning needs a token."""

    model: Model
    """the model's file; what is learnt is written to it"""
    host: str = "127.0.0.1"
    """address to listen at: this machine alone unless another is given"""
    port: int = 8000
    """port to listen at; 0 takes a free one"""
    max_mb: float = 20.0
    """largest request, in millions of bytes"""
    device: Device = "auto"
    """where to compute"""

    def __call__(self) -> None:
        from engram.commands.serve import serve

        serve(self)


COMMANDS = [
    (LearnCommand, "learn", LearnCommand.__doc__),
    (PredictCommand, "predict", PredictCommand.__doc__),
    (EvaluateCommand, "evaluate", EvaluateCommand.__doc__),
    (ShowCommand, "show", ShowCommand.__doc__),
    (ForgetCommand, "forget", ForgetCommand.__doc__),
    (ExportCommand, "export", ExportCommand.__doc__),
    (ServeCommand, "serve", ServeCommand.__doc__),
]
