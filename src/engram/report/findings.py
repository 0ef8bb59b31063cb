"""The report's tables, made from the evidence."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Any

from engram.report import paper
from engram.report.content import Entry, Table, percent, signed
from engram.report.evidence import Evidence, protocols, storing
from engram.study.statistics import AGAINST, FEWEST, PROPOSED, Comparison, Summary, compare

NOTHING = Entry("–")


def table_2(evidence: Evidence) -> Table:
    """Final accuracies beside the paper's."""
    best = {column: _best(evidence, column) for column in evidence.columns}
    rows = [
        [Entry(row), *(_accuracy(evidence, column, row, best[column] == row) for column in evidence.columns)]
        for row in evidence.rows
    ]
    return Table(
        "accuracy",
        "Accuracy after the last task, in percent",
        ["recipe", *evidence.columns],
        rows,
        _protocols(evidence),
        [
            "Mean ± standard error over seeds; below it the paper's number, and ours less the paper's.",
            f"† p < .01, ⋆ p < .05: the mean is above that of {AGAINST}, or with ↓ below it, by Welch's t-test. "
            f"Rows with fewer than {FEWEST} seeds have no mark.",
            f"Bold: the best of ours in a column among recipes that store no old samples (not {', '.join(storing())}).",
        ],
    )


def tests(evidence: Evidence) -> Table:
    """Every proposed row against OWM."""
    rows = []
    for column in evidence.columns:
        for row in PROPOSED:
            test = comparison(evidence, column, row)
            if test:
                seeds = f"{len(evidence.results(column, row))} and {len(evidence.results(column, AGAINST))}"
                rows.append(
                    [
                        *(Entry(column), Entry(row), Entry(seeds)),
                        Entry(signed(100 * test.difference), test.difference),
                        *(Entry(signed(test.t), test.t), Entry(f"{test.degrees:.1f}", test.degrees)),
                        Entry(f"{test.p:.2g}", test.p),
                        Entry(test.mark or "–"),
                    ]
                )
    head = ["set", "recipe", "seeds", "difference", "t", "degrees of freedom", "p", "mark"]
    note = "Welch's two-sided t-test on the final accuracies; the difference is in percentage points."
    return Table("tests", f"Proposed recipes against {AGAINST}", head, rows, _protocols(evidence), [note])


def after_each_task(evidence: Evidence, column: str) -> Table:
    """The numbers of Figure 2."""
    tasks = evidence.tasks(column)
    rows = []
    for row in evidence.rows_in(column):
        after = evidence.over_tasks(column, row, "accuracy_after_task")
        rows.append([Entry(row), *[NOTHING] * (tasks - len(after)), *(_entry(summary) for summary in after)])
    head = ["recipe", *(f"after {task}" for task in range(1, tasks + 1))]
    title = f"{column}: accuracy on all classes so far, in percent"
    return Table(f"after-{column}", title, head, rows, protocols(evidence.all_results(column)))


def table_3(evidence: Evidence) -> Table:
    """Where the errors lie, beside the paper's figures."""
    rows = []
    for column in evidence.columns:
        for row in evidence.rows:
            printed = paper.errors().get((column, row), (None, None))
            if not evidence.results(column, row) and printed[0] is None:
                continue
            names = ("inter_task_error", "inner_task_error")
            entries = [_error(evidence, column, row, name, own) for name, own in zip(names, printed, strict=True)]
            rows.append([Entry(column), Entry(row), *entries])
    return Table(
        "errors",
        "The two kinds of error after the last task, in percent",
        ["set", "recipe", "inter-task error", "inner-task error"],
        rows,
        _protocols(evidence),
        [
            "Inter-task: the predicted class belongs to another task. Inner-task: the right task, the wrong class. "
            "With the accuracy they sum to 100.",
            f"In parentheses the difference to {AGAINST}. The paper's differences are taken from its figures: "
            "its Table 3 prints +0.96 for the inner-task error of owm+gfr on CIFAR-10, where they differ by 1.04.",
        ],
    )


def incremental(evidence: Evidence) -> Table:
    """What the final accuracy does not tell."""
    rows = [
        [
            *(Entry(column), Entry(row)),
            *(
                _entry(evidence.summary(column, row, name))
                for name in ("accuracy", "average_incremental_accuracy", "forgetting")
            ),
            _minutes(evidence.values(column, row, "seconds")),
        ]
        for column in evidence.columns
        for row in evidence.rows_in(column)
    ]
    head = ["set", "recipe", "final accuracy", "average incremental accuracy", "forgetting", "minutes a run"]
    note = (
        "Average incremental accuracy: the mean over tasks of the accuracy on all classes so far (joint training is "
        "measured once). Forgetting: how far earlier tasks fall from their best accuracy, on average. "
        "Minutes depend on the machine and on what else it did."
    )
    return Table(
        "incremental", "Accuracy on the way, and forgetting, in percent", head, rows, _protocols(evidence), [note]
    )


def drift(evidence: Evidence) -> Table:
    """The numbers of Figure 4."""
    rows = []
    width = max((len(one.result.get("drift") or []) for one in evidence.contents.results), default=0)
    for column in evidence.columns:
        for row in evidence.rows_in(column):
            after = evidence.over_tasks(column, row, "drift")
            if after:
                entries = [Entry(_plus_minus(one.mean, one.error, 3), one.mean) for one in after]
                rows.append([Entry(column), Entry(row), *entries, *[NOTHING] * (width - len(after))])
    head = ["set", "recipe", *(f"after {task}" for task in range(2, width + 2))]
    return Table("drift", "Drift of the first task's features", head, rows, _protocols(evidence))


