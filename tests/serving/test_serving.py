"""The HTTP interface, asked as clients ask it."""

import copy
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from engram import Learner, recipe
from engram.cli import main

TestClient = pytest.importorskip("fastapi.testclient").TestClient
from engram.serving.app import create_app  # noqa: E402
from engram.serving.model import ServedModel  # noqa: E402

X, Y = load_digits(return_X_y=True)
GREY = (X.reshape(-1, 8, 8) * 15.9).astype(np.uint8)
NAMES = np.array(["zero", "one", "two", "three"])
FEW = np.flatnonzero(Y < 4)[:200]
FIRST, SECOND = FEW[Y[FEW] < 2], FEW[Y[FEW] >= 2]
TOKEN = {"Authorization": "Bearer secret"}
JSON = {"Content-Type": "application/json"}
LIMIT = 200_000
FEW_FILTERS = ["--quiet", "--set", "analytic.filters=16"]


def png(image: np.ndarray, kind: str = "PNG") -> bytes:
    content = io.BytesIO()
    Image.fromarray(image).save(content, kind)
    return content.getvalue()


def files(rows: Any, name: str = "images") -> list[Any]:
    return [(name, (f"{row}.png", png(GREY[row]))) for row in rows]


def fresh() -> Learner:
    return Learner(recipe("analytic", analytic={"filters": 24}, head={"class_memory": 0}))


TAUGHT = fresh().fit(GREY[FIRST], NAMES[Y[FIRST]])


@pytest.fixture
def model(tmp_path: Path) -> ServedModel:
    TAUGHT.save(tmp_path / "model")
    return ServedModel(str(tmp_path / "model"), copy.deepcopy(TAUGHT))


@pytest.fixture
def client(model: ServedModel) -> Iterator[Any]:
    with TestClient(create_app(model, "secret", LIMIT), raise_server_exceptions=False) as client:
        yield client


def test_it_says_what_it_knows(client: Any) -> None:
    assert client.get("/api/model").json() == {
        "recipe": "analytic",
        "classes": ["one", "zero"],
        "tasks": 1,
        "input": {"layout": "grey", "shape": [8, 8], "type": "uint8"},
        "learning": False,
    }


def test_images_and_numbers_get_the_learners_own_answers(client: Any, model: ServedModel) -> None:
    rows = FEW[:20]
    expected = model.learner.predict_proba(GREY[rows])
    found = client.post("/api/predict/images?top=2", files=files(rows)).json()["answers"]
    same = client.post("/api/predict", json={"inputs": GREY[rows].tolist(), "top": 2}).json()["answers"]
    for row, answer, plain, probabilities in zip(rows, found, same, expected, strict=True):
        assert answer == {"name": f"{row}.png"} | plain
        assert answer["classes"] == model.learner.classes_[np.argsort(-probabilities)].tolist()
        assert answer["probabilities"] == sorted(probabilities.tolist(), reverse=True)


def test_a_file_that_is_no_image_gets_an_error_of_its_own(client: Any) -> None:
    sent = [*files(FEW[:1]), ("images", ("notes.txt", b"hello")), ("images", ("cut.png", png(GREY[0])[:40]))]
    good, notes, cut = client.post("/api/predict/images", files=sent).json()["answers"]
    assert good["classes"]
    for answer, name in ((notes, "notes.txt"), (cut, "cut.png")):
        assert answer.keys() == {"name", "error"}
        assert answer["name"] == name
        assert "cannot be read as an image" in answer["error"]


def test_images_of_any_size_and_kind_are_brought_to_the_models(client: Any, model: ServedModel) -> None:
    large = np.asarray(Image.fromarray(GREY[FIRST[0]]).resize((80, 80), Image.Resampling.NEAREST))
    colour = np.repeat(large[:, :, None], 3, 2)
    sent = [("images", ("a.png", png(large))), ("images", ("b.jpg", png(colour, "JPEG")))]
    for answer in client.post("/api/predict/images", files=sent).json()["answers"]:
        assert answer["classes"][0] == NAMES[Y[FIRST[0]]]


