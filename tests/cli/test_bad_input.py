"""Files and arguments that cannot be used, through the command line.

Each is refused with exit code 2 and one message, without a traceback and before PyTorch trains
anything: it names the file, the line or byte where there is one, what was expected, and what to
type instead. Nothing is left behind.
"""

import gzip
import io
import json
import sqlite3
import threading
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import polars
import pytest

Command = Callable[..., Any]

PAIRS = "".join(f"the cat {n}\tle chat {n}\n" for n in range(40))
REVIEWS = [("good", "bad", "fine")[n % 3] for n in range(60)]
LABELLED = "".join(f"{label}\tthe soup of day {n} was {label}\n" for n, label in enumerate(REVIEWS))
LABELLED_CSV = "label,review\n" + LABELLED.replace("\t", ",")
TABLE = "age,city,bought\n" + "".join(
    f"{20 + n % 30},{('Rome', 'Oslo')[n % 2]},{('yes', 'no')[n % 3 // 2]}\n" for n in range(60)
)
SERIES = "day,sales\n" + "".join(f"2024-01-{n % 28 + 1:02d},{n * 7 % 11}\n" for n in range(60))
PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06"
JUNK = bytes(range(256)) * 8


def parquet() -> bytes:
    content = io.BytesIO()
    frame = {"en": [f"the cat {n}" for n in range(40)], "fr": [f"le chat {n}" for n in range(40)]}
    polars.DataFrame(frame).write_parquet(content)
    return content.getvalue()


