"""scikit-learn's handwritten digits, which come with it."""

from pathlib import Path

import numpy as np

from engram.data.sets import SetInfo
from engram.data.task import Part

BRIGHTEST = 16
SPLIT_SEED = 0


def read_digits(folder: Path, info: SetInfo, way_out: str) -> tuple[Part, Part, tuple[str, ...]]:
    """Train, test and the names of the classes; takes a folder only to be called like the other readers."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    grey, labels = load_digits(return_X_y=True)
    x = np.rint(grey * (255 / BRIGHTEST)).astype(np.uint8).reshape(-1, *info.shape)
    y = np.asarray(labels, np.int64)
    train, test = train_test_split(np.arange(len(y)), test_size=info.test, random_state=SPLIT_SEED, stratify=y)
    return Part(x[train], y[train]), Part(x[test], y[test]), tuple(map(str, range(info.classes)))
