"""What other programs compute from an exported file is what the learner says, on 1,000 inputs."""

import io
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

from engram import Learner, recipe
from engram.cli import main
from engram.errors import EngramError, InputError
from engram.export import as_onnx, as_program, export

TABLE, DIGITS = load_digits(return_X_y=True)
GREY = (TABLE.reshape(-1, 8, 8) * 15.9).astype(np.uint8)
COLOUR = np.stack([GREY, 255 - GREY, GREY // 2], 3)
ODD = np.pad(COLOUR, ((0, 0), (1, 2), (0, 1), (0, 0)))
NAMES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
LABELS = np.array([NAMES[digit] for digit in DIGITS])
SMALL = {"filters": (4, 6, 8), "hidden": 32}


def trained(name: str) -> Any:
    return recipe(name, training={"epochs": 1, "batch_size": 32}, network=SMALL)


def own() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Tanh())


CASES = {
    "tables": (lambda: Learner(), TABLE),
    "images": (lambda: Learner(recipe("analytic", analytic={"filters": 32})), GREY),
    "odd images, mirrored": (lambda: Learner(recipe("analytic", analytic={"filters": 20, "flips": "yes"})), ODD),
    "numbers as images": (lambda: Learner(recipe("analytic", analytic={"filters": 20})), GREY / 255),
    "a network of one's own, frozen": (lambda: Learner(network=own()), GREY),
    "a network of one's own, trained": (lambda: Learner(recipe("owm", training={"epochs": 1}), network=own()), GREY),
    "owm": (lambda: Learner(trained("owm")), GREY),
    "rotations": (lambda: Learner(trained("owm+ssl")), COLOUR),
    "icarl": (lambda: Learner(trained("icarl").changed({"icarl": {"memory": 50}})), GREY),
}


def learnt(make: Any, x: np.ndarray) -> Learner:
    learner = make()
    learner.precision = "float32"
    first = np.flatnonzero(np.isin(DIGITS, [3, 7, 1]))[:200]
    learner.partial_fit(x[first], LABELS[first], classes=sorted(set(LABELS)))
    second = np.flatnonzero(np.isin(DIGITS, [0, 5]))[:150]
    return learner.partial_fit(x[second], LABELS[second])


def asked(content: bytes, x: np.ndarray) -> tuple[np.ndarray, dict[str, Any]]:
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(content)
    about = json.loads(session.get_modelmeta().custom_metadata_map["engram"])
    return session.run(["probabilities"], {"x": x.astype(about["input"]["type"])})[0], about


@pytest.mark.parametrize("name", CASES)
def test_onnxruntime_says_what_the_learner_says(name: str) -> None:
    make, x = CASES[name]
    learner = learnt(make, x)
    content = as_onnx(learner)
    found, about = asked(content, x[:1000])
    expected = learner.predict_proba(x[:1000])
    np.testing.assert_allclose(found, expected, atol=2e-5)
    assert (found.argmax(1) == expected.argmax(1)).mean() >= 0.999
    for rows in (1, 17):
        np.testing.assert_allclose(asked(content, x[:rows])[0], expected[:rows], atol=2e-5)
    assert about["classes"] == learner.classes_.tolist()
    assert about["input"] == {
        "layout": learner.form_.layout,
        "shape": list(x.shape[1:]),
        "type": "uint8" if x.dtype == np.uint8 else "float32",
    }
    assert [label for label, known in zip(about["classes"], about["learnt"], strict=True) if known] == [
        *("five", "one", "seven", "three", "zero")
    ]


@pytest.mark.parametrize("name", ["tables", "images", "owm"])
def test_a_program_of_torch_says_it_too(name: str) -> None:
    make, x = CASES[name]
    learner = learnt(make, x)
    entries = {"engram": ""}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, of its insides
        program = torch.export.load(io.BytesIO(as_program(learner)), extra_files=entries)
    found = program.module()(torch.tensor(x[:1000].astype(learner.form_.kind)))
    np.testing.assert_allclose(found.numpy(), learner.predict_proba(x[:1000]), atol=2e-5)
    assert json.loads(entries["engram"])["classes"] == learner.classes_.tolist()


def test_bfloat16_is_exported_as_float32() -> None:
    exact, rough = (learnt(CASES["images"][0], GREY) for _ in range(2))
    rough.precision = "bfloat16"
    rough.fit(GREY[:300], DIGITS[:300])
    exact.fit(GREY[:300], DIGITS[:300])
    found, _ = asked(as_onnx(rough), GREY[:1000])
    assert np.abs(found - rough.predict_proba(GREY[:1000])).max() < 0.05
    assert (found.argmax(1) == rough.predict_proba(GREY[:1000]).argmax(1)).mean() > 0.98


def test_the_command_writes_both_kinds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    learner = learnt(*CASES["tables"])
    learner.save(tmp_path / "model")
    for ending in ("onnx", "pt2"):
        assert main(["export", str(tmp_path / "model"), str(tmp_path / f"out.{ending}")]) == 0
        assert f"out.{ending}" in capsys.readouterr().out
    np.testing.assert_allclose(
        asked((tmp_path / "out.onnx").read_bytes(), TABLE[:1000])[0], learner.predict_proba(TABLE[:1000]), atol=2e-5
    )
    assert main(["export", str(tmp_path / "model"), str(tmp_path / "out.pb")]) == 2
    assert "must end in .onnx or .pt2" in capsys.readouterr().err
    assert main(["export", str(tmp_path / "nothing"), str(tmp_path / "out.onnx")]) == 2


class Odd(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.flatten(1) if float(x.sum()) > 0 else -x.flatten(1)


class Cumulative(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.eigvalsh(x[:, 0] + x[:, 0].mT)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Learner(recipe("pgma", training={"epochs": 1}, network=SMALL)), "Recipe 'pgma' cannot be exported"),
        (lambda: Learner(network=Odd()), r"The network cannot be exported \("),
        (lambda: Learner(network=Cumulative()), r"The network cannot be exported \("),
    ],
)
def test_what_cannot_be_exported_says_so_in_one_sentence(make: Any, sentence: str, tmp_path: Path) -> None:
    learner = make()
    if "pgma" in str(learner.recipe):
        learner.recipe = learner.recipe.changed({"pgma": {"generator_steps": 2, "generator_width": 8}})
    learner.fit(GREY[:60], DIGITS[:60])
    with pytest.raises(EngramError, match=sentence) as caught:
        export(learner, tmp_path / "out.onnx")
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_learner_that_knows_nothing_is_not_exported(tmp_path: Path) -> None:
    with pytest.raises(EngramError, match="has not learnt anything yet"):
        export(Learner(), tmp_path / "out.onnx")
    with pytest.raises(InputError, match="must end in"):
        export(Learner(), tmp_path / "out")
