from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from engram.cli import main

Ask = Callable[..., str]


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Runs a command in a folder of its own, expects it to end well, and gives what it said."""
    monkeypatch.chdir(tmp_path)

    def asked(line: str, status: int = 0) -> str:
        assert main(line.split()) == status, capsys.readouterr().err
        caught = capsys.readouterr()
        if status:
            assert len(caught.err.strip().splitlines()) == 1, caught.err
            assert not caught.out
            return caught.err
        return caught.out + caught.err

    return asked


def photographs(folder: Path, names: str, each: int = 12, colour: bool = False, side: int = 10, seed: int = 0) -> Path:
    """Small images whose class is told by the rows that are bright."""
    for name in names.split():
        rng = np.random.default_rng([seed, *name.encode()])
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number in range(each):
            pixels = rng.integers(0, 90, (side, side, 3) if colour else (side, side)).astype(np.uint8)
            pixels[ord(name[0]) % 8] += 150
            Image.fromarray(pixels).save(folder / name / f"{number}.png")
    return folder


def rows(path: Path, names: str, each: int = 12, seed: int = 0) -> Path:
    """A table of two columns whose class is told by where its rows lie."""
    rng = np.random.default_rng(seed)
    lines = ["a,b,label"]
    for name in names.split():
        centre = np.array([ord(name[0]) % 5, ord(name[0]) // 5 % 5]) * 10.0
        lines += [f"{a:.4f},{b:.4f},{name}" for a, b in centre + rng.normal(size=(each, 2))]
    path.write_text("\n".join(lines) + "\n")
    return path
