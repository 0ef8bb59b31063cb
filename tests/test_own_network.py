"""Modules of one's own as the extractor of recipes that train by gradient."""

import copy
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from engram import Learner, Recipe, recipe
from engram.errors import EngramError, FileError, InputError

TRAINED = ["finetune", "owm", "gpm", "ewc", "mas", "lwf", "gfr", "owm+gfr", "owm+ssl", "fd+gfr", "icarl", "pgma"]
RANDOM = np.random.default_rng(0)
Y = np.repeat([0, 1, 2, 3], 12)
X = RANDOM.integers(0, 90, (48, 6, 6)).astype(np.uint8)
for label, image in zip(Y, X, strict=True):
    image[label : label + 2] += 120
FIRST, SECOND = (X[Y < 2], Y[Y < 2]), (X[Y >= 2], Y[Y >= 2])


class Net(nn.Module):
    """With biases, a batch norm, dropout, negative features, and an output that is not flat."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.conv = nn.Conv2d(1, width, 3)
            self.norm = nn.BatchNorm2d(width)
            self.more = nn.Conv2d(width, 5, 2)
            self.drop = nn.Dropout(0.1)
        self.seen: list[torch.Tensor] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.append(x.detach())
        return self.more(self.drop(self.norm(self.conv(x / 255)).tanh()))


def small(name: str, **training: Any) -> Recipe:
    chosen = recipe(name, training={"epochs": 3, "batch_size": 8, "learning_rate": 0.1} | training)
    if "replay" in chosen.ingredients:
        chosen = chosen.changed({"replay": {"generator_steps": 20, "generator_width": 16}})
    if "icarl" in chosen.ingredients:
        chosen = chosen.changed({"icarl": {"memory": 8}})
    if name == "pgma":
        chosen = chosen.changed({"pgma": {"generator_steps": 5, "generator_width": 8, "hidden": 8, "latent": 4}})
    return chosen


def weights(learner: Learner) -> dict[str, torch.Tensor]:
    encoder = learner.encoder()
    return {name.partition("module.")[2]: t for name, t in encoder.state_dict().items() if "module." in name}


@pytest.mark.parametrize("name", [*TRAINED, "joint"])
def test_every_recipe_that_trains_a_network_trains_yours(name: str) -> None:
    net = Net()
    before = copy.deepcopy(net.state_dict())
    learner = Learner(small(name), network=net, precision="float32")
    learner.partial_fit(*FIRST)
    learner.partial_fit(*SECOND)
    assert learner.features(X).shape == (48, 5 * 3 * 3)
    assert np.isfinite(learner.predict_proba(X)).all()
    assert net.training
    found = weights(learner)
    assert found.keys() == before.keys()
    for key, tensor in net.state_dict().items():
        assert torch.equal(tensor, before[key]), "the module itself is left alone"
        assert torch.equal(found[key], before[key]) == ("norm" in key), "all but the batch norm is trained"


def test_it_learns_and_gets_inputs_as_they_are() -> None:
    net = Net()
    learner = Learner(small("finetune", epochs=30), network=net, precision="float32").fit(*FIRST)
    assert learner.score(*FIRST) == 1
    seen = learner.method_.network.extractor.module.seen  # pyright: ignore[reportAttributeAccessIssue]
    assert seen[-1].dtype == torch.float32
    assert np.array_equal(np.unique(seen[-1].numpy()), np.unique(FIRST[0]))


@pytest.mark.parametrize("name", [*TRAINED, "joint"])
def test_what_needs_no_gradient_stays_as_it_is(name: str) -> None:
    part, whole = Net(), Net().requires_grad_(False)
    part.conv.requires_grad_(False)
    for net, kept in ((part, "conv"), (whole, "")):
        learner = Learner(small(name), network=net, precision="float32").partial_fit(*FIRST).partial_fit(*SECOND)
        before = net.state_dict()
        changed = {
            key.split(".")[0] for key, tensor in weights(learner).items() if not torch.equal(tensor, before[key])
        }
        assert changed == ({"more"} if kept else set())


def test_only_what_is_trained_has_a_projector() -> None:
    net = Net()
    net.conv.requires_grad_(False)
    assert list(Learner(small("owm"), network=net).fit(*FIRST).projector_traces()) == ["extractor.module.more", "head"]


def test_generated_features_are_negative_where_real_ones_are() -> None:
    chosen = small("gfr").changed({"replay": {"generator_steps": 300}})
    learner = Learner(chosen, network=Net(), precision="float32").fit(*FIRST)
    made, real = learner.generate(np.repeat([0, 1], 200)), learner.extract(FIRST[0])
    assert made is not None
    assert abs((made < 0).mean() - (real < 0).mean()) < 0.2
    own = Learner(small("gfr"), precision="float32").fit(*FIRST).generate([0, 1])
    assert own is not None
    assert own.min() == 0


@pytest.mark.parametrize("name", ["owm+gfr", "icarl", "pgma", "joint"])
def test_a_file_holds_the_weights_and_needs_the_module(name: str, tmp_path: Path) -> None:
    learner = Learner(small(name), network=Net(), precision="float32").fit(*FIRST)
    learner.save(tmp_path / "model")
    loaded = Learner.load(tmp_path / "model", network=Net())
    assert np.array_equal(loaded.predict_proba(X), learner.predict_proba(X))
    goes_on = [one.partial_fit(*SECOND).predict_proba(X) for one in (loaded, copy.deepcopy(learner), learner)]
    assert np.array_equal(goes_on[0], goes_on[1])
    assert np.array_equal(goes_on[0], goes_on[2])


def test_a_file_and_a_network_that_do_not_go_together_are_told_in_one_sentence(tmp_path: Path) -> None:
    Learner(small("owm"), network=Net()).fit(*FIRST).save(tmp_path / "own")
    Learner(small("owm")).fit(*FIRST).save(tmp_path / "plain")
    cases = [
        ("own", None, "give it again"),
        ("plain", Net(), "leave `network` out"),
        ("own", Net(5), "another network"),
    ]
    for file, network, sentence in cases:
        with pytest.raises(FileError, match=sentence) as caught:
            Learner.load(tmp_path / file, network=network)
        assert "\n" not in str(caught.value)


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(1, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(self.layer(x))


class Extra(Net):
    def get_extra_state(self) -> Any:
        return {"epoch": 3}


@pytest.mark.parametrize(
    ("chosen", "network", "sentence"),
    [
        (recipe("owm", network={"hidden": 8}), Net(), "leave them or `network` out"),
        ("dgm", Net(), "leave `network` out"),
        ("owm", nn.Sequential(nn.Flatten(), nn.BatchNorm1d(36, track_running_stats=False)), "Layer '1' .* batch norm"),
        ("owm", nn.Sequential(nn.LazyLinear(3)), "call it on some first"),
        ("owm", nn.Linear(7, 3), r"failed on inputs of 2 x 1 x 6 x 6 \(RuntimeError"),
        ("owm", nn.LSTM(6, 3), r"failed on inputs of|not a tuple"),
        ("owm", Extra(), "'_extra_state', which is no tensor"),
        ("owm", "resnet", "must be a torch.nn.Module"),
        ("ewc", nn.Sequential(nn.Flatten(), nn.LayerNorm(36)), "without 'ewc'"),
        ("ewc", Twice(), "used twice"),
        ("gpm", nn.Sequential(nn.Conv2d(1, 4, 1), nn.Conv2d(4, 4, 1, groups=2)), "no projection for groups"),
    ],
)
def test_what_cannot_be_trained_is_refused_in_one_sentence(chosen: Any, network: Any, sentence: str) -> None:
    learner = Learner(chosen, network=network)
    with pytest.raises(EngramError, match=sentence) as caught:
        learner.fit(*FIRST)
    assert "\n" not in str(caught.value)
    assert not hasattr(learner, "method_")


def test_owm_says_what_it_does_not_protect() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(36, 8), nn.LayerNorm(8))
    with pytest.warns(UserWarning, match=r"does not protect extractor.module.2 \(LayerNorm\)"):
        Learner(small("owm"), network=net).fit(*FIRST)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Learner(small("owm"), network=Net()).fit(*FIRST)


def test_networks_are_for_the_inputs_of_the_first_task() -> None:
    learner = Learner(small("owm"), network=Net()).fit(*FIRST)
    with pytest.raises(InputError, match="the first task had grey inputs of 1 x 6 x 6"):
        learner.predict(np.zeros((2, 5, 5)))