@pytest.mark.parametrize("by", ["images", "one label", "numbers"])
def test_learning_adds_classes_and_writes_the_file(by: str, client: Any, model: ServedModel) -> None:
    rows = SECOND[Y[SECOND] == 2] if by == "one label" else SECOND
    labels = NAMES[Y[rows]].tolist()
    if by == "numbers":
        sent: dict[str, Any] = {"json": {"inputs": GREY[rows].tolist(), "labels": labels}}
    else:
        sent = {"files": files(rows), "data": {"label": "two" if by == "one label" else labels}}
    response = client.post(f"/api/learn{'' if by == 'numbers' else '/images'}", headers=TOKEN, **sent)
    assert response.json() == {"learnt": len(rows), "new": sorted(set(labels))}
    taught = copy.deepcopy(TAUGHT).partial_fit(GREY[rows], np.array(labels))
    for learner in (model.learner, Learner.load(model.path)):
        np.testing.assert_allclose(learner.predict_proba(GREY), taught.predict_proba(GREY), atol=1e-9)
    assert client.get("/api/model").json()["tasks"] == 2


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer other"}, {"Authorization": "secret"}])
def test_learning_needs_the_token(headers: dict[str, str], client: Any, model: ServedModel) -> None:
    before = Path(model.path).read_bytes()
    for path, sent in (("", {"json": {"inputs": [[1]], "labels": [1]}}), ("/images", {"files": files(FEW[:1])})):
        response = client.post(f"/api/learn{path}", headers=headers, **sent)
        assert response.status_code == 401
        assert "needs the token" in response.json()["error"]
    assert Path(model.path).read_bytes() == before