def class_orders(evidence: Evidence) -> Table:
    """How much the order in which classes come matters."""
    orders = evidence.class_orders()
    rows = []
    for column in evidence.columns:
        for row in evidence.rows:
            summaries = [evidence.summary(column, row, "accuracy", order) for order in orders]
            means = [summary.mean for summary in summaries if summary]
            if len(means) > 1:
                spread = Entry(_plus_minus(100 * fmean(means), 100 * stdev(means)), fmean(means))
                rows.append([Entry(column), Entry(row), *map(_entry, summaries), spread])
    names = ["natural" if order == 0 else f"order {order}" for order in orders]
    note = "The last column: mean ± standard deviation over the orders' means."
    head = ["set", "recipe", *names, "over orders"]
    return Table("orders", "Final accuracy by class order, in percent", head, rows, (), [note])


def choices(evidence: Evidence) -> Table:
    """Settings that validation data chose."""
    rows = []
    for choice in evidence.contents.choices:
        for trial in choice["trials"]:
            score, taken = trial["validation_accuracy"], trial["values"] == choice["chosen"]
            shown = Entry(percent(score), score, strong=taken) if score is not None else Entry(f"– ({trial['remark']})")
            values = ", ".join(f"{key} = {value}" for key, value in trial["values"].items())
            rows.append(
                [
                    Entry(choice["column"]),
                    Entry(choice["row"]),
                    Entry(values, strong=taken),
                    shown,
                    Entry("chosen" if taken else ""),
                ]
            )
    seeds = sorted({choice["seed"] for choice in evidence.contents.choices})
    note = f"One run each with seed {', '.join(map(str, seeds))}, which is none of the seeds that count; no test data."
    head = ["set", "recipe", "setting", "validation accuracy", ""]
    return Table("choices", "Settings chosen on validation data", head, rows, (), [note])


def origins(evidence: Evidence) -> Table:
    """Which code and which machines the numbers come from."""
    counts: dict[tuple[str, ...], list[str]] = {}
    for one in evidence.contents.results:
        versions, machine = one.result.get("versions", {}), one.result.get("machine", {})
        where = machine.get("gpu") or machine.get("processor") or "unknown"
        code = f"{versions.get('engram')} ({versions.get('commit') or 'no checkout'})"
        key = (code, str(versions.get("torch")), str(versions.get("python")), str(where))
        counts.setdefault(key, []).append(f"{one.column}/{one.row}")
    rows = [
        [*map(Entry, key), Entry(str(len(cells)), len(cells)), Entry(", ".join(dict.fromkeys(cells)))]
        for key, cells in counts.items()
    ]
    head = ["engram (commit)", "torch", "python", "machine", "runs", "of"]
    return Table("origins", "Code and machines", head, rows, (), ["A commit with a + had uncommitted changes."])


def comparison(evidence: Evidence, column: str, row: str) -> Comparison | None:
    if row not in PROPOSED:
        return None
    return compare(evidence.values(column, row, "accuracy"), evidence.values(column, AGAINST, "accuracy"))


def _accuracy(evidence: Evidence, column: str, row: str, best: bool) -> Entry:
    printed = paper.accuracies().get((column, row))
    summary = evidence.summary(column, row, "accuracy")
    if summary is None:
        return Entry("–", None, [f"paper {printed}"] if printed else ())
    test = comparison(evidence, column, row)
    remarks = [] if summary.count >= FEWEST else [f"{summary.count} seed{'s' if summary.count > 1 else ''}"]
    if printed:
        remarks += [f"paper {printed}", signed(100 * summary.mean - printed.mean)]
    return Entry(
        _plus_minus(100 * summary.mean, None if summary.error is None else 100 * summary.error)
        + (test.mark if test else ""),
        summary.mean,
        remarks,
        best,
    )


def _error(evidence: Evidence, column: str, row: str, name: str, printed: float | None) -> Entry:
    summary, base = evidence.summary(column, row, name), evidence.summary(column, AGAINST, name)
    against = paper.errors().get((column, AGAINST))
    remarks = []
    if printed is not None and against is not None:
        other = against[0 if name == "inter_task_error" else 1]
        remarks = [f"paper {printed:.2f}" + (f" ({signed(printed - other)})" if row != AGAINST else "")]
    if summary is None:
        return Entry("–", None, remarks)
    gap = f" ({signed(100 * (summary.mean - base.mean))})" if base and row != AGAINST else ""
    return Entry(_entry(summary).text + gap, summary.mean, remarks)


def _minutes(seconds: Sequence[float]) -> Entry:
    return Entry(f"{fmean(seconds) / 60:.1f}", fmean(seconds)) if seconds else NOTHING


def _best(evidence: Evidence, column: str) -> str | None:
    means: dict[str, Any] = {row: evidence.summary(column, row, "accuracy") for row in evidence.rows_in(column)}
    own = {row: summary.mean for row, summary in means.items() if not evidence.stores_samples(column, row)}
    return max(own, key=own.__getitem__) if own else None


def _entry(summary: Summary | None) -> Entry:
    if summary is None:
        return NOTHING
    error = None if summary.error is None else 100 * summary.error
    return Entry(_plus_minus(100 * summary.mean, error), summary.mean)


def _plus_minus(mean: float, error: float | None, digits: int = 2) -> str:
    return f"{mean:.{digits}f}" if error is None else f"{mean:.{digits}f} ± {error:.{digits}f}"


def _protocols(evidence: Evidence) -> Sequence[str]:
    return [line for column in evidence.columns for line in protocols(evidence.all_results(column))]
