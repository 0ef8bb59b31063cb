"""How well stored sums tell what old classes lose to new ones: estimated and true accuracy on them, before and after.

python benchmarks/old_classes.py [--samples 6000] [--data-dir DATA]
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.datasets import load_digits

from engram import Learner, Recipe, recipe
from engram.data import Part, load

TASKS = [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]


def compare(title: str, chosen: Recipe, train: Part, test: Part) -> None:
    learner, old = Learner(chosen), []
    for task in TASKS:
        before = measured(learner, test, old)
        learner.partial_fit(train.only(task).x, train.only(task).y)
        after = measured(learner, test, old)
        for name, then, now in zip(("estimated", "true"), before, after, strict=False):
            print(f"{title}, {len(old)} old classes, {name}: {then:.1%} before, {now:.1%} now, {then - now:.1%} lost")
        old += task


def measured(learner: Learner, test: Part, old: list[int]) -> list[float]:
    """Estimated and true accuracy on the old classes, among all that are known."""
    if not old:
        return []
    part = test.only(old)
    return [learner.expected_accuracy(old) or np.nan, float((learner.predict(part.x) == part.y).mean())]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=6000, help="of CIFAR-10, to learn from; 0 leaves it out")
    parser.add_argument("--data-dir", default=None)
    asked = parser.parse_args()
    x, y = load_digits(return_X_y=True)
    test = np.arange(len(y)) % 3 == 0
    for name in ("analytic", "lda", "ncm"):
        compare(f"digits as tables, {name}", recipe(name), Part(x[~test], y[~test]), Part(x[test], y[test]))
    if asked.samples:
        cifar = load("cifar10", asked.data_dir)
        train = Part(cifar.train.x[: asked.samples], cifar.train.y[: asked.samples])
        few = Part(cifar.test.x[:2000], cifar.test.y[:2000])
        compare("CIFAR-10, analytic", recipe("analytic", analytic={"size": "small"}), train, few)


if __name__ == "__main__":
    main()