def zipped(content: str, name: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return packed.getvalue()


def database(*statements: str) -> bytes:
    connection = sqlite3.connect(":memory:")
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    return connection.serialize()


class Case(NamedTuple):
    """Files, a command that reads them, and what its message must contain."""

    name: str
    files: dict[str, bytes | str]
    command: tuple[str, ...]
    words: tuple[str, ...]
    stdin: str | None = None


def train(task: str, data: str, *options: str) -> tuple[str, ...]:
    return ("train", task, "--data", data, *options)


def of_every_task(
    name: str, suffix: str, content: bytes | str, *words: str, **tasks: tuple[str, ...]
) -> Iterator[Case]:
    """Yield one bad file for each task; `tasks` has the options of those that need some."""
    options = {"table": ("--target", "bought"), **tasks}
    for task in ("translate", "classify", "table", "language", "vectors", "forecast"):
        file = f"{name}.{suffix}"
        command = train(task, file, *options.get(task, ()))
        yield Case(f"{task}-{name}", {file: content}, command, (file, *words))


def file_cases() -> Iterator[Case]:
    yield from of_every_task("empty", "csv", "", "empty", "expected")
    yield from of_every_task("header-only", "csv", "a,b,bought\n", "expected")
    yield from of_every_task("picture", "csv", PNG + JUNK, "got a PNG image", "expected CSV")
    yield from of_every_task("junk", "csv", JUNK, "got", "expected")
    cut = gzip.compress(PAIRS.encode() * 50, mtime=0)[:-40]
    yield from of_every_task("cut", "csv.gz", cut, "expected", "try")
    cut = zipped(PAIRS * 50, "pairs.csv")[:-60]
    yield from of_every_task("cut", "zip", cut, "got", "expected")
    yield from of_every_task("cut", "parquet", parquet()[:-20], "got", "expected")
    yield from of_every_task(
        "open", "json", '[{"a": "b c d", "bought": 1},\n{"a": ', "line 2", "expected"
    )
    yield from of_every_task(
        "no-table", "db", database("create table t (a)", "drop table t"), "got", "expected"
    )


def tag_cases() -> Iterator[Case]:
    files: dict[str, tuple[bytes | str, tuple[str, ...]]] = {
        "empty": ("", ("got no sentences", "expected a token and its tag")),
        "picture": (PNG + JUNK, ("got a PNG image", "expected a CoNLL file")),
        "ragged": ("a B-x\nb O\nc\n", ("line 3: got 1 columns", "expected 2")),
        "not-bio": ("a B-x\nb VERB\n", ("line 2: 'VERB'", "data.scheme=plain")),
        "one-column": ("a\nb\n", ("got column 1 of 1", "data.tag_column=N")),
        "wrong-move": ("a O\nb I-x\nc O\nd B-x\n", ("line 2: I-x after O", "expected B-TYPE")),
        "one-tag": ("".join(f"w{n} O\n\n" for n in range(40)), ("same tag (O)", "two or more")),
    }
    for name, (content, words) in files.items():
        file = f"{name}.conll"
        yield Case(f"tag-{name}", {file: content}, train("tag", file), words)


def answer_cases() -> Iterator[Case]:
    row = '{"question": "Who?", "context": "Ada sang.", "id": "q7", "answers": [%s]}\n'
    files: dict[str, tuple[bytes | str, tuple[str, ...]]] = {
        "empty": ("", ("expected SQuAD's JSON",)),
        "picture": (PNG + JUNK, ("got a PNG image", "expected SQuAD's JSON")),
        "no-squad": ('{"data": 3}', ("without a list 'data'", "expected SQuAD's JSON")),
        "not-in-context": (
            '{"data": [{"paragraphs": [{"context": "Ada sang.", "qas": [{"id": "q7", "question": '
            '"Who?", "answers": [{"text": "Ben", "answer_start": 0}]}]}]}]}',
            ("q7: got the answer 'Ben', which is not in its context",),
        ),
    }
    for name, (content, words) in files.items():
        file = f"{name}.json"
        yield Case(f"answer-{name}", {file: content}, train("answer", file), words)
    none = row % ""
    words = ("none with an answer", "expected some to train on")
    yield Case("answer-none", {"none.jsonl": none}, train("answer", "none.jsonl"), words)


def column_cases() -> Iterator[Case]:
    yield Case(
        "classify-missing-column",
        {"reviews.csv": LABELLED_CSV},
        train("classify", "reviews.csv", "--text", "reviw", "--label", "label"),
        ("reviews.csv: got no column 'reviw'", "Did you mean 'review'?", "--text"),
    )
    yield Case(
        "table-missing-target",
        {"table.csv": TABLE},
        train("table", "table.csv", "--target", "Bought"),
        ("table.csv: got no column 'Bought'", "Did you mean 'bought'?", "--target"),
    )
    yield Case(
        "translate-missing-column",
        {"pairs.csv": "en,fr\n" + PAIRS.replace("\t", ",")},
        train("translate", "pairs.csv", "--source", "de"),
        ("pairs.csv: got no column 'de'", "en, fr", "--source"),
    )
    yield Case(
        "table-wrong-separator",
        {"table.csv": TABLE},
        train("table", "table.csv", "--target", "bought", "--set", "data.delimiter=;"),
        ("table.csv", "got", "data.delimiter"),
    )
    ragged = TABLE.replace("22,Rome,no\n", "22,Rome,no,extra,cells\n", 1)
    yield Case(
        "table-too-many-cells",
        {"table.csv": ragged},
        train("table", "table.csv", "--target", "bought"),
        ("table.csv", "line 4: got 5", "expected 3", "sed 4d table.csv"),
    )
    yield Case(
        "translate-too-few-columns",
        {"pairs.tsv": PAIRS + "no tab here\n"},
        train("translate", "pairs.tsv"),
        ("pairs.tsv", "line 41: got 1 column", "expected"),
    )
    yield Case(
        "open-quote",
        {"reviews.csv": LABELLED_CSV + 'good,"never closed\n' + "fine,x\n" * 3},
        train("classify", "reviews.csv", "--set", "data.quoting=true"),
        ("reviews.csv", "line 62", "quot", "data.quoting=false"),
    )
    wrong = LABELLED_CSV.encode() + b"good,caf\xff\xfe\n"
    yield Case(
        "wrong-encoding",
        {"reviews.csv": wrong},
        train("classify", "reviews.csv", "--set", "data.encoding=utf-8"),
        ("reviews.csv, line 62: byte", "0xff", "--set data.encoding="),
    )
    yield Case(
        "unknown-encoding",
        {"reviews.csv": LABELLED_CSV},
        train("classify", "reviews.csv", "--set", "data.encoding=utf-9"),
        ("utf-9", "expected", "latin-1"),
    )
    yield Case(
        "one-column",
        {"table.csv": "price\n" + "".join(f"{n}\n" for n in range(30))},
        train("table", "table.csv", "--target", "price"),
        ("table.csv", "one column", "expected two or more", "data.delimiter"),
    )
    yield Case(
        "nested-json",
        {"posts.json": json.dumps({"meta": {"n": 1}, "data": {"a": 1, "b": {"c": 2}}})},
        train("classify", "posts.json"),
        ("posts.json", "got no column that may be the text", "try saccade train"),
    )
    both = json.dumps({"train": [{"a": "x y", "b": "1"}], "more": [{"a": "x y", "b": "1"}]})
    yield Case(
        "json-with-two-lists",
        {"posts.json": both},
        train("classify", "posts.json"),
        ("posts.json", "several lists", "posts.json#train, posts.json#more"),
    )
    yield Case(
        "two-tables",
        {"shop.db": database("create table a (x)", "create table b (x)")},
        train("classify", "shop.db"),
        ("shop.db", "2 tables", "shop.db#a, shop.db#b"),
    )
    yield Case(
        "no-such-table",
        {"shop.db": database("create table orders (x)")},
        train("classify", "shop.db#order"),
        ("shop.db", "'order'", "orders"),
    )


def label_cases() -> Iterator[Case]:
    rows = LABELLED_CSV.splitlines()
    yield Case(
        "labels-never-repeat",
        {
            "reviews.csv": "id,review\n"
            + "".join(f"x{n},text number {n} is here\n" for n in range(60))
        },
        train("classify", "reviews.csv", "--text", "review", "--label", "id"),
        ("reviews.csv", "'id'", "expected", "try"),
    )
    yield Case(
        "swapped-columns",
        {"reviews.csv": LABELLED_CSV},
        train("classify", "reviews.csv", "--text", "label", "--label", "review"),
        ("reviews.csv", "--text review --label label"),
    )
    yield Case(
        "one-class",
        {
            "reviews.csv": "label,review\n"
            + "".join(f"good,text number {n} is here\n" for n in range(60))
        },
        train("classify", "reviews.csv"),
        ("reviews.csv", "'good'", "expected"),
    )
    yield Case(
        "table-one-class",
        {"table.csv": TABLE.replace(",no\n", ",yes\n")},
        train("table", "table.csv", "--target", "bought"),
        ("table.csv", "'bought'", "expected"),
    )
    yield Case(
        "header-as-label",
        {"reviews.csv": LABELLED_CSV},
        train("classify", "reviews.csv", "--set", "data.header=false"),
        ("reviews.csv", "--set data.header=true"),
    )
    missing = [line if n % 2 else f",{line.split(',', 1)[1]}" for n, line in enumerate(rows)]
    yield Case(
        "missing-labels",
        {"reviews.csv": "\n".join([rows[0], *missing[1:]]) + "\n"},
        train("classify", "reviews.csv"),
        ("reviews.csv, line 3", "expected"),
    )
    yield Case(
        "unique-target",
        {"table.csv": "age,who\n" + "".join(f"{n % 9},p{n}\n" for n in range(60))},
        train("table", "table.csv", "--target", "who"),
        ("table.csv", "'who'", "expected"),
    )
    yield Case(
        "text-in-a-table",
        {"reviews.csv": LABELLED_CSV},
        train("table", "reviews.csv", "--target", "label"),
        ("reviews.csv", "'review'", "saccade train classify --data reviews.csv"),
    )
    yield Case(
        "pairs-for-classify",
        {"pairs.tsv": PAIRS},
        train("classify", "pairs.tsv"),
        ("pairs.tsv", "expected", "saccade train"),
    )
    yield Case(
        "labels-for-translate",
        {"reviews.csv": LABELLED_CSV},
        train("translate", "reviews.csv"),
        ("reviews.csv", "saccade train classify"),
    )
    yield Case(
        "words-for-forecast",
        {"series.csv": SERIES.replace(",3\n", ",three\n", 1)},
        train("forecast", "series.csv"),
        ("series.csv", "line", "'three'", "expected a number"),
    )
    yield Case(
        "short-series",
        {"series.csv": "".join(SERIES.splitlines(True)[:4])},
        train("forecast", "series.csv"),
        ("series.csv", "expected", "try"),
    )


def place_cases() -> Iterator[Case]:
    yield Case(
        "near-name",
        {"pairs.tsv": PAIRS},
        train("translate", "pear.tsv"),
        ("There is no file pear.tsv", "Did you mean 'pairs.tsv'?"),
    )
    yield Case(
        "far-name",
        {"pairs.tsv": PAIRS},
        train("translate", "wholly-other.csv"),
        ("There is no file wholly-other.csv", "pairs.tsv"),
    )
    yield Case(
        "empty-folder",
        {"folder/.hidden": ""},
        train("classify", "folder"),
        ("folder", "expected", ".csv"),
    )
    yield Case(
        "pattern-without-files",
        {"a.tsv": PAIRS},
        train("classify", "*.parquet"),
        ("*.parquet", "expected"),
    )
    yield Case(
        "second-file-missing",
        {"a.en": "x\n" * 30},
        train("translate", "a.en,a.de"),
        ("There is no file a.de",),
    )
    yield Case(
        "unequal-files",
        {"a.en": "x\n" * 30, "a.de": "y\n" * 29},
        train("translate", "a.en,a.de"),
        ("30 lines in a.en and 29 in a.de",),
    )
    yield Case("empty-input", {}, train("classify", "-"), ("standard input", "expected"), "")
    yield Case(
        "two-files",
        {"a.tsv": PAIRS, "b.tsv": PAIRS},
        ("train", "a.tsv", "b.tsv"),
        ("a.tsv and b.tsv", "saccade train a.tsv,b.tsv"),
    )
    yield Case(
        "task-after-file",
        {"a.tsv": PAIRS},
        ("train", "a.tsv", "translate"),
        ("a.tsv", "saccade train translate a.tsv"),
    )
    yield Case(
        "data-twice",
        {"a.tsv": PAIRS},
        ("train", "translate", "a.tsv", "--data", "b.tsv"),
        ("--data b.tsv", "a.tsv", "expected one"),
    )
    yield Case(
        "column-of-another-task",
        {"a.tsv": PAIRS},
        train("translate", "a.tsv", "--label", "x"),
        ("--label x", "--source, --target"),
    )


CASES = [
    *file_cases(),
    *tag_cases(),
    *answer_cases(),
    *column_cases(),
    *label_cases(),
    *place_cases(),
]


def write_files(folder: Path, files: dict[str, bytes | str]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def list_files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def refused(saccade: Command, folder: Path, *arguments: object) -> str:
    """Return the message of a command that is refused and leaves nothing behind."""
    before = list_files(folder)
    result = saccade(*arguments)
    assert (result.code, result.out) == (2, ""), result.err
    assert "Traceback" not in result.err and "Internal error" not in result.err
    assert result.err.startswith("saccade: ") or "\nsaccade: " in result.err
    assert list_files(folder) == before
    return " ".join(result.err.split())


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES])
def test_bad_data_is_refused(
    case: Case, saccade: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path, case.files)
    if case.stdin is not None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(case.stdin.encode())))
    message = refused(saccade, tmp_path, *case.command)
    assert [word for word in case.words if word not in message] == [], message