def test_predictions_go_on_with_the_last_good_model_and_one_learns_at_a_time(
    client: Any, model: ServedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    save = Learner.save

    def slow(self: Learner, path: Any) -> None:
        begun.set()
        assert go_on.wait(20)
        save(self, path)

    monkeypatch.setattr(Learner, "save", slow)
    lesson = {"inputs": GREY[SECOND].tolist(), "labels": NAMES[Y[SECOND]].tolist()}
    answers: list[Any] = []
    teacher = threading.Thread(target=lambda: answers.append(client.post("/api/learn", headers=TOKEN, json=lesson)))
    teacher.start()
    assert begun.wait(20)
    about = client.get("/api/model").json()
    assert about["learning"]
    assert about["classes"] == ["one", "zero"]
    assert client.post("/api/predict/images", files=files(FEW[:3])).json()["answers"][0]["classes"]
    second = client.post("/api/learn", headers=TOKEN, json=lesson)
    assert second.status_code == 409
    assert "learning something else" in second.json()["error"]
    go_on.set()
    teacher.join()
    assert answers[0].status_code == 200
    assert client.get("/api/model").json()["classes"] == ["one", "three", "two", "zero"]


def test_what_fails_changes_nothing(client: Any, model: ServedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    before, content = model.learner, Path(model.path).read_bytes()

    def full(self: Learner, path: Any) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(Learner, "save", full)
    lesson = {"inputs": GREY[SECOND].tolist(), "labels": NAMES[Y[SECOND]].tolist()}
    response = client.post("/api/learn", headers=TOKEN, json=lesson)
    assert response.status_code == 500
    assert response.json() == {"error": "Something went wrong in the server; its console says what."}
    assert model.learner is before
    assert Path(model.path).read_bytes() == content
    assert not client.get("/api/model").json()["learning"]


BAD: list[tuple[str, dict[str, Any], int, str]] = [
    ("/api/predict", {"json": {"inputs": [[[1.0] * 5] * 5]}}, 422, "the first task had grey inputs of 1 x 8 x 8"),
    ("/api/predict", {"json": {"inputs": []}}, 422, "inputs: List should have at least 1 item"),
    ("/api/predict", {"json": {"inputs": [[1, "x"], [2]]}}, 422, "X cannot be read as an array"),
    ("/api/predict", {"json": {"inputs": "cat"}}, 422, "inputs: Input should be a valid list"),
    ("/api/predict", {"json": {"inputs": [[1]], "top": 0}}, 422, "top: Input should be greater than or equal to 1"),
    ("/api/predict", {"json": {}}, 422, "inputs: Field required"),
    ("/api/predict", {"content": b"{"}, 422, ""),
    ("/api/predict", {"content": b"[" * 100_000, "headers": JSON}, 400, ""),
    ("/api/predict", {"content": b"\xff\xfe", "headers": JSON}, 422, ""),
    ("/api/predict", {"content": b'{"inputs": [[NaN]]}', "headers": JSON}, 422, "NaN or infinity"),
    ("/api/predict/images", {"files": [("other", ("a.png", b"x"))]}, 422, "images: Field required"),
    ("/api/predict/images?top=x", {"files": [("images", ("a.png", b"x"))]}, 422, "query.top"),
    ("/api/predict/images", {"content": b"--x", "headers": {"Content-Type": "multipart/form-data"}}, 400, ""),
    ("/api/learn", {"json": {"inputs": [[1]], "labels": [[1]]}, "headers": TOKEN}, 422, "labels"),
    (
        "/api/learn",
        {"json": {"inputs": GREY[:2].tolist(), "labels": ["a"]}, "headers": TOKEN},
        422,
        "2 samples and y 1",
    ),
    ("/api/learn", {"json": {"inputs": GREY[:1].tolist(), "labels": [1]}, "headers": TOKEN}, 422, "mix numbers"),
    ("/api/learn/images", {"files": files([0, 1]), "headers": TOKEN}, 422, "label: Field required"),
    (
        "/api/learn/images",
        {"files": [*files([0]), ("images", ("b.png", b"no"))], "data": {"label": "x"}, "headers": TOKEN},
        422,
        "b.png: It cannot be read as an image",
    ),
    (
        "/api/learn/images",
        {"files": files([0, 1, 2]), "data": {"label": ["x", "y"]}, "headers": TOKEN},
        422,
        "3 images and 2 labels",
    ),
    ("/nothing", {}, 404, "Not Found"),
    ("/api/model", {}, 405, "Method Not Allowed"),
]


@pytest.mark.parametrize(("path", "sent", "status", "sentence"), BAD)
def test_bad_requests_get_one_sentence(path: str, sent: Any, status: int, sentence: str, client: Any) -> None:
    response = client.post(path, **sent)
    assert response.status_code == status, response.text
    assert response.json().keys() == {"error"}
    assert sentence in response.json()["error"]
    assert "Traceback" not in response.text
    assert "\n" not in response.json()["error"]


@pytest.mark.parametrize("chunked", [True, False])
@pytest.mark.parametrize("path", ["/api/predict", "/api/predict/images"])
def test_large_requests_are_refused_while_they_are_read(path: str, chunked: bool, client: Any) -> None:
    sent = 0

    def parts() -> Iterator[bytes]:
        nonlocal sent
        yield b'--x\r\nContent-Disposition: form-data; name="images"; filename="a"\r\n\r\n'
        for _ in range(100):
            sent += 100_000
            yield b"1" * 100_000

    content = parts() if chunked else b"".join(parts())
    kind = "multipart/form-data; boundary=x" if "images" in path else "application/json"
    response = client.post(path, content=content, headers={"Content-Type": kind})
    assert response.status_code == 413
    assert response.json() == {"error": "The request is larger than 0.2 MB: send less at a time, or raise --max-mb."}


def test_a_request_lies_about_its_length_and_is_refused_all_the_same() -> None:
    """No client library lets one do it."""
    from engram.serving.limits import BodyLimit

    seen: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        for _ in range(5):
            seen.append(len((await receive())["body"]))

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"1" * 60, "more_body": True}

    async def send(message: Any) -> None: ...

    import asyncio

    scope = {"type": "http", "headers": [(b"content-length", b"7")]}
    with pytest.raises(Exception, match="larger than"):
        asyncio.run(BodyLimit(app, 100)(scope, receive, send))
    assert seen == [60]


@pytest.mark.parametrize(
    ("x", "sentence"),
    [(X, "takes no images"), (X.reshape(-1, 8, 8) / 16, "in numbers of its own making")],
)
def test_models_that_take_no_image_files_say_so(x: np.ndarray, sentence: str, tmp_path: Path) -> None:
    model = ServedModel(str(tmp_path / "model"), fresh().fit(x[FIRST], Y[FIRST]))
    with TestClient(create_app(model, "secret", LIMIT)) as client:
        (answer,) = client.post("/api/predict/images", files=files([0])).json()["answers"]
        assert sentence in answer["error"]
        found = client.post("/api/predict", json={"inputs": x[:2].tolist()}).json()["answers"]
        assert found[0]["classes"][0] in (0, 1)
        lesson = {"inputs": x[SECOND].tolist(), "labels": Y[SECOND].tolist()}
        assert client.post("/api/learn", json=lesson, headers=TOKEN).json()["new"] == [2, 3]


def test_a_model_that_has_forgotten_everything_is_served_and_learns_again(tmp_path: Path) -> None:
    learner = Learner(recipe("analytic", head={"class_memory": 128})).fit(X[FIRST], Y[FIRST]).forget(classes=[0, 1])
    with TestClient(create_app(ServedModel(str(tmp_path / "model"), learner), "secret", LIMIT)) as client:
        assert client.get("/api/model").json()["classes"] == []
        refused = client.post("/api/predict", json={"inputs": X[:1].tolist()})
        assert refused.status_code == 422
        assert "knows no class now" in refused.json()["error"]
        lesson = {"inputs": X[SECOND].tolist(), "labels": Y[SECOND].tolist()}
        assert client.post("/api/learn", json=lesson, headers=TOKEN).json()["new"] == [2, 3]


def test_labels_of_forms_are_numbers_where_classes_are(tmp_path: Path) -> None:
    model = ServedModel(str(tmp_path / "model"), fresh().fit(GREY[FIRST], Y[FIRST]))
    with TestClient(create_app(model, "secret", LIMIT)) as client:
        rows = SECOND[Y[SECOND] == 2]
        ask = {"files": files(rows), "headers": TOKEN}
        assert client.post("/api/learn/images", data={"label": "2"}, **ask).json()["new"] == [2]
        assert "whole numbers" in client.post("/api/learn/images", data={"label": "two"}, **ask).json()["error"]


def heeds_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_the_command_serves_until_it_is_stopped(tmp_path: Path) -> None:
    import httpx

    fresh().fit(GREY[FIRST], NAMES[Y[FIRST]]).save(tmp_path / "model")
    words = [sys.executable, "-m", "engram", "serve", str(tmp_path / "model"), "--port", "0"]
    environment = {key: value for key, value in os.environ.items() if key != "ENGRAM_TOKEN"}
    # a job in a shell's background ignores Ctrl-C, and so would its children
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "preexec_fn": heeds_ctrl_c}
    with subprocess.Popen(words, text=True, env=environment, **pipes) as server:
        assert server.stdout is not None
        assert server.stderr is not None
        address = re.search(r"http://127\.0\.0\.1:\d+", server.stdout.readline())
        token = server.stdout.readline().split()[-1].rstrip(".")
        assert address is not None, server.stderr.read()
        assert httpx.get(f"{address[0]}/").headers["content-security-policy"].startswith("default-src 'none'")
        lesson = {"inputs": GREY[SECOND].tolist(), "labels": NAMES[Y[SECOND]].tolist()}
        headers = {"Authorization": f"Bearer {token}"}
        assert httpx.post(f"{address[0]}/api/learn", json=lesson, headers=headers, timeout=60).status_code == 200
        server.send_signal(signal.SIGINT)
        assert server.wait(20) == 130
        assert server.stderr.read() == "engram: stopped.\n"
    assert Learner.load(tmp_path / "model").tasks_ == 2


