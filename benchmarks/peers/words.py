"""The corpus of the word-vector benchmarks: lower-cased, tokenized, one paragraph per line.

IMDb, WikiText-2, Reuters, AG News, Gutenberg and PTB from SACCADE_DATA, about 21 million words.
"""

import csv
import lzma
import os
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

WORDS = re.compile(r"\w+|[^\w\s]")


def paragraphs(root: Path) -> Iterator[str]:
    """Yield the raw paragraphs of all data sets."""
    for part in ("train", "test"):
        for line in _lines(root / f"imdb/{part}.tsv.xz"):
            yield line.split("\t", 2)[2].replace("<br />", " ")
    for line in _lines(root / "wikitext-2/wiki.train.tokens.xz"):
        line = line.replace("<unk>", " ")
        for sign in "-,.":
            line = line.replace(f" @{sign}@ ", sign)
        yield line
    for part in ("train", "test"):
        for line in _lines(root / f"reuters-21578/{part}.tsv.xz"):
            yield line.split("\t", 1)[1]
    for line in _lines(root / "ag-news/train_subset.tsv.xz"):
        yield line.split("\t", 1)[1]
    with tarfile.open(root / "gutenberg/gutenberg.tar.xz", "r:xz") as books:
        for member in books:
            if book := books.extractfile(member):
                yield from re.split(r"\n\s*\n", book.read().decode("latin-1"))
    for line in _lines(root / "ptb/ptb.train.txt.xz"):
        yield line.replace("<unk>", " ")


def _lines(path: Path) -> Iterator[str]:
    with lzma.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield line.rstrip("\n")


def corpus(path: Path) -> int:
    """Write the file if it does not exist, and return its number of words."""
    if not path.exists():
        root = Path(os.environ["SACCADE_DATA"])
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        with part.open("w", encoding="utf-8") as file:
            for text in paragraphs(root):
                if words := WORDS.findall(text.lower()):
                    file.write(" ".join(words) + "\n")
        part.replace(path)
    return sum(len(line.split()) for line in path.open(encoding="utf-8"))


def labelled(folder: Path, times: int) -> Path:
    """Write AG News in fastText's format: training rows repeated, and the official test set."""
    root = Path(os.environ["SACCADE_DATA"]) / "ag-news"
    train, test = folder / f"news-{times}.txt", folder / "news-test.txt"
    if not train.exists():
        rows = [
            _labelled_line(*line.split("\t", 1)) for line in _lines(root / "train_subset.tsv.xz")
        ]
        train.write_text("".join(rows * times), encoding="utf-8")
    if not test.exists():
        with lzma.open(root / "test.csv.xz", "rt", encoding="utf-8", newline="") as file:
            # the training rows have no titles, so neither has the test
            rows = [_labelled_line(label, text) for label, _, text in csv.reader(file)]
        test.write_text("".join(rows), encoding="utf-8")
    return train


def _labelled_line(label: str, text: str) -> str:
    return f"__label__{label} {' '.join(WORDS.findall(text.lower()))}\n"
