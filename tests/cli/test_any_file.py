"""Real-looking files of every format, for every task, through the command line.

Files of one group have the same content, so the training data that is read from each of them has
the same fingerprint as that of the first one, whatever the format, the order of the columns, the
header and the encoding. Then each file is given to `predict` or `evaluate`.
"""

import csv
import gzip
import io
import json
import lzma
import sqlite3
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import openpyxl
import polars
import pytest

from saccade.io.run_folder import read_run_settings

Command = Callable[..., Any]
Rows = Sequence[Sequence[Any]]

# --- contents -------------------------------------------------------------------------------------

ANIMALS = ("cat", "dog", "owl", "bee", "fox", "hen")
ANIMAUX = ("chat", "chien", "hibou", "abeille", "renard", "poule")
PAIRS = [
    (
        f'The {ANIMALS[n % 6]} said "no", {n} times.',
        f"À l'été, le {ANIMAUX[n % 6]} a dit « non » {n} fois.",
    )
    for n in range(48)
]
REVIEWS = [
    (
        ("negative", "positive", "mixed")[n % 3],
        f"The {('soup', 'bread', 'tea')[n % 3]} was {('cold', 'good', 'fine')[n % 3]}, but "
        f"guest {n} naïvely left a tip.",
    )
    for n in range(90)
]
CHINESE = [
    (
        n % 2,
        f"{('很快，好吃，味道足，量大', '没有送水没有送水')[n % 2]}第{n}次点了{'面饭粥菜'[n % 4]}",
    )
    for n in range(80)
]
ENCYCLOPEDIA = [
    (
        n % 14 + 1,
        f"Entry {n} is a {('river', 'book', 'film', 'plant', 'village')[n % 5]} of the region. It "
        f"was described in {1800 + n % 200}, and has {n} branches.",
    )
    for n in range(280)
]
CENSUS_NAMES = ("age", "workclass", "hours", "born", "income")
CENSUS = [
    (
        20 + n * 7 % 50,
        "?" if n % 11 == 0 else ("State-gov", "Private", "Self-emp")[n % 3],
        f"{30 + n * 3 % 20}.5",
        f"{1950 + n % 40}-{n % 12 + 1:02d}-{n % 28 + 1:02d}",
        ">50K" if n * 7 % 50 > 25 else "<=50K",
    )
    for n in range(120)
]
BOOK = [
    f"Chapitre {n} : où l'été s'achève près du château, à {n} lieues de la forêt."
    for n in range(60)
]
SALES = [
    (f"2024-{n // 28 + 1:02d}-{n % 28 + 1:02d}", f"{100 + n * 37 % 23}.25") for n in range(200)
]
POINTS = [(f"{n * 7 % 40}.5", f"{n * 3 % 17}.25") for n in range(40)]

# --- writers --------------------------------------------------------------------------------------


def delimited(
    rows: Rows,
    names: Sequence[str] | None = None,
    delimiter: str = ",",
    encoding: str = "utf-8",
    ends: str = "\n",
    quoting: Any = csv.QUOTE_MINIMAL,
) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=delimiter, lineterminator=ends, quoting=quoting)
    writer.writerows([*([names] if names else []), *rows])
    return text.getvalue().encode(encoding)


def tabbed(rows: Rows, names: Sequence[str] | None = None, encoding: str = "utf-8") -> bytes:
    lines = [*([names] if names else []), *rows]
    return "".join("\t".join(map(str, row)) + "\n" for row in lines).encode(encoding)


def json_rows(rows: Rows, names: Sequence[str]) -> list[dict[str, Any]]:
    return [dict(zip(names, row, strict=True)) for row in rows]


