import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

os.environ.setdefault("MPLBACKEND", "Agg")
# Small tensors gain nothing from threads, and threads that wait for a busy core cost minutes; subprocesses inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A shared machine makes a single example's time meaningless; the suite's own timeout still holds.
settings.register_profile("engram", deadline=None, derandomize=True)
settings.load_profile("engram")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Headless Chromium, where the machine has one."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip("there is no Chromium here")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield chromium
        chromium.close()
