"""First commands of a new user: usual files, usual mistakes, and the words of the output.

Bad files are in `tests/cli/test_bad_input.py`, files of every format in
`tests/cli/test_any_file.py`, arguments that are refused before PyTorch is loaded in
`tests/cli/test_startup.py`.
"""

import io
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import saccade
from saccade.interop.registry import EXPORTS, IMPORTS
from saccade.runs.run import Run, load_run
from saccade.workflows.doctor import compare_tables
from tests.cli.conftest import CommandResult

ROOT = Path(__file__).parent.parent.parent
TASTES = ("good", "bad", "fine")
REVIEWS = [(TASTES[n % 3], f"the {('soup', 'bread', 'tea')[n % 3]} of day {n}") for n in range(120)]
ROWS = [
    (20 + n * 7 % 40, ("Rome", "Oslo")[n % 2], f"2024-{n % 12 + 1:02d}-{n % 28 + 1:02d}", n % 2)
    for n in range(80)
]


@pytest.fixture
def command(saccade: Callable[..., CommandResult]) -> Callable[..., CommandResult]:
    """Return the command line; the name `saccade` is the package here."""
    return saccade


@pytest.fixture(scope="module")
def reverser(trained_runs: dict[str, Path]) -> Run:
    return load_run(trained_runs["transformer"])


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a classifier of reviews, trained from a file with a header."""
    folder = tmp_path_factory.mktemp("reviews")
    (folder / "reviews.csv").write_text(csv_of(REVIEWS, "label,review"))
    return train(folder, "classify", model="ngrams")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a model of a table with a category and a date."""
    folder = tmp_path_factory.mktemp("table")
    (folder / "table.csv").write_text(csv_of(ROWS, "age,city,day,bought"))
    settings = {"train.steps": 2, "train.evaluate_every": 2, "train.threads": 1}
    return train(folder, "table", target="bought", set=settings)


def train(folder: Path, task: str, **options: Any) -> Run:
    [data] = folder.glob("*.csv")
    return saccade.train(task, data=data, out=folder / "run", progress=False, **options)


def csv_of(rows: list[tuple[Any, ...]], header: str) -> str:
    return "\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n"


# --- predictions are made from the input, never from the answer ----------------------------------

WORDS = ["abc", "fed", "add", "face"]
WRONG = ["xx", "yy", "zz", "ww"]  # answers of another kind than those of the training
FILES_WITH_ANSWERS = {
    "pairs.tsv": "".join(f"{a}\t{b}\n" for a, b in zip(WORDS, WRONG, strict=True)),
    "pairs.txt": "".join(f"{a}\t{b}\n" for a, b in zip(WORDS, WRONG, strict=True)),
    "pairs.csv": csv_of(list(zip(WORDS, WRONG, strict=True)), "source,target"),
    "turned.csv": csv_of(list(zip(WRONG, WORDS, strict=True)), "target,source"),
    "pairs.jsonl": "".join(
        json.dumps({"source": a, "target": b}) + "\n" for a, b in zip(WORDS, WRONG, strict=True)
    ),
}


@pytest.mark.parametrize("name", FILES_WITH_ANSWERS)
def test_answers_in_a_file_do_not_reach_the_model(
    name: str, command: Callable[..., CommandResult], reverser: Run
) -> None:
    Path(name).write_text(FILES_WITH_ANSWERS[name])
    result = command("predict", reverser.folder, "--file", name, "--json")
    found = [json.loads(line) for line in result.out.splitlines()]
    assert [one["source"] for one in found] == WORDS
    assert [one["text"] for one in found] == [one.text for one in reverser.predict(WORDS)]
    assert "is not used" in result.message


def test_answer_after_a_tab_does_not_reach_the_model(
    command: Callable[..., CommandResult], reverser: Run
) -> None:
    result = command("predict", reverser.folder, "abc\txx", "--json")
    assert json.loads(result.out)["source"] == "abc"
    assert "read the text before the tab" in result.message


@pytest.mark.parametrize("label", TASTES)
def test_labels_in_a_file_do_not_reach_the_classifier(
    label: str, command: Callable[..., CommandResult], classifier: Run
) -> None:
    texts = [text for _, text in REVIEWS[:9]]
    Path("labelled.tsv").write_text("".join(f"{label}\t{text}\n" for text in texts))
    result = command("predict", classifier.folder, "--file", "labelled.tsv", "--json")
    found = [json.loads(line) for line in result.out.splitlines()]
    assert [one["source"] for one in found] == texts
    expected = [one.text for one in classifier.predict(texts)]
    assert [one["text"] for one in found] == expected and len({*expected}) == 3


