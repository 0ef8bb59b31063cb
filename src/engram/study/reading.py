"""From a TOML file, or the name of a study that comes with Engram, to a `Study`."""

from __future__ import annotations

import dataclasses
import difflib
import json
import string
import tomllib
from collections.abc import Iterable, Mapping
from fnmatch import fnmatch
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

from engram.data.sets import set_info
from engram.errors import EngramError, FileError, InputError
from engram.recipes import RECIPES
from engram.recipes import recipe as recipe_by_name
from engram.settings import Precision, Selection
from engram.settings.checks import is_whole
from engram.study.definition import Column, Row, Study
from engram.study.grid import settings_of

LETTERS = {*string.ascii_letters, *string.digits, *"+-_."}
"""of which names are made"""


def built_in() -> dict[str, str]:
    """The studies that come with Engram, and what each is."""
    texts = {name: _text_of(name) for name in sorted(_names())}
    return {name: tomllib.loads(text)["title"] for name, text in texts.items()}


def read_study(name: str) -> Study:
    """A built-in study by name, or the one in a TOML file."""
    if name in _names():
        return study_from(tomllib.loads(_text_of(name)), name)
    path = Path(name)
    if path.suffix != ".toml":
        raise InputError(f"There is no study {name!r}: {_nearest(name, _names())}, or the path of a .toml file.")
    try:
        plain = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): name a study's .toml file.") from error
    except ValueError as error:
        raise InputError(f"{path} is not TOML: {error}.") from error
    return study_from(plain, path.stem)


