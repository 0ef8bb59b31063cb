import json
from pathlib import Path
from typing import Any

import pytest
from tests.study.studies import TINY, tiny

from engram.errors import FileError, InputError
from engram.report import paper
from engram.study.grid import all_pairs, cells_of, settings_of
from engram.study.reading import built_in, read_stored, read_study, study_from


def test_the_papers_study_is_its_table_and_a_little_more() -> None:
    study = read_study("paper")
    columns = [column.name for column in study.columns]
    assert columns == ["svhn-5", "cifar10-5", *(f"cifar100-{n}" for n in (2, 5, 10, 20)), "thucnews-5", "dbpedia-5"]
    rows = [row.name for row in study.rows]
    assert rows[:14] == paper.rows()
    assert len(paper.rows()) == 14
    asked = {(column.name, row.name) for column, row in all_pairs(study)}
    assert set(paper.accuracies()) <= asked
    assert study.seeds == (0, 1, 2, 3, 4)
    assert [part.name for part in (*study.rows, *study.columns) if part.planned and not part.missing] == []


@pytest.mark.parametrize("name", sorted(built_in()))
def test_a_study_survives_the_way_to_a_file_and_back(name: str, tmp_path: Path) -> None:
    study = read_study(name)
    (tmp_path / "study.json").write_text(json.dumps({"name": name, "study": study.plain()}))
    again = read_stored(tmp_path / "study.json")
    assert again.plain() == study.plain()
    assert cells_of(again, {}) == cells_of(study, {})


def test_the_later_settings_win() -> None:
    study = tiny(
        epochs=3,
        settings={"training": {"batch_size": 8, "momentum": 0.1}, "owm": {"alpha_hidden": 0.5}},
        columns={"digits-2": {"epochs": 5, "settings": {"training": {"batch_size": 16}}}},
        rows={"finetune": {}, "owm": {"settings": {"owm": {"alpha_hidden": 0.25}}}},
    )
    column, owm, finetune = study.column("digits-2"), study.row("owm"), study.row("finetune")
    training = {"epochs": 5, "batch_size": 16, "momentum": 0.1}
    assert settings_of(study, owm, column) == {"training": training, "owm": {"alpha_hidden": 0.25}}
    assert settings_of(study, finetune, column) == {"training": training}
    chosen = settings_of(study, owm, column, {"owm": {"alpha_hidden": 0.125}, "training": {"momentum": 0.2}})
    assert chosen == {"training": training | {"momentum": 0.2}, "owm": {"alpha_hidden": 0.125}}


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"sedes": 3}, "did you mean 'seeds'"),
    ({"seeds": 0}, "seeds must be a count or a list"),
    ({"seeds": [1, 1]}, "names one number twice"),
    ({"seeds": [100]}, "tuning_seed"),
    ({"epochs": "many"}, "epochs must be a whole number"),
    ({"selection": "best"}, "last or current or seen"),
    ({"precision": "float16"}, "auto or float32 or bfloat16"),
    ({"title": ""}, "has no title"),
    ({"rows": {}}, "has no rows"),
    ({"rows": ["owm"]}, "rows must be a table"),
    ({"rows": {"owmm": {}}}, "did you mean 'owm'"),
    ({"rows": {"owm": {"receipt": "owm"}}}, "did you mean 'recipe'"),
    ({"rows": {"owm": {"columns": ["svhn-*"]}}}, "no column is called svhn-*"),
    ({"rows": {"owm": {"columns": "digits-*"}}}, "must be a list of patterns"),
    ({"rows": {"owm": {"columns": 5}}}, "must be a list of patterns such"),
    ({"rows": {"owm": {"columns": []}}}, "such as"),
    ({"rows": {"owm": {"settings": {"owm": {"alpha": 1}}}}}, "have no 'alpha'"),
    ({"rows": {"owm": {"settings": {"owm": {"alpha_conv": -1}}}}}, "alpha_conv must be"),
    ({"rows": {"owm": {"tune": {"owm.alpha_conv": [-1]}}}}, "alpha_conv must be"),
    ({"rows": {"owm": {"tune": {"alpha_conv": [1]}}}}, "tune must be like"),
    ({"rows": {"owm": {"planned": "yes"}}}, "planned must be"),
    ({"rows": {"../owm": {"recipe": "owm"}}}, "names are made of letters"),
    ({"rows": {"..": {"recipe": "owm"}}}, "names are made"),
    ({"columns": {"digits": {}}}, "SET-TASKS"),
    ({"columns": {"digit-5": {}}}, "did you mean digits"),
    ({"columns": {"digits-11": {}}}, "cannot make 11 tasks"),
    ({"settings": {"trainig": {"epochs": 1}}}, "did you mean 'training'"),
    ({"settings": {"training": 1}}, "must be a table"),
]


@pytest.mark.parametrize(("changes", "sentence"), MISTAKES, ids=[sentence for _, sentence in MISTAKES])
def test_a_mistake_in_a_study_is_one_sentence(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=r"^[^\n]*$") as caught:
        study_from(TINY | changes, "mine")
    assert sentence in str(caught.value)


def test_what_this_version_lacks_is_named_and_not_computed() -> None:
    study = tiny(
        columns={"digits-2": {}, "stars-5": {"planned": True}},
        rows={"owm": {}, "magic": {"planned": True, "settings": {"wand": {"length": 3}}}},
    )
    assert [cell.place for cell in cells_of(study, {})] == ["digits-2/owm/seed0", "digits-2/owm/seed1"]
    assert study.row("magic").missing == "this version has no recipe 'magic' yet"
    assert study.column("stars-5").missing == "this version has no data set 'stars' yet"


def test_files_that_are_no_study_give_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("title = ")
    for name, sentence in (
        ("papr", "did you mean 'paper'"),
        (str(tmp_path / "none.toml"), "cannot be read"),
        (str(tmp_path / "bad.toml"), "is not TOML"),
    ):
        with pytest.raises(InputError, match=sentence):
            read_study(name)
    for text in ("{}", "[]", '{"name": "x", "study": []}', '{"name": "x", "study": {"title": 1, "rows": 2}}'):
        (tmp_path / "study.json").write_text(text)
        with pytest.raises(FileError, match="run `engram study` again"):
            read_stored(tmp_path / "study.json")


def test_a_recipe_without_epochs_is_given_none(monkeypatch: pytest.MonkeyPatch) -> None:
    from engram.recipes import RECIPES, Recipe

    class Closed(Recipe):
        def groups(self) -> dict[str, Any]:
            return {"network": self.network}

        def changed(self, groups: Any) -> Recipe:
            return self

    monkeypatch.setitem(RECIPES, "closed", Closed("closed", "no epochs"))
    study = tiny(rows={"closed": {}})
    assert settings_of(study, study.row("closed"), study.columns[0]) == {"network": TINY["settings"]["network"]}