def test_name_of_a_file_as_a_text_is_noted(
    command: Callable[..., CommandResult], reverser: Run
) -> None:
    Path("words.txt").write_text("abc\n")
    result = command("predict", reverser.folder, "words.txt")
    assert result.code == 0 and "use --file words.txt" in result.message


def test_tokens_that_training_had_not_are_noted(
    command: Callable[..., CommandResult], reverser: Run
) -> None:
    assert "vocabulary" not in command("predict", reverser.folder, "abc").message
    result = command("predict", reverser.folder, "a\N{ZERO WIDTH SPACE}b", "abz!")
    assert result.code == 0
    expected = "input 1: 1 of 3 tokens is not in the vocabulary; the text has invisible characters"
    assert f"{expected} (U+200B)." in result.message
    assert "input 2: 2 of 4 tokens are not in the vocabulary." in result.message


@pytest.mark.parametrize("arguments", [("-",), (), ("--file", "-")])
def test_standard_input_is_read_in_every_form(
    arguments: tuple[str, ...],
    command: Callable[..., CommandResult],
    reverser: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"abc\nfed\n")))
    result = command("predict", reverser.folder, *arguments)
    assert result.out.splitlines() == [found.text for found in reverser.predict(["abc", "fed"])]


# --- nothing is read as a class that is none ------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("text-first.tsv", "".join(f"{text}\t{label}\n" for label, text in REVIEWS)),
        ("header.tsv", "label\ttext\n" + "".join(f"{a}\t{b}\n" for a, b in REVIEWS)),
        ("named.csv", csv_of([(n, *row) for n, row in enumerate(REVIEWS)], "id,stars,review")),
    ],
)
def test_classes_are_those_of_the_labels(
    name: str, content: str, tmp_path: Path, no_report: None
) -> None:
    (tmp_path / name).write_text(content)
    data = str(tmp_path / name)
    run = saccade.train("classify", data=data, model="ngrams", out=tmp_path / "run", progress=False)
    assert sorted(run.preprocessor.labels) == sorted(TASTES)


def test_labels_that_the_run_does_not_know_are_refused(
    command: Callable[..., CommandResult], classifier: Run
) -> None:
    Path("other.tsv").write_text("".join(f"x{n % 2}\tthe soup {n}\n" for n in range(20)))
    for more in ((), ("--json",)):
        result = command("evaluate", classifier.folder, "other.tsv", *more)
        assert (result.code, result.out) == (2, "")
        assert "got the labels 'x0', 'x1'; expected those of the classifier" in result.message


@pytest.mark.parametrize("name", ["one.csv", "one.tsv"])
def test_data_of_a_single_class_can_be_evaluated(
    name: str, command: Callable[..., CommandResult], classifier: Run
) -> None:
    header, tab = ("label,review\n", ",") if name == "one.csv" else ("", "\t")
    rows = [tab.join(row) for row in REVIEWS if row[0] == "good"]
    Path(name).write_text(header + "\n".join(rows) + "\n")
    result = command("evaluate", classifier.folder, name, "--json")
    assert result.code == 0, result.err
    assert json.loads(result.out)["examples"] == len(rows) == 40


def test_dates_of_a_table_are_inputs_and_unseen_categories_are_noted(
    command: Callable[..., CommandResult], table: Run
) -> None:
    assert "day" in table.preprocessor.names
    rows = ({"age": 30, "city": "Rome", "day": f"2024-{month}-01"} for month in ("01", "12"))
    first, second = (table.predict(row).probabilities for row in rows)
    assert first != second
    result = command("predict", table.folder, "30,Berlin,2024-01-01")
    assert result.code == 0 and "'Berlin' is an unseen category" in result.message


# --- what was understood is printed ---------------------------------------------------------------


