"""Every Python block of the README and the docs runs as it stands."""

import re
from pathlib import Path

import pytest

from engram.recipes import RECIPES
from engram.testing import check_recipe

KNOWN = frozenset(RECIPES)
ROOT = Path(__file__).parent.parent
BLOCKS = [
    pytest.param(page, block, id=f"{page.name}-{number}")
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL))
]


@pytest.mark.parametrize(("page", "block"), BLOCKS)
def test_a_block_of_the_docs_runs(
    page: Path, block: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        exec(compile(block, str(page), "exec"), {"__name__": "__main__"})
        for name in RECIPES.keys() - KNOWN:  # a recipe that the page adds keeps every promise, as it says
            check_recipe(name)
    finally:
        for name in RECIPES.keys() - KNOWN:
            del RECIPES[name]
    if "of all ten digits" in block:
        assert float(capsys.readouterr().out.split("%")[0]) > 80


def test_links_between_pages_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), ROOT / "results" / "README.md"]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
