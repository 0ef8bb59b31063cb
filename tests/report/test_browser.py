"""The page in a real browser: headless Chromium, where the machine has one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.study.studies import fill, tiny

from engram import files
from engram.report.report import report
from engram.study.folder import STUDY


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    rows = {name: {} for name in ("finetune", "owm", "owm+gfr", "owm+ssl", "joint")}
    study = tiny(columns={"digits-5": {}, "digits-2": {}}, seeds=3, rows=rows)
    files.write_json(folder / STUDY, {"name": study.name, "study": study.plain()})
    fill(folder, study)
    return report(str(folder), None)


@pytest.fixture
def page(browser: Any, page_file: Path) -> Iterator[Any]:
    """Opened with no network; whatever the console complains about fails the test."""
    context = browser.new_context(viewport={"width": 390, "height": 844}, offline=True)
    tab = context.new_page()
    complaints: list[str] = []
    tab.on("console", lambda message: complaints.append(message.text))
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on("request", lambda request: request.url.startswith("file:") or complaints.append(request.url))
    tab.goto(page_file.as_uri())
    yield tab
    assert complaints == []
    context.close()


def column(page: Any, table: str, number: int) -> list[str]:
    return page.locator(f"#table-{table} tbody tr > :nth-child({number})").all_inner_texts()


def test_it_fits_a_phone_and_its_figures_show(page: Any) -> None:
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    figures = page.locator("figure svg")
    assert figures.count() == 8
    for index in range(figures.count()):
        box = figures.nth(index).bounding_box()
        assert box["width"] > 200
        assert box["height"] > 100
        assert len(figures.nth(index).get_attribute("aria-label")) > 40


def test_tables_sort_by_numbers_and_names_with_the_keyboard(page: Any) -> None:
    before = column(page, "accuracy", 1)
    button = page.locator("#table-accuracy thead button").nth(1)
    head = page.locator("#table-accuracy thead th").nth(1)
    button.focus()
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    assert column(page, "accuracy", 1) == before[::-1], "made up so that each row is better than the one before"
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    assert column(page, "accuracy", 1) == before
    page.locator("#table-accuracy thead button").nth(0).press("Enter")
    assert head.get_attribute("aria-sort") is None
    assert column(page, "accuracy", 1) == sorted(before)


def test_cells_without_a_number_come_last_either_way(page: Any) -> None:
    button = page.locator("#table-after-digits-5 thead button").nth(1)
    for _ in range(2):
        button.press("Enter")
        assert column(page, "after-digits-5", 1)[-1] == "joint"


def test_the_theme_follows_the_system_until_it_is_switched(page: Any) -> None:
    def ground() -> str:
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    light = ground()
    page.emulate_media(color_scheme="dark")
    dark = ground()
    assert dark != light
    page.locator("#theme").press("Enter")
    assert ground() == light
    page.emulate_media(color_scheme="light")
    page.locator("#theme").press("Enter")
    assert ground() == dark
    page.reload()
    assert ground() == dark, "it is remembered"


def test_the_first_stop_of_the_keyboard_leads_to_the_results(page: Any) -> None:
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