def read_stored(path: Path) -> Study:
    """The study that a folder was made for."""
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
        return study_from(_table(plain["study"], "study"), plain["name"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FileError(f"{path} does not describe a study ({error}): run `engram study` again.") from error


def study_from(plain: Mapping[str, Any], name: str) -> Study:
    """Check everything, so that a mistake is found before the first run and not after a night."""
    where = f"Study {name!r}"
    _check_keys(plain, [f.name for f in dataclasses.fields(Study) if f.name != "name"], where)
    for part in ("title", "rows", "columns"):
        if not plain.get(part):
            raise InputError(f"{where} has no {part}: give it some.")
    study = Study(
        name=name,
        title=_text(plain["title"], f"{where}: title"),
        rows=tuple(_row(key, value, where) for key, value in _table(plain["rows"], f"{where}: rows").items()),
        columns=tuple(
            _column(key, value, where) for key, value in _table(plain["columns"], f"{where}: columns").items()
        ),
        seeds=_numbers(plain.get("seeds", 5), f"{where}: seeds"),
        class_orders=_numbers(plain.get("class_orders", [0]), f"{where}: class_orders"),
        tuning_seed=_whole(plain.get("tuning_seed", 100), 0, f"{where}: tuning_seed"),
        epochs=_epochs(plain, where),
        selection=_one_of(plain.get("selection", "last"), get_args(Selection), f"{where}: selection"),
        precision=_one_of(plain.get("precision", "auto"), get_args(Precision), f"{where}: precision"),
        settings=_groups(plain.get("settings", {}), f"{where}: settings"),
    )
    _check_settings(study)
    return study


def _row(name: str, plain: Any, where: str) -> Row:
    where = f"{where}, row {name!r}"
    _check_part(name, plain, Row, where)
    recipe = _text(plain.get("recipe", name), f"{where}: recipe")
    planned = _one_of(plain.get("planned", False), (True, False), f"{where}: planned")
    if not planned:
        recipe_by_name(recipe)
    tune = _table(plain.get("tune", {}), f"{where}: tune")
    for key, values in tune.items():
        if not isinstance(values, list | tuple) or not values or key.count(".") != 1:
            raise InputError(f'{where}: tune must be like "rotation.weight" = [0.5, 1], not {key!r} = {values!r}.')
    return Row(
        name,
        recipe,
        _patterns(plain.get("columns", ["*"]), f"{where}: columns"),
        _groups(plain.get("settings", {}), f"{where}: settings"),
        {key: tuple(values) for key, values in tune.items()},
        planned,
    )


def _column(name: str, plain: Any, where: str) -> Column:
    where = f"{where}, column {name!r}"
    _check_part(name, plain, Column, where)
    dataset, _, tasks = name.rpartition("-")
    if not dataset or not tasks.isdecimal() or int(tasks) < 1:
        raise InputError(f"{where}: a column is called SET-TASKS, such as cifar10-5.")
    planned = _one_of(plain.get("planned", False), (True, False), f"{where}: planned")
    if not planned and int(tasks) > set_info(dataset).classes:
        raise InputError(f"{where}: {set_info(dataset).classes} classes cannot make {tasks} tasks.")
    return Column(name, _epochs(plain, where), _groups(plain.get("settings", {}), f"{where}: settings"), planned)


def _check_part(name: str, plain: Any, kind: type, where: str) -> None:
    if not name.strip(".") or not set(name) <= LETTERS:
        raise InputError(f"{where}: names are made of letters, digits, +, -, _ and dots, as they name folders.")
    _check_keys(_table(plain, where), [f.name for f in dataclasses.fields(kind) if f.name != "name"], where)


def _check_settings(study: Study) -> None:
    """Each cell's settings must be ones that its recipe can take."""
    known = sorted({group for recipe in RECIPES.values() for group in recipe.groups()})
    for part in (study, *study.columns):
        for group in part.settings:
            if group not in known:
                raise InputError(f"Study {study.name!r}: no recipe has settings {group!r}: {_nearest(group, known)}.")
    for row in study.rows:
        if not any(fnmatch(column.name, pattern) for column in study.columns for pattern in row.columns):
            raise InputError(f"Study {study.name!r}, row {row.name!r}: no column is called {' or '.join(row.columns)}.")
        for column in study.columns if row.missing is None else ():
            _check_cell(study, row, column)


def _check_cell(study: Study, row: Row, column: Column) -> None:
    recipe = RECIPES[row.recipe]
    try:
        chosen = recipe.changed(settings_of(study, row, column))
        for key, values in row.tune.items():
            group, _, setting = key.partition(".")
            for value in values:
                chosen.changed({group: {setting: value}})
    except EngramError as error:
        raise InputError(f"Study {study.name!r}, row {row.name!r} in {column.name}: {error}") from error


def _epochs(plain: Mapping[str, Any], where: str) -> int | None:
    return _whole(plain["epochs"], 1, f"{where}: epochs") if "epochs" in plain else None


def _numbers(value: Any, where: str) -> tuple[int, ...]:
    """A list of whole numbers, or a count n for 0 to n-1."""
    if is_whole(value, 1):
        return tuple(range(value))
    if not isinstance(value, list | tuple) or not value or not all(is_whole(one, 0) for one in value):
        raise InputError(f"{where} must be a count or a list of whole numbers, not {value!r}.")
    if len(set(value)) < len(value):
        raise InputError(f"{where} names one number twice: {value!r}.")
    return tuple(value)


def _whole(value: Any, least: int, where: str) -> int:
    if not is_whole(value, least):
        raise InputError(f"{where} must be a whole number of at least {least}, not {value!r}.")
    return value


def _one_of(value: Any, choices: tuple[Any, ...], where: str) -> Any:
    if value not in choices or isinstance(value, int) != isinstance(choices[0], int):
        raise InputError(f"{where} must be {' or '.join(map(str, choices))}, not {value!r}.")
    return value


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise InputError(f"{where} must be a text, not {value!r}.")
    return value


def _patterns(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not value:  # of a text each letter would be a pattern, * among them
        raise InputError(f'{where} must be a list of patterns such as ["cifar10-*"], not {value!r}.')
    return tuple(_text(pattern, where) for pattern in value)


def _table(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InputError(f"{where} must be a table, not {value!r}.")
    return value


def _groups(value: Any, where: str) -> dict[str, dict[str, Any]]:
    return {group: dict(_table(own, f"{where}.{group}")) for group, own in _table(value, where).items()}


def _check_keys(plain: Mapping[str, Any], known: list[str], where: str) -> None:
    for key in plain:
        if key not in known:
            raise InputError(f"{where} has a key {key!r} that nobody reads: {_nearest(key, known)}.")


def _nearest(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(known), 1)
    return f"did you mean {close[0]!r}" if close else f"there are {', '.join(known)}"


def _names() -> list[str]:
    return sorted(entry.name.removesuffix(".toml") for entry in _folder().iterdir() if entry.name.endswith(".toml"))


def _text_of(name: str) -> str:
    return (_folder() / f"{name}.toml").read_text(encoding="utf-8")


def _folder() -> Any:
    return files("engram.study") / "studies"
