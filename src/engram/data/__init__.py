"""Data sets, and the tasks they are cut into; importing this imports no framework."""

from engram.data.loading import load
from engram.data.places import CatalogueEntry, catalogue
from engram.data.sets import SETS, SetInfo
from engram.data.task import DataSet, Part, Task, TaskStream, class_order, cut_validation, split_classes

__all__ = [
    "SETS",
    "CatalogueEntry",
    "DataSet",
    "Part",
    "SetInfo",
    "Task",
    "TaskStream",
    "catalogue",
    "class_order",
    "cut_validation",
    "load",
    "split_classes",
]
