"""Closed-form learning: the features that it stands on, and the head that it solves for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engram.errors import InputError
from engram.settings.checks import check_choice, check_number, check_whole, is_whole


@dataclass(frozen=True)
class AnalyticSettings:
    """Features fixed after the first task: whitened patches of images, random features of tables and of texts."""

    size: Literal["small", "medium", "large"] = "medium"
    """how many features: more are more accurate, and cost time and memory"""
    filters: int | None = None
    """patches that images are compared with (None: by size)"""
    patch: tuple[int, ...] = ()
    """sides of the patches in pixels; several share the filters (none given: by the images' size)"""
    pick: Literal["random", "kmeans"] = "kmeans"
    """filters are patches picked at random, or the centres of clusters of patches"""
    sides: Literal["both", "one"] = "both"
    """both: what is above and what is below the threshold; one: what is above, and the patches' means"""
    threshold: float = 0.25
    """how far a patch must agree with a filter to count, in deviations"""
    grid: int = 2
    """cells a side over which the answers are averaged; neighbours overlap by half"""
    flips: Literal["auto", "yes", "no"] = "auto"
    """see each image as it is and mirrored; auto: where the first task's images look alike mirrored"""
    contrast: float = 0.1
    """added to a patch's variance before dividing by it, as a share of the mean variance"""
    whitening: float = 0.1
    """added to the variances of contrast-normalised patches before whitening"""
    width: int | None = None
    """random features of tables (None: by size and columns); of each kind, of texts (None: by size)"""
    texts: Literal["union", "pooled", "ngrams", "convolution"] = "union"
    """features of texts: the words' vectors, pooled; hashed words and pairs; a random convolution; or all of them"""

    def __post_init__(self) -> None:
        check_choice(self, "size", "small", "medium", "large")
        check_choice(self, "pick", "random", "kmeans")
        check_choice(self, "sides", "both", "one")
        check_choice(self, "flips", "auto", "yes", "no")
        check_choice(self, "texts", "union", "pooled", "ngrams", "convolution")
        check_whole(self, 1, "grid", *(name for name in ("filters", "width") if getattr(self, name) is not None))
        check_number(self, "at least 0", "threshold")
        check_number(self, "above 0", "contrast", "whitening")
        if not isinstance(self.patch, tuple | list) or not all(is_whole(side, 1) for side in self.patch):
            raise InputError(f"patch must be whole numbers of at least 1, not {self.patch!r}.")
        object.__setattr__(self, "patch", tuple(int(side) for side in self.patch))


@dataclass(frozen=True)
class HeadSettings:
    """A linear head that is solved for, from running sums of the features."""

    kind: Literal["ridge", "lda", "ncm"] = "ridge"
    """ridge: regularised least squares; lda: linear discriminant; ncm: nearest class mean"""
    ridge: float | None = None
    """strength of the regulariser, as a share of the features' variance (None: by held-out rows); ncm has none"""
    class_memory: int = 64
    """MB that may be spent on sums of their own for each class, so that whole classes can be forgotten"""
    rows: int = 1024
    """samples that are added to the sums at a time"""

    def __post_init__(self) -> None:
        check_choice(self, "kind", "ridge", "lda", "ncm")
        check_whole(self, 0, "class_memory")
        check_whole(self, 1, "rows")
        if self.ridge is not None:
            check_number(self, "above 0", "ridge")
            if self.kind == "ncm":
                raise InputError("The nearest class mean has no regulariser: leave ridge out, or choose another kind.")
