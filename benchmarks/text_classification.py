"""Text classification with default settings against scikit-learn's TF-IDF + logistic regression.

    SACCADE_DATA=… python benchmarks/text_classification.py [--sets ag-news,books] [--json out.json]

Each data set is written as a plain CSV file with a header, and another one for the test. Then

    saccade train TRAIN.csv --set data.test=TEST.csv --out RUN
    saccade predict RUN --file TEST.csv --out ANSWERS

without any other option. Training texts that also occur in the test file are left out (`saccade
train` does so by itself). Of ChnSentiCorp these are texts of 331 of 1,200 test rows, so that it is
measured as published too: all training texts, with `data.test_share=0` instead of the test file.

The peer is fitted to the same texts: TfidfVectorizer with sublinear counts of n-grams of 1 and 2
words (of 1 to 3 characters for Chinese), then LogisticRegression with C = 1, its default, and 10;
for several labels one for each. scikit-learn scores both. `books` (which of 17 books a paragraph
is from) and `languages` (single sentences in four languages) are made from other corpora; no
setting was tuned on them. Seconds are those of the whole training command; "processor" is its user
and system time divided by the number of cores: what it would take on an idle machine if both were
always used.
"""

import argparse
import csv
import json
import lzma
import os
import re
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from gzip import open as open_gzip
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from timing import print_machine, table

MIN_PARAGRAPH_CHARS = 200
SENTENCES_PER_LANGUAGE = 3000
CHARACTERS = {"analyzer": "char", "ngram_range": (1, 3)}
WORDS = {"ngram_range": (1, 2)}
PEER_COSTS = (1.0, 10.0)  # C of the peer


class Row(NamedTuple):
    """A text and its label, or several with commas between."""

    label: str
    text: str


class Corpus(NamedTuple):
    """Texts to train on and to test."""

    train: list[Row]
    test: list[Row]
    vectorizer: dict[str, Any] = WORDS  # settings of the peer
    multi_label: bool = False
    is_published: bool = False  # training texts that occur in the test file are kept

    @property
    def fitted(self) -> list[Row]:
        """The texts to fit."""
        held_out = set() if self.is_published else {row.text for row in self.test}
        return [row for row in self.train if row.text not in held_out]


def lines(path: Path) -> Iterator[str]:
    """Yield the lines of a compressed file."""
    opened = open_gzip if path.suffix == ".gz" else lzma.open
    with opened(path, "rt", encoding="utf-8", newline="\n") as file:
        for line in file:
            yield line.rstrip("\r\n")


def pairs(path: Path, header: bool = False) -> list[Row]:
    """Return the rows of a file with the label in the first column and the text in the last."""
    cells = [line.split("\t") for line in islice(lines(path), int(header), None)]
    return [Row(row[0], row[-1]) for row in cells if row[-1].strip()]


def ag_news(folder: Path) -> Corpus:
    """News in four topics; titles are left out, the training file has none."""
    test = [Row(row[0], row[2]) for row in csv.reader(lines(folder / "test.csv.xz"))]
    return Corpus(pairs(folder / "train_subset.tsv.xz"), test)


def with_header(folder: Path) -> Corpus:
    """Files with a header."""
    return Corpus(*(pairs(folder / f"{name}.tsv.xz", header=True) for name in ("train", "test")))


def without_header(folder: Path) -> Corpus:
    """Files without a header."""
    return Corpus(*(pairs(folder / f"{name}.tsv.xz") for name in ("train", "test")))


def books(folder: Path) -> Corpus:
    """Paragraphs of books, every fourth for the test."""
    found = []
    with tarfile.open(folder / "gutenberg.tar.xz", "r:xz") as archive:
        members = [member for member in archive.getmembers() if member.name.endswith(".txt")]
        for member in sorted(members, key=lambda member: member.name):
            file = archive.extractfile(member)
            assert file is not None
            for paragraph in re.split(r"\n\s*\n", file.read().decode("latin-1")):
                text = " ".join(paragraph.split())
                if len(text) >= MIN_PARAGRAPH_CHARS:
                    found.append(Row(Path(member.name).stem, text))
    return divide(found)


def languages(folder: Path) -> Corpus:
    """Sentences in English, German, French and Chinese, every fourth for the test."""
    root, found = folder.parent, []
    for line in list(lines(root / "fra-eng" / "fra.txt.xz"))[::50]:
        english, french = line.split("\t")[:2]
        found += [Row("en", english), Row("fr", french)]
    for language in ("en", "de"):
        path = root / "multi30k" / f"train.{language}.gz"
        found += [Row(language, line) for line in islice(lines(path), SENTENCES_PER_LANGUAGE)]
    articles = json.loads(lzma.open(root / "xquad" / "xquad.zh.json.xz").read())["data"]
    for article in articles:
        for paragraph in article["paragraphs"]:
            sentences = re.split(r"(?<=。)", paragraph["context"])
            found += [Row("zh", sentence) for sentence in sentences if sentence.strip()]
    return divide(found)


def divide(rows: list[Row]) -> Corpus:
    """Return every fourth row as the test."""
    rows = list({row.text: row for row in rows}.values())
    return Corpus([row for n, row in enumerate(rows) if n % 4], rows[::4])


