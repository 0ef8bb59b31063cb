"""The page in a real browser, asking a real server: headless Chromium, where the machine has one."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from engram import Learner, recipe

uvicorn = pytest.importorskip("uvicorn")
from engram.serving.app import create_app  # noqa: E402
from engram.serving.model import ServedModel  # noqa: E402

X, Y = load_digits(return_X_y=True)
GREY = (X.reshape(-1, 8, 8) * 15.9).astype(np.uint8)
WORDS = np.array(["zero", "one", "two", "three"])
ROWS = np.flatnonzero(Y < 4)[:200]
LEARNER = Learner(recipe("analytic", analytic={"filters": 24})).fit(GREY[ROWS], WORDS[Y[ROWS]])


def serve(learner: Learner) -> Iterator[str]:
    app = create_app(ServedModel("nowhere", learner), "secret", 100_000)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="critical"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    yield from serve(LEARNER)


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    """Whatever the console complains about, and whatever goes elsewhere, fails the test."""
    context = browser.new_context(viewport={"width": 390, "height": 844})
    tab = context.new_page()
    complaints: list[str] = []
    tab.on("console", lambda message: complaints.append(message.text))
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on("request", lambda request: request.url.startswith((address, "blob:")) or complaints.append(request.url))
    tab.goto(address)
    yield tab
    assert complaints == []
    context.close()


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("images")
    for row in ROWS[:3]:
        large = Image.fromarray(GREY[row]).resize((80, 80), Image.Resampling.NEAREST)
        large.save(folder / f"a digit {row}.png")
    (folder / "broken.png").write_bytes(b"no image")
    return sorted(folder.iterdir())


def test_chosen_images_are_answered_and_a_broken_one_is_named(page: Any, images: list[Path]) -> None:
    page.wait_for_function("document.getElementById('about').textContent.includes('4 classes')")
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Choose images").press("Enter")
    chooser.value.set_files(images)
    page.get_by_text("4 images answered.").wait_for()
    cards = page.locator("#answers > li")
    assert cards.count() == 4
    broken, *good = [cards.nth(index) for index in range(4)]
    assert "cannot be read as an image" in broken.inner_text()
    assert broken.locator("img").count() == 0
    for card, row in zip(reversed(good), ROWS[:3], strict=True):
        assert card.locator("dt").all_inner_texts()[0] == WORDS[Y[row]]
        shares = [float(text.rstrip(" %")) for text in card.locator("dd").all_inner_texts()]
        assert shares == sorted(shares, reverse=True)
        assert card.locator("img").evaluate("image => image.complete && image.naturalWidth") == 80
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_images_can_be_dropped(page: Any, images: list[Path]) -> None:
    page.evaluate(
        """content => {
          const file = new File([new Uint8Array(content)], "dropped.png", {type: "image/png"});
          const dataTransfer = new DataTransfer();
          dataTransfer.items.add(file);
          for (const kind of ["dragover", "drop"])
            document.getElementById("drop").dispatchEvent(new DragEvent(kind, {dataTransfer, bubbles: true}));
        }""",
        list(images[0].read_bytes()),
    )
    page.get_by_text("1 image answered.").wait_for()
    assert "dropped.png" in page.locator("#answers").inner_text()


def test_it_follows_the_systems_theme(page: Any) -> None:
    def ground() -> str:
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    light = ground()
    page.emulate_media(color_scheme="dark")
    assert ground() != light


def test_the_keyboards_first_stop_is_the_button(page: Any) -> None:
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "choose"


def test_a_model_of_tables_shows_how_to_ask_it(browser: Any) -> None:
    for address in serve(Learner().fit(X[ROWS], Y[ROWS])):
        tab = browser.new_page()
        tab.goto(address)
        tab.locator("#example").wait_for()
        assert "/api/predict" in tab.locator("#example").inner_text()
        assert not tab.locator("#drop").is_visible()
        tab.close()