RUN_CASES = [  # file, its content, words of the message
    ("empty.tsv", b"", ("empty.tsv", "empty", "expected")),
    ("picture.tsv", PNG + JUNK, ("picture.tsv", "got a PNG image", "expected CSV")),
    ("cut.tsv.gz", gzip.compress(PAIRS.encode(), mtime=0)[:-40], ("cut.tsv.gz", "expected", "try")),
    ("cut.parquet", parquet()[:-20], ("cut.parquet", "got", "expected")),
    ("open.json", b'[{"source": "a"},\n{"source": ', ("open.json", "line 2", "expected")),
]


@pytest.mark.parametrize("command", ["evaluate", "finetune", "predict", "check"])
@pytest.mark.parametrize(("name", "content", "words"), RUN_CASES)
def test_bad_data_of_a_run_is_refused(
    command: str,
    name: str,
    content: bytes,
    words: tuple[str, ...],
    saccade: Command,
    tmp_path: Path,
    trained_runs: dict[str, Path],
) -> None:
    write_files(tmp_path, {name: content})
    run = trained_runs["seq2seq"]
    option = "--file" if command == "predict" else "--data"
    if command == "predict" and not content:  # no inputs, no predictions
        assert saccade(command, run, option, name)[:2] == (0, "")
        return
    message = refused(saccade, tmp_path, command, run, option, name)
    assert [word for word in words if word not in message] == [], message


