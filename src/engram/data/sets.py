"""The table of the data sets that Engram knows: sizes, layouts, licences and where they come from."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from engram.errors import InputError


@dataclass(frozen=True)
class Source:
    """A file to download."""

    url: str
    sha256: str
    size: int

    @property
    def name(self) -> str:
        return self.url.rsplit("/", 1)[-1]

    @property
    def packed(self) -> bool:
        return self.name.endswith(".tar.gz")


@dataclass(frozen=True)
class SetInfo:
    """One data set: `folder` holds its files in the official layout; a set without files is built in.

    `width` multiplies the filters of the paper's CNN, and `test` counts the validation part too. Of texts `shape` says
    how long they are as a rule (1, 1, words or characters), `filters` is the number in the paper's text CNN, and where
    they come in a second layout, `otherwise` describes it.
    """

    name: str
    about: str
    licence: str
    shape: tuple[int, int, int]
    classes: int
    train: int
    test: int
    folder: str = ""
    train_files: tuple[str, ...] = ()
    test_files: tuple[str, ...] = ()
    names_file: str = ""
    sources: tuple[Source, ...] = ()
    tasks: int = 5
    width: int = 1
    texts: bool = False
    filters: int = 0
    otherwise: "SetInfo | None" = None

    @property
    def built_in(self) -> bool:
        return not self.files

    @property
    def layouts(self) -> "tuple[SetInfo, ...]":
        return (self,) if self.otherwise is None else (self, self.otherwise)

    @property
    def files(self) -> tuple[str, ...]:
        return self.train_files + self.test_files

    @property
    def megabytes(self) -> int:
        """The size of the download."""
        return round(sum(source.size for source in self.sources) / 1e6)


_CIFAR_LICENCE = "none stated; the authors ask to cite Krizhevsky, Learning Multiple Layers of Features, 2009"
_CIFAR_URL = "https://www.cs.toronto.edu/~kriz/"
_SVHN_URL = "http://ufldl.stanford.edu/housenumbers/"

_TITLES = SetInfo(
    name="thucnews",
    about="titles of Chinese news in 10 classes",
    licence="none stated; from THUCNews (Tsinghua NLP, free for research)",
    shape=(1, 1, 19),
    classes=10,
    train=180_000,
    test=20_000,
    folder="THUCNews-titles",
    train_files=("train.txt",),
    test_files=("dev.txt", "test.txt"),
    names_file="class.txt",
    texts=True,
    filters=1024,
)

_ALL = (
    SetInfo(
        name="digits",
        about="handwritten digits, 8 x 8 grey, from scikit-learn: needs no download",
        licence="CC BY 4.0 (UCI Optical Recognition of Handwritten Digits)",
        shape=(1, 8, 8),
        classes=10,
        train=1257,
        test=540,
    ),
    SetInfo(
        name="cifar10",
        about="photographs of 10 kinds of animals and vehicles, 32 x 32 colour",
        licence=_CIFAR_LICENCE,
        shape=(3, 32, 32),
        classes=10,
        train=50_000,
        test=10_000,
        folder="cifar-10-batches-bin",
        train_files=tuple(f"data_batch_{i}.bin" for i in range(1, 6)),
        test_files=("test_batch.bin",),
        names_file="batches.meta.txt",
        sources=(
            Source(
                _CIFAR_URL + "cifar-10-binary.tar.gz",
                "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
                170_052_171,
            ),
        ),
    ),
    SetInfo(
        name="cifar100",
        about="photographs of 100 kinds of things, 32 x 32 colour",
        licence=_CIFAR_LICENCE,
        shape=(3, 32, 32),
        classes=100,
        train=50_000,
        test=10_000,
        folder="cifar-100-binary",
        train_files=("train.bin",),
        test_files=("test.bin",),
        names_file="fine_label_names.txt",
        sources=(
            Source(
                _CIFAR_URL + "cifar-100-binary.tar.gz",
                "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
                168_513_733,
            ),
        ),
        width=2,
    ),
    SetInfo(
        name="svhn",
        about="house numbers from street photographs, single digits, 32 x 32 colour",
        licence="for non-commercial use only (Netzer et al., Street View House Numbers, 2011)",
        shape=(3, 32, 32),
        classes=10,
        train=73_257,
        test=26_032,
        folder="svhn",
        train_files=("train_32x32.mat",),
        test_files=("test_32x32.mat",),
        sources=(
            Source(
                _SVHN_URL + "train_32x32.mat",
                "435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8",
                182_040_794,
            ),
            Source(
                _SVHN_URL + "test_32x32.mat",
                "cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b",
                64_275_384,
            ),
        ),
    ),
    SetInfo(
        name="docstrings",
        about="what ten installed Python packages say of their functions: English texts that need no download",
        licence="those of the packages (BSD, PSF-like and HPND)",
        shape=(1, 1, 60),
        classes=10,
        train=800,
        test=400,
        texts=True,
    ),
    SetInfo(
        name="thucnews",
        about="Chinese news in 10 classes: the articles of cnews, or titles",
        licence="none stated; THUCNews (Tsinghua NLP) is free for research",
        shape=(1, 1, 80),
        classes=10,
        train=50_000,
        test=15_000,
        folder="cnews",
        train_files=("cnews.train.txt",),
        test_files=("cnews.val.txt", "cnews.test.txt"),
        texts=True,
        filters=1024,
        otherwise=_TITLES,
    ),
    SetInfo(
        name="dbpedia",
        about="first lines of Wikipedia's articles on 14 kinds of things, in English",
        licence="CC BY-SA 3.0 and GFDL (DBPedia; Zhang et al., Character-level Convolutional Networks, 2015)",
        shape=(1, 1, 40),
        classes=14,
        train=560_000,
        test=70_000,
        folder="dbpedia_csv",
        train_files=("train.csv",),
        test_files=("test.csv",),
        names_file="classes.txt",
        texts=True,
        filters=200,
    ),
)

SETS: Mapping[str, SetInfo] = {info.name: info for info in _ALL}


def set_info(name: str) -> SetInfo:
    """The entry of a data set, or an error that names those there are."""
    if name in SETS:
        return SETS[name]
    close = difflib.get_close_matches(str(name).lower(), SETS, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    raise InputError(f"there is no data set {name!r}: {hint}known are {', '.join(SETS)}")
