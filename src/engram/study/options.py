"""What a run is asked to do, besides its recipe's settings. Free of torch: the command line reads it for --help."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from engram.data.places import vectors_folder
from engram.data.sets import set_info
from engram.errors import InputError
from engram.settings import Precision, Selection
from engram.settings.checks import check_whole


@dataclass(frozen=True)
class RunOptions:
    """The protocol of a run, and where it goes."""

    dataset: Annotated[Positional[str], arg(metavar="DATASET")]
    """name of a data set (see `engram data`)"""
    out: str | None = None
    """folder for result.json and the checkpoint (default: runs/DATASET-TASKS/RECIPE/seedSEED)"""
    tasks: int | None = None
    """number of tasks that the classes are split into (default: the set's own, 5)"""
    seed: int = 0
    """of weights, batches and dropout"""
    class_order_seed: int = 0
    """0 learns the classes in their natural order; any other number shuffles them"""
    selection: Selection = "last"
    """epoch that is kept of each task: last; best on validation data of the current task; or of all seen tasks"""
    precision: Precision = "auto"
    """of forward and backward; projectors are never below float32"""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """where to compute"""
    data_dir: str | None = None
    """folder that holds the data set's files (default: ENGRAM_DATA, else the download cache)"""
    embeddings: str | None = None
    """for texts: a file of word vectors (word2vec, GloVe), or a folder with several (default: the data folder's)"""
    threads: int = 0
    """CPU threads (0: all cores); a run can only be repeated bit for bit with the same number"""
    checkpoint_seconds: float = 60.0
    """time between checkpoints"""
    tensorboard: bool = False
    """also write the run's curves for TensorBoard, into --out"""
    resume: bool = False
    """go on with the run in --out, from its last checkpoint"""
    quiet: bool = False
    """no progress display"""

    def __post_init__(self) -> None:
        check_whole(self, 0, "seed")
        # a NaN compares as false with everything, so that it is refused too
        if not self.checkpoint_seconds >= 0:
            raise InputError(f"--checkpoint-seconds must be 0 or more, not {self.checkpoint_seconds}.")

    def resolved_tasks(self) -> int:
        return set_info(self.dataset).tasks if self.tasks is None else self.tasks

    def vectors(self) -> str | None:
        """Where the vectors of words are, if they are not where a learner looks by itself."""
        folder = vectors_folder(self.data_dir)
        return str(folder) if self.embeddings is None and folder.is_dir() else self.embeddings

    def folder(self, recipe: str) -> Path:
        if self.out is not None:
            return Path(self.out)
        return Path("runs", f"{self.dataset}-{self.resolved_tasks()}", recipe, f"seed{self.seed}")