def test_too_long_pairs_are_left_out_as_the_message_says(
    saccade: Command, tmp_path: Path, trained_runs: dict[str, Path]
) -> None:
    write_files(tmp_path, {"long.tsv": "abc\tcba\n" * 9 + "a" * 2000 + "\tb\n"})
    run = trained_runs["seq2seq"]
    message = refused(saccade, tmp_path, "evaluate", run, "long.tsv")
    assert "long.tsv: got 1 pair" in message and "line 10; the longest has 2,000" in message
    advice = "--set data.on_too_long=skip"
    assert advice in message
    result = saccade("evaluate", run, "long.tsv", *advice.split(), "--json")
    assert result.code == 0 and json.loads(result.out)["examples"] == 9
    assert "--set needs --data FILE" in refused(saccade, tmp_path, "evaluate", run, *advice.split())
    wrong = ("--data", "long.tsv", "--set", "model.width=3")
    assert "expected settings of the data" in refused(saccade, tmp_path, "evaluate", run, *wrong)


def test_encoding_can_be_given_where_a_file_is_read(
    saccade: Command, tmp_path: Path, trained_runs: dict[str, Path]
) -> None:
    write_files(tmp_path, {"a.tsv": "abé\téba\n".encode("cp1252") * 20})
    run = trained_runs["seq2seq"]
    wrong, right = ("--set", "data.encoding=utf-8"), ("--set", "data.encoding=cp1252")
    for command in (("evaluate", run, "a.tsv"), ("check", run, "a.tsv"), ("data", "a.tsv")):
        message = refused(saccade, tmp_path, *command, *wrong)
        assert "a.tsv, line 1: byte 2 of the file (0xe9)" in message
        assert "try --set data.encoding=cp1252" in message
    for command in (("evaluate", run, "a.tsv"), ("data", "a.tsv")):
        assert saccade(*command, *right).code == 0
    result = saccade("predict", run, "--file", "a.tsv", *right, "--json")
    assert result.code == 0 and json.loads(result.out.splitlines()[0])["source"] == "abé"


class OneFile(BaseHTTPRequestHandler):
    """A server that has pairs.tsv and nothing else."""

    def do_GET(self) -> None:
        if self.path != "/pairs.tsv":
            self.send_error(404)
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(PAIRS.encode())

    def log_message(self, format: str, *arguments: Any) -> None:
        """Print nothing."""


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield the address of a server on this machine; downloads are kept in a new folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with HTTPServer(("127.0.0.1", 0), OneFile) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("task", ["translate", "classify", "table", "language", "vectors"])
def test_address_without_a_file_is_refused(
    task: str, saccade: Command, tmp_path: Path, address: str
) -> None:
    result = saccade("train", task, "--data", f"{address}/gone.csv")
    assert (result.code, result.out) == (2, "") and "Traceback" not in result.err
    message = " ".join(result.err.split())
    assert f"{address}/gone.csv" in message and "404" in message and "give its path" in message
    assert not (tmp_path / "runs").exists()


def test_pairs_are_read_from_an_address(saccade: Command, address: str) -> None:
    small = ("--set=train.steps=1", "--set=model.width=4", "--model=seq2seq", "--out=run")
    result = saccade("train", f"{address}/pairs.tsv", *small)
    assert result.code == 0, result.err
    assert "40 pairs" in result.err