def test_training_prints_file_columns_and_sizes(command: Callable[..., CommandResult]) -> None:
    Path("pairs.csv").write_text(csv_of([(f"a{n}", f"b{n}") for n in range(60)], "en,fr"))
    small = ("--model=seq2seq", "--set=train.steps=1", "--set=model.width=4", "--out=run")
    result = command("train", "translate", "pairs.csv", *small)
    assert result.code == 0, result.err
    assert "pairs.csv: CSV, UTF-8, 2 columns ('en', 'fr')." in result.message
    assert "data.source en " in result.message and "data.target fr " in result.message
    assert re.search(r"pairs.csv: 60 pairs, \d+ of them for training.", result.message)
    result = command("finetune", "run", "pairs.csv", "--set=train.steps=1", "--out=more")
    assert result.code == 0, result.err
    assert result.message.count("data.source en as in the run") == 1
    result = command("evaluate", "run", "pairs.csv")
    assert result.code == 0 and "data.target fr as in the run" in result.message


# --- advice can be followed -----------------------------------------------------------------------

MISTAKES = [
    (("predict", "RUN", "abc", "--seed", "3"), "add sample=True (--sample)"),
    (("predict", "RUN", "abc", "--search", "tokens=3"), "the search: there is no setting 'tokens'"),
    (("train", "dates", "--set", "model.width=-3"), "model.width is -3: expected"),
    (("train", "dates", "--set", "train.device=gpu", "--out", "x"), "expected auto, cpu, cuda or"),
    (("train", "dates", "--init-from", "TABLE", "--out", "x"), "weights of the task table"),
    (("train", "translate", "nofile.tsv"), "There is no file nofile.tsv. Check the path"),
    (("finetune", "RUN"), "finetune needs data: saccade finetune"),
    (("evaluate", "RUN", "te.tsv", "--data", "te.tsv"), "expected one of them"),
    (("look", "RUN", "abc", "--save", "far/away/map.png"), "there is no folder far; create it"),
]


@pytest.mark.parametrize(("arguments", "expected"), MISTAKES)
def test_mistakes_are_answered_in_words_of_the_command_line(
    arguments: tuple[str, ...],
    expected: str,
    command: Callable[..., CommandResult],
    reverser: Run,
    table: Run,
) -> None:
    Path("te.tsv").write_text("a\tb\n")  # near to no other name
    folders = {"RUN": reverser.folder, "TABLE": table.folder}
    result = command(*(folders.get(argument, argument) for argument in arguments))
    assert (result.code, result.out) == (2, "") and expected in result.message
    assert not re.search(r"Input should|Config\b|privateuseone|Traceback", result.message)
    assert sorted(path.name for path in Path().iterdir()) == ["te.tsv"]


@pytest.mark.parametrize(("name", "formats"), [("export", EXPORTS), ("import", IMPORTS)])
def test_help_lists_every_format(
    name: str, formats: Any, command: Callable[..., CommandResult]
) -> None:
    shown = " ".join(command(name, "--help").out.split())
    assert f"Format: {', '.join(sorted(formats))}." in shown


def test_help_is_a_command_and_explains_line_breaks(command: Callable[..., CommandResult]) -> None:
    assert command("help").out == command("--help").out
    shown = command("help", "predict").out
    assert shown == command("predict", "--help").out
    assert r"line breaks in it are printed as \n. --stream" in " ".join(shown.split())


def test_counts_in_json_are_integers(command: Callable[..., CommandResult], reverser: Run) -> None:
    run = shutil.copytree(reverser.folder, "run")
    found = json.loads(command("evaluate", run, "--json").out)
    assert isinstance(found["examples"], int) and found["examples"] > 0


def test_readme_installs_with_one_command() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    [line] = re.findall(r"^pip install .*$", text, re.M)
    assert line.split()[-1] == "." and (ROOT / "pyproject.toml").exists()
    constraints = line.split()[line.split().index("-c") + 1]
    assert (ROOT / constraints).exists()


# --- long work reports what it does ---------------------------------------------------------------


def test_doctor_reports_the_parts_of_its_work(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    for name in ("old", "new"):
        rows = random.normal(size=(80, 2)).round(3).tolist()
        (tmp_path / f"{name}.csv").write_text(csv_of(list(map(tuple, rows)), "a,b"))
    parts: list[str] = []
    compare_tables(
        tmp_path / "old.csv",
        tmp_path / "new.csv",
        on_progress=lambda what, done, total: parts.append(what),
    )
    assert parts[:2] == ["reading the tables", "testing for shift"]