def json_lines(rows: list[Any]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def json_list(rows: list[Any]) -> bytes:
    return json.dumps(rows, indent=1).encode()


def parquet(rows: Rows, names: Sequence[str]) -> bytes:
    content = io.BytesIO()
    polars.DataFrame(json_rows(rows, names)).write_parquet(content)
    return content.getvalue()


def feather(rows: Rows, names: Sequence[str]) -> bytes:
    content = io.BytesIO()
    polars.DataFrame(json_rows(rows, names)).write_ipc(content)
    return content.getvalue()


def excel(rows: Rows, names: Sequence[str]) -> bytes:
    book = openpyxl.Workbook()
    assert book.active is not None
    for row in (names, *rows):
        book.active.append(list(row))
    content = io.BytesIO()
    book.save(content)
    return content.getvalue()


def sqlite(rows: Rows, names: Sequence[str]) -> bytes:
    connection = sqlite3.connect(":memory:")
    connection.execute(f"create table t ({', '.join(names)})")
    marks = ", ".join("?" * len(names))
    connection.executemany(f"insert into t values ({marks})", rows)
    connection.commit()
    return connection.serialize()


def zipped(content: bytes, name: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(name, content)
    return packed.getvalue()


def columns(rows: Rows, *order: int) -> list[tuple[Any, ...]]:
    return [tuple(row[at] for at in order) for row in rows]


def numbered(rows: Rows) -> list[tuple[Any, ...]]:
    return [(f"{n:04d}-x", *row) for n, row in enumerate(rows)]


# --- files ----------------------------------------------------------------------------------------


class Case(NamedTuple):
    """A file, the options it is trained with, and the columns that are found by role."""

    name: str
    content: bytes | dict[str, bytes]  # a folder of files
    roles: dict[str, str] = {}
    options: tuple[str, ...] = ()


def pair_files() -> Iterator[Case]:
    named = {"source": "en", "target": "fr"}
    yield Case("plain.tsv", tabbed(PAIRS))
    yield Case("chosen.tsv", tabbed(PAIRS))
    yield Case("crlf.txt", tabbed(PAIRS).replace(b"\n", b"\r\n"))
    yield Case(
        "header.tsv", tabbed(PAIRS, ("source", "target")), {"source": "source", "target": "target"}
    )
    yield Case("latin1.tsv", tabbed(PAIRS, encoding="latin-1"))
    yield Case("utf16.tsv", tabbed(PAIRS, encoding="utf-16"))
    yield Case("packed.tsv.gz", gzip.compress(tabbed(PAIRS), mtime=0))
    yield Case("parallel.csv", delimited(PAIRS, ("en", "fr")), named)
    yield Case("cp1252.csv", delimited(PAIRS, ("en", "fr"), encoding="cp1252"), named)
    yield Case("bom.csv", delimited(PAIRS, ("en", "fr"), encoding="utf-8-sig", ends="\r\n"), named)
    yield Case("semicolon.csv", delimited(PAIRS, ("en", "fr"), ";", quoting=csv.QUOTE_ALL), named)
    yield Case(
        "swapped.csv",
        delimited(columns(PAIRS, 1, 0), ("target", "source")),
        {"source": "source", "target": "target"},
    )
    yield Case(
        "other-names.csv",
        delimited(numbered(PAIRS), ("nr", "a", "b")),
        {"source": "a", "target": "b"},
        ("--source", "a", "--target", "b"),
    )
    tatoeba = [
        (*pair, f"CC-BY 2.0 (France) Attribution: tatoeba.org #{n}") for n, pair in enumerate(PAIRS)
    ]
    yield Case("tatoeba.txt", tabbed(tatoeba), {"source": "column 1", "target": "column 2"})
    yield Case(
        "hugging-face.jsonl",
        json_lines(
            [{"id": n, "translation": {"en": a, "fr": b}} for n, (a, b) in enumerate(PAIRS)]
        ),
        {"source": "translation.en", "target": "translation.fr"},
    )
    yield Case("keys.jsonl", json_lines(json_rows(PAIRS, ("en", "fr"))), named)
    yield Case(
        "list.json", json_list(json_rows(PAIRS, ("src", "tgt"))), {"source": "src", "target": "tgt"}
    )
    yield Case("pairs.parquet", parquet(PAIRS, ("en", "fr")), named)
    yield Case("pairs.xlsx", excel(PAIRS, ("en", "fr")), named)
    yield Case("pairs.zip", zipped(delimited(PAIRS, ("en", "fr")), "data/pairs.csv"), named)
    halves = {f"{n}.csv": delimited(PAIRS[n * 24 : n * 24 + 24], ("en", "fr")) for n in range(2)}
    yield Case("folder", halves, named)


def review_files() -> Iterator[Case]:
    named = {"text": "review", "label": "mood"}
    turned = columns(REVIEWS, 1, 0)
    yield Case("plain.tsv", tabbed(REVIEWS))
    yield Case("text-first.tsv", tabbed(turned), {"text": "column 1", "label": "column 2"})
    prefixed = "".join(f"__label__{label} {text}\n" for label, text in REVIEWS)
    yield Case("fasttext.txt", prefixed.encode())
    yield Case("header.tsv", tabbed(REVIEWS, ("label", "text")), {"text": "text", "label": "label"})
    yield Case("chosen.csv", delimited(REVIEWS, ("mood", "review")), named)
    yield Case("no-header.csv", delimited(REVIEWS), {"text": "column 2", "label": "column 1"})
    yield Case("latin1.csv", delimited(turned, ("review", "mood"), encoding="latin-1"), named)
    yield Case("utf16.csv", delimited(turned, ("review", "mood"), encoding="utf-16"), named)
    yield Case(
        "ids.csv",
        delimited(numbered(turned), ("review_id", "review", "mood")),
        named,
        ("--text", "review", "--label", "mood"),
    )
    yield Case("reviews.jsonl", json_lines(json_rows(turned, ("review", "mood"))), named)
    yield Case("reviews.json", json_list(json_rows(turned, ("review", "mood"))), named)
    yield Case("reviews.parquet", parquet(turned, ("review", "mood")), named)
    yield Case("reviews.feather", feather(turned, ("review", "mood")), named)
    yield Case("reviews.xlsx", excel(turned, ("review", "mood")), named)
    yield Case("reviews.db", sqlite(turned, ("review", "mood")), named)


def chinese_files() -> Iterator[Case]:
    named = {"text": "review", "label": "label"}
    for name, encoding in (("utf8", "utf-8"), ("gb18030", "gb18030"), ("utf16", "utf-16")):
        content = delimited(CHINESE, ("label", "review"), encoding=encoding)
        yield Case(f"{name}.csv", content, named)
    yield Case("waimai.xlsx", excel(CHINESE, ("label", "review")), named)


def encyclopedia_files() -> Iterator[Case]:
    named = {"text": "text", "label": "label"}
    yield Case("dbpedia.csv", delimited(ENCYCLOPEDIA, ("label", "text")), named)
    yield Case("dbpedia.csv.xz", lzma.compress(delimited(ENCYCLOPEDIA, ("label", "text"))), named)


def census_files() -> Iterator[Case]:
    named = {"target": "income"}
    given = ("--target", "income")
    yield Case("census.csv", delimited(CENSUS, CENSUS_NAMES), named, given)
    yield Case("spaces.csv", delimited(CENSUS, CENSUS_NAMES).replace(b",", b", "), named, given)
    yield Case("chosen.csv", delimited(CENSUS, CENSUS_NAMES), named, given)
    yield Case("tabs.tsv", tabbed(CENSUS, CENSUS_NAMES), named, given)
    german = [(a, b, str(c).replace(".", ","), *rest) for a, b, c, *rest in CENSUS]
    yield Case("german.csv", delimited(german, CENSUS_NAMES, ";"), named, given)
    yield Case(
        "latin1.csv", delimited(CENSUS, CENSUS_NAMES, encoding="latin-1", ends="\r\n"), named, given
    )
    yield Case(
        "label.csv",
        delimited(CENSUS, (*CENSUS_NAMES[:4], "label")),
        {"target": "label"},
    )
    yield Case("no-header.csv", delimited(CENSUS), {"target": "column 5"}, ("--target", "5"))
    yield Case("rows.jsonl", json_lines(json_rows(CENSUS, CENSUS_NAMES)), named, given)
    yield Case("rows.json", json_list(json_rows(CENSUS, CENSUS_NAMES)), named, given)
    yield Case("rows.parquet", parquet(CENSUS, CENSUS_NAMES), named, given)
    yield Case("rows.xlsx", excel(CENSUS, CENSUS_NAMES), named, given)
    yield Case("rows.sqlite", sqlite(CENSUS, CENSUS_NAMES), named, given)


def book_files() -> Iterator[Case]:
    lines = "".join(f"{line}\n" for line in BOOK)
    rows = [(line,) for line in BOOK]
    yield Case("book.txt", lines.encode())
    yield Case("chosen.txt", lines.encode())
    yield Case("latin1.txt", lines.encode("latin-1"))
    yield Case("utf16.txt", lines.encode("utf-16"))
    yield Case("book.txt.gz", gzip.compress(lines.encode(), mtime=0))
    halves = {
        f"{n}.txt": "".join(f"{line}\n" for line in BOOK[n * 30 : n * 30 + 30]).encode()
        for n in range(2)
    }
    yield Case("folder", halves)
    yield Case("book.csv", delimited(rows, ("text",)), {"text": "text"})
    yield Case(
        "posts.csv",
        delimited([(n, line, n % 2) for n, line in enumerate(BOOK)], ("id", "body", "likes")),
        {"text": "body"},
        ("--text", "body"),
    )
    yield Case("posts.jsonl", json_lines([{"text": line} for line in BOOK]), {"text": "text"})
    yield Case("posts.parquet", parquet(rows, ("text",)), {"text": "text"})


def series_files() -> Iterator[Case]:
    values = [(value,) for _, value in SALES]
    named = {"target": "sales"}
    yield Case("values.txt", tabbed(values), {"target": "text"})
    yield Case("sales.csv", delimited(SALES, ("day", "sales")), named)
    yield Case("chosen.csv", delimited(SALES, ("day", "sales")), named)
    yield Case("no-header.csv", delimited(SALES), {"target": "column 2"})
    comma = [(day, value.replace(".", ",")) for day, value in SALES]
    yield Case("german.csv", delimited(comma, ("day", "sales"), ";"), named)
    backwards = delimited(SALES[::-1], ("day", "sales"))
    yield Case("backwards.csv", backwards, {**named, "time": "day"}, ("--time", "day"))
    yield Case("sales.parquet", parquet(SALES, ("day", "sales")), named)
    yield Case("sales.jsonl", json_lines(json_rows(SALES, ("day", "sales"))), named)


def point_files() -> Iterator[Case]:
    yield Case("points.tsv", tabbed(POINTS))
    yield Case("points.csv", delimited(POINTS, ("x", "y")))
    yield Case("points.txt", tabbed(POINTS).replace(b"\t", b" "))
    yield Case("points.parquet", parquet(POINTS, ("x", "y")))


class Group(NamedTuple):
    """Files of one content: the task, the smallest settings, and the number of inputs."""

    task: str
    files: Callable[[], Iterator[Case]]
    settings: tuple[str, ...]
    inputs: int = 0  # that `predict --file` answers; 0: it is not called


LOOP = ("train.steps=1", "train.evaluate_every=1", "train.threads=1", "train.batch_tokens=256")
GROUPS = {
    "pairs": Group(
        "translate",
        pair_files,
        (*LOOP, "model.name=seq2seq", "model.width=4", "data.max_new_tokens=2"),
        len(PAIRS),
    ),
    "reviews": Group(
        "classify",
        review_files,
        ("model.name=fasttext", "model.epochs=1", "train.threads=1"),
        len(REVIEWS),
    ),
    "chinese": Group(
        "classify",
        chinese_files,
        ("model.name=fasttext", "model.epochs=1", "train.threads=1"),
        len(CHINESE),
    ),
    "encyclopedia": Group(
        "classify",
        encyclopedia_files,
        ("model.name=fasttext", "model.epochs=1", "train.threads=1"),
        len(ENCYCLOPEDIA),
    ),
    "census": Group("table", census_files, (*LOOP, "model.name=softmax"), len(CENSUS)),
    "book": Group("language", book_files, ("model.name=ngram", "model.order=2", "train.threads=1")),
    "words": Group(
        "vectors",
        book_files,
        ("model.name=svd", "model.width=2", "data.min_count=1", "train.threads=1"),
    ),
    "series": Group("forecast", series_files, (*LOOP, "data.horizon=2")),
    "points": Group("kernel-regression", point_files, ("train.threads=1",)),
}
CASES = [
    pytest.param(group, case, id=f"{group}-{case.name}")
    for group, (_, files, *_) in GROUPS.items()
    for case in files()
    if group != "words" or case.name in ("book.txt", "latin1.txt", "posts.csv", "posts.parquet")
]


@pytest.fixture(autouse=True)
def no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Train without drawing the figures of the report."""
    monkeypatch.setattr("saccade.runs.train.write_report", lambda run, figures, log: None)


class Reference(NamedTuple):
    """Fingerprint of the training data and predictions of the first file of a group."""

    data: str
    predictions: list[str]


@pytest.fixture(scope="module")
def references() -> dict[str, Reference]:
    """Return the references by group, each filled when a file of the group is tried first."""
    return {}


def write_case(folder: Path, case: Case) -> None:
    if isinstance(case.content, bytes):
        (folder / case.name).write_bytes(case.content)
        return
    (folder / case.name).mkdir()
    for name, content in case.content.items():
        (folder / case.name / name).write_bytes(content)


def train(saccade: Command, group: str, case: Case, out: str = "run") -> Any:
    task = GROUPS[group].task
    chosen = [case.name] if case.name.startswith("chosen.") else [task, "--data", case.name]
    settings = [f"--set={setting}" for setting in GROUPS[group].settings]
    return saccade("train", *chosen, *case.options, *settings, "--out", out)


def training_data(run: str = "run") -> str:
    return str(read_run_settings(Path(run))["made"]["data"])


def reference_of(saccade: Command, group: str, references: dict[str, Reference]) -> Reference:
    if group not in references:
        case = next(GROUPS[group].files())
        write_case(Path(), case)
        assert train(saccade, group, case, "reference").code == 0
        predictions = predict_file(saccade, group, case, "reference")
        references[group] = Reference(training_data("reference"), predictions)
    return references[group]


def predict_file(saccade: Command, group: str, case: Case, run: str = "run") -> list[str]:
    """Return the predictions for a file, without the header of a table."""
    count = GROUPS[group].inputs
    if not count:
        return []
    result = saccade("predict", run, "--file", case.name)
    assert result.code == 0, result.err
    lines: list[str] = result.out.splitlines()
    assert len(lines) in (count, count + 1)
    column = case.roles.get("source") or case.roles.get("text")
    if column is not None:
        assert f"read column {column!r} of {case.name}" in result.err
    return lines[-count:]


def test_sixty_files_and_more_are_tried() -> None:
    assert len(CASES) >= 60
    assert {group for case in CASES for group in [case.values[0]]} == {*GROUPS}


@pytest.mark.parametrize(("group", "case"), CASES)
def test_file_is_trained_and_predicted(
    group: str, case: Case, saccade: Command, tmp_path: Path, references: dict[str, Reference]
) -> None:
    write_case(tmp_path, case)
    result = train(saccade, group, case)
    assert result.code == 0, result.err
    data = read_run_settings(Path("run"))["recipe"]["data"]
    roles = ("source", "target", "text", "label", "time")
    assert {role: data[role] for role in roles if role in data} == case.roles
    assert case.name in result.err  # the first screen names the file
    for role, column in case.roles.items():
        if f"--{role}" not in case.options:
            assert f"data.{role}" in result.err and column in result.err
    predictions = predict_file(saccade, group, case)
    reference = reference_of(saccade, group, references)
    assert training_data() == reference.data
    assert predictions == reference.predictions
    if group in ("pairs", "reviews", "census"):
        result = saccade("evaluate", "run", "--data", case.name, "--json")
        assert result.code == 0, result.err
        assert json.loads(result.out)["examples"] == GROUPS[group].inputs
