"""Real and generated features in two dimensions (Figure 3)."""

from __future__ import annotations

import numpy as np
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE

from engram import files
from engram.report.content import Picture, percent
from engram.report.evidence import Evidence, protocols
from engram.report.style import CLASSES, new_figure
from engram.study.folder import Found

MOST_CLASSES = len(CLASSES)
"""more could not be told apart"""
KEPT = 50
"""principal components that t-SNE starts from"""
SEED = 0


def embeddings(evidence: Evidence, column: str) -> list[Picture]:
    """One picture for each row that generates features, of its first seed."""
    pictures = []
    for row in evidence.rows_in(column):
        found = next((one for one in evidence.results(column, row) if one.analysis), None)
        if found and len(found.result["class_names"]) <= MOST_CLASSES:
            pictures.append(_picture(found))
    return pictures


def _picture(found: Found) -> Picture:
    assert found.analysis is not None
    tensors, _ = files.load(found.analysis, kind="analysis")
    real, generated = (tensors[name].float().numpy() for name in ("real", "generated"))
    points = _in_the_plane(np.concatenate([real, generated]))
    figure = new_figure(6.0, 4.2)
    axes = figure.add_subplot()
    parts = (
        (points[: len(real)], tensors["real_y"], "o", 0.45),
        (points[len(real) :], tensors["generated_y"], "x", 0.9),
    )
    for place, labels, marker, alpha in parts:
        for label, name in enumerate(found.result["class_names"]):
            rows = labels.numpy() == label
            axes.scatter(
                *place[rows].T, s=12, marker=marker, color=CLASSES[label], alpha=alpha, linewidths=0.8, rasterized=True,
                label=name if marker == "o" else None,
            )  # fmt: skip
    axes.set(xticks=[], yticks=[])
    legend = figure.legend(loc="outside right upper", title="o real, x generated", markerscale=1.6)
    for handle in legend.legend_handles:
        if handle is not None:
            handle.set_alpha(1)
    return Picture(
        f"features-{found.column}-{found.row}",
        f"{found.column}, {found.row}: real and generated features",
        figure,
        f"t-SNE of {len(real)} real (o) and {len(generated)} generated (x) features after the last task, seed "
        f"{found.seed}, a colour for each class.{_as_asked(found)}",
        "Scatter plot of real and generated features; clusters where both lie together are classes that are well "
        "generated.",
        protocols([found]),
    )


def _in_the_plane(features: np.ndarray) -> np.ndarray:
    kept = min(KEPT, *features.shape)
    reduced = PCA(kept, random_state=SEED).fit_transform(features.astype(np.float64))
    perplexity = min(30.0, (len(features) - 1) / 3)
    return TSNE(random_state=SEED, init="pca", perplexity=perplexity).fit_transform(reduced)


def _as_asked(found: Found) -> str:
    shares = found.result["measures"][-1].get("generator", {}).get("as_asked", {})
    if not shares:
        return ""
    mean = percent(float(np.mean(list(shares.values()))))
    return f" The head takes {mean} % of the generated ones for what they shall be."