CORPORA: dict[str, Callable[[Path], Corpus]] = {
    "ag-news": ag_news,
    "chnsenticorp": lambda folder: with_header(folder)._replace(vectorizer=CHARACTERS),
    "chnsenticorp-published": lambda folder: with_header(folder.parent / "chnsenticorp")._replace(
        vectorizer=CHARACTERS, is_published=True
    ),
    "imdb": without_header,
    "sst-2": with_header,
    "reuters-21578": lambda folder: without_header(folder)._replace(multi_label=True),
    "books": lambda folder: books(folder.parent / "gutenberg"),
    "languages": languages,
}


def write_csv(path: Path, rows: list[Row]) -> None:
    """Write rows with a header."""
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("label", "text"), *rows])


def run_saccade(*arguments: str) -> tuple[float, float]:
    """Run a command; return its seconds, and its processor time divided by the cores."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "saccade", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    messages = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(messages)
    cores = len(os.sched_getaffinity(0))
    return time.perf_counter() - start, (usage.ru_utime + usage.ru_stime) / cores


def saccade_labels(folder: Path, corpus: Corpus) -> tuple[list[str], float, float, dict[str, Any]]:
    """Return the predicted labels, seconds and processor time of training, and the settings."""
    train, test, run, answers = (folder / name for name in ("train.csv", "test.csv", "run", "out"))
    write_csv(train, corpus.train)
    write_csv(test, corpus.test)
    setting = "data.test_share=0" if corpus.is_published else f"data.test={test}"
    times = run_saccade("train", str(train), "--set", setting, "--out", str(run))
    run_saccade("predict", str(run), "--file", str(test), "--out", str(answers))
    from saccade.runs.run import load_run

    recipe = load_run(run).recipe.model_dump()["model"]
    return answers.read_text(encoding="utf-8").splitlines(), *times, recipe


def peer_labels(corpus: Corpus, cost: float) -> tuple[Any, float]:
    """Return the labels that scikit-learn predicts, and the processor time."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier

    start = time.process_time()
    vectorizer = TfidfVectorizer(sublinear_tf=True, **corpus.vectorizer)
    features = vectorizer.fit_transform([row.text for row in corpus.fitted])
    model: Any = LogisticRegression(C=cost, max_iter=1000)
    targets: Any = [row.label for row in corpus.fitted]
    if corpus.multi_label:
        model, targets = OneVsRestClassifier(model), indicators(targets, corpus)
    model.fit(features, targets)
    found = model.predict(vectorizer.transform([row.text for row in corpus.test]))
    return found, time.process_time() - start


def indicators(labels: list[str], corpus: Corpus) -> Any:
    """Return a table of texts and labels."""
    from sklearn.preprocessing import MultiLabelBinarizer

    known = sorted({name for row in corpus.train for name in row.label.split(",")})
    return MultiLabelBinarizer(classes=known).fit_transform([row.split(",") for row in labels])


def scores(labels: Any, corpus: Corpus) -> tuple[float, float]:
    """Return accuracy (of several labels micro-F1) and macro-F1, by scikit-learn."""
    from sklearn.metrics import accuracy_score, f1_score

    truths: Any = [row.label for row in corpus.test]
    if corpus.multi_label:
        truths = indicators(truths, corpus)
        first = f1_score(truths, labels, average="micro")
    else:
        first = accuracy_score(truths, labels)
    return float(first), float(f1_score(truths, labels, average="macro", zero_division=0))


def measure(name: str, root: Path, has_peer: bool) -> dict[str, Any]:
    """Return one row of the results."""
    corpus = CORPORA[name](root / name)
    with TemporaryDirectory() as folder:
        labels, seconds, processor, settings = saccade_labels(Path(folder), corpus)
    ours = scores(indicators(labels, corpus) if corpus.multi_label else labels, corpus)
    line = {
        "set": name,
        "texts": f"{len(corpus.train):,} / {len(corpus.test):,}",
        "figure": "micro-F1" if corpus.multi_label else "accuracy",
        "saccade": f"{ours[0]:.4f}",
        "macro-F1": f"{ours[1]:.4f}",
        "seconds": f"{seconds:.0f}",
        "processor": f"{processor:.0f}",
        "n-grams": f"{settings['word_ngrams']} words, {settings['char_ngrams']} characters",
        "penalty": f"{settings['penalty']:.4g}",
    }
    if has_peer:
        for cost in PEER_COSTS:
            found, peer_seconds = peer_labels(corpus, cost)
            theirs = scores(found, corpus)
            line[f"C={cost:g}"] = f"{theirs[0]:.4f}, {theirs[1]:.4f}, {peer_seconds:.0f} s"
    return line


def main() -> None:
    """Train, compare and print the results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sets", help="names with commas; default: all")
    parser.add_argument("--no-peer", action="store_true", help="without scikit-learn")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    print_machine()
    root = Path(os.environ["SACCADE_DATA"])
    found = []
    for name in options.sets.split(",") if options.sets else CORPORA:
        found.append(measure(name, root, not options.no_peer))
        print(json.dumps(found[-1]), flush=True)
    print()
    table(list(found[0]), [list(row.values()) for row in found])
    if options.json:
        options.json.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
