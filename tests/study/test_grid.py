import json
from pathlib import Path

import pytest
from tests.study.studies import made_up, tiny

from engram.errors import InputError
from engram.study.folder import status
from engram.study.grid import cells_of, check_patterns, disagreement, matching, trials_of
from engram.study.reading import read_study
from engram.study.worker import Machine, Order

RESULTS = Path(__file__).parents[2] / "results"


def test_every_cell_has_a_place_of_its_own() -> None:
    study = tiny(class_orders=[0, 3], rows={"owm": {"tune": {"owm.alpha_conv": [1.0, 0.5], "owm.alpha_last": [1.0]}}})
    places = [cell.place for cell in cells_of(study, {})]
    assert places == [f"digits-2/owm/{run}" for run in ("seed0", "seed1", "order3-seed0", "order3-seed1")]
    trials = trials_of(study, study.columns[0], study.rows[0])
    assert [cell.place for cell in trials] == [
        f"digits-2/owm/tuning/owm.alpha_conv={value},owm.alpha_last=1.0" for value in (1.0, 0.5)
    ]
    assert {cell.seed for cell in trials} == {100}
    assert [cell.settings["owm"]["alpha_conv"] for cell in trials] == [1.0, 0.5]


def test_patterns_choose_cells_and_unknown_ones_are_named() -> None:
    study = tiny(columns={"digits-2": {}, "digits-5": {}})
    cells = cells_of(study, {})
    assert len(matching(cells, ())) == 8
    assert {cell.place for cell in matching(cells, ("digits-5:owm*",))} == {f"digits-5/owm/seed{k}" for k in (0, 1)}
    assert len(matching(cells, ("digits-5:*", "*:owm"))) == 6
    with pytest.raises(InputError, match="such as digits-2:finetune"):
        check_patterns(study, ("cifar10-5:*",))


def test_an_order_survives_the_way_to_a_worker() -> None:
    cell = cells_of(tiny(), {})[0]
    order = Order(cell, "somewhere", Machine(2, data_dir="data"))
    again = Order.from_json(order.to_json())
    assert again == order
    assert again.cell.chosen_recipe() == cell.chosen_recipe()


def test_a_result_of_another_protocol_is_not_taken_for_the_cells() -> None:
    cell = cells_of(tiny(), {})[1]
    result = json.loads(json.dumps(made_up(cell)))
    assert disagreement(cell, result) is None
    del result["settings"]["owm"]["head"]  # a setting that did not exist when the run was made
    assert disagreement(cell, result) is None
    for name, value in (("seed", 5), ("selection", "seen"), ("tasks", 5), ("recipe", "finetune")):
        assert name in str(disagreement(cell, result | {name: value}))
    result["settings"]["training"]["epochs"] = 7
    assert "training.epochs 7, and the study asks for 1" in str(disagreement(cell, result))


def test_the_results_in_the_repository_are_cells_of_their_study() -> None:
    cells = [
        cell
        for cell in cells_of(read_study(str(RESULTS / "study.toml")), {})
        if (RESULTS / cell.place / "result.json").exists()
    ]
    assert {cell.place for cell in cells} >= {
        f"cifar10-5/{row}/seed{k}" for row in ("owm", "finetune") for k in range(3)
    }
    assert {status(RESULTS, cell) for cell in cells} == {("done", "")}