def test_a_port_that_is_taken_and_other_mistakes_are_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import socket

    fresh().fit(X[FIRST], Y[FIRST]).save(tmp_path / "model")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for words, sentence in (
            (["--port", str(port)], f"Port {port} of 127.0.0.1 cannot be used"),
            (["--port", "70000"], "--port must be a number from 0 to 65535"),
            (["--host", "no.such.host.invalid"], "cannot be used"),
            (["--max-mb", "0"], "--max-mb must be above 0"),
        ):
            assert main(["serve", str(tmp_path / "model"), *words]) == 2
            said = capsys.readouterr().err
            assert sentence in said
            assert said.count("\n") == 1


def test_it_prepares_images_as_the_command_line_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for row in range(24):
        folder = tmp_path / "images" / ("dark" if row % 2 else "light")
        folder.mkdir(parents=True, exist_ok=True)
        colour = np.stack([GREY[row] // (1 + row % 2 * 3), GREY[row + 1], GREY[row + 2]], 2).repeat(3, 0).repeat(4, 1)
        (folder / f"{row}.jpg").write_bytes(png(colour, "JPEG"))
    model, images = str(tmp_path / "model"), sorted((tmp_path / "images").rglob("*.jpg"))
    assert main(["learn", model, str(tmp_path / "images"), "--image-size", "10", "12", *FEW_FILTERS]) == 0
    capsys.readouterr()
    assert main(["predict", model, *map(str, images), "--json", "--top", "2", "--quiet"]) == 0
    told = {Path(one["input"]).name: one for one in json.loads(capsys.readouterr().out)}
    served = ServedModel(model, Learner.load(model))
    with TestClient(create_app(served, "secret", LIMIT)) as client:
        sent = [("images", (path.name, path.read_bytes())) for path in images]
        for answer in client.post("/api/predict/images?top=2", files=sent).json()["answers"]:
            expected = {one["class"]: one["probability"] for one in told[answer["name"]]["classes"]}
            found = dict(zip(answer["classes"], answer["probabilities"], strict=True))
            assert found == pytest.approx(expected, abs=1e-9)
        assert client.post("/api/learn/images", files=sent, data={"label": "more"}, headers=TOKEN).status_code == 200
    assert main(["show", model, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [one["samples"] for one in shown["classes"] if one["class"] == "more"] == [24]


@pytest.mark.slow
def test_no_request_fails_while_lessons_are_learnt(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    words = [sys.executable, str(root / "benchmarks" / "serve_load.py"), "--rate", "50", "--seconds", "5"]
    subprocess.run([*words, "--out", str(tmp_path / "load.json")], check=True, capture_output=True)
    found = json.loads((tmp_path / "load.json").read_text())
    assert found["errors"] == 0, found
    assert found["requests"] == 250
    assert found["lessons_learnt_meanwhile"] > 0
