from pathlib import Path

import numpy as np
from PIL import Image

from engram.study.pictures import LABEL_WIDTH, write_grid


def test_each_class_has_a_row_with_its_images_in_their_colours(tmp_path: Path) -> None:
    red, grey = np.zeros((2, 3, 32, 32), np.uint8), np.full((2, 3, 32, 32), 90, np.uint8)
    red[:, 0] = 200
    write_grid(tmp_path / "new" / "grid.png", {"red": red, "grey": grey})
    with Image.open(tmp_path / "new" / "grid.png") as picture:
        assert picture.size == (LABEL_WIDTH + 2 * 34, 2 * 34)
        assert picture.getpixel((LABEL_WIDTH + 40, 10)) == (200, 0, 0)
        assert picture.getpixel((LABEL_WIDTH + 10, 50)) == (90, 90, 90)
        label = np.asarray(picture)[:34, :LABEL_WIDTH]
        assert (label < 128).any()  # the class's name


def test_small_grey_images_are_enlarged(tmp_path: Path) -> None:
    write_grid(tmp_path / "grid.png", {"0": np.full((3, 1, 8, 8), 7, np.uint8)})
    with Image.open(tmp_path / "grid.png") as picture:
        assert picture.size == (LABEL_WIDTH + 3 * 34, 34)
        assert picture.getpixel((LABEL_WIDTH + 20, 20)) == (7, 7, 7)
