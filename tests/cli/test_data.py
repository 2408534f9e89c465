"""`saccade data`: the first screen of a data set, as a person types it."""

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from matplotlib.image import imread

Command = Callable[..., Any]

REVIEWS = [f"the {n} guests found the food {['cold', 'good'][n % 2]}" for n in range(40)]
GERMAN = [f"die {n} Gäste fanden das Essen {['kalt', 'gut'][n % 2]}" for n in range(40)]


def write_reviews(name: str = "reviews.csv") -> None:
    rows = [f'{n},"{text}",{1 + n % 5},2024-01-{1 + n % 28:02d}' for n, text in enumerate(REVIEWS)]
    Path(name).write_text("\n".join(["id,review,stars,day", *rows]) + "\n", encoding="utf-8")


def last_line(text: str) -> str:
    return text.strip().splitlines()[-1].strip()


def test_first_screen(saccade: Command) -> None:
    write_reviews()
    result = saccade("data", "reviews.csv")
    assert result.code == 0, result.err
    first, *lines = result.out.splitlines()
    assert first.startswith("reviews.csv: csv, utf-8, separated by commas, a header, 4 columns")
    assert "40 rows" in first
    row = {line.split()[0]: line for line in reversed(lines) if line.strip()}
    assert row["id"].split()[1] == "id"
    assert row["review"].split()[1:3] == ["text", "text"] and "Latin" in row["review"]
    assert row["stars"].split()[1:4] == ["integer", "label", "5"] and "1 to 5" in row["stars"]
    assert row["day"].split()[1] == "date"
    assert row["5"].split()[1:3] == ["8", "20.0%"]  # class balance
    assert last_line(result.out) == (
        "saccade train classify --data reviews.csv --text review --label stars"
    )


def test_json(saccade: Command) -> None:
    write_reviews()
    found = json.loads(saccade("data", "reviews.csv", "--json").out)
    assert (found["rows"], found["format"], found["delimiter"]) == (40, "csv", ",")
    assert found["task"] == "classify"
    assert found["roles"]["label"] == {
        "role": "label",
        "column": "stars",
        "reason": "named 'stars'",
    }
    assert {column["name"]: column["kind"] for column in found["columns"]} == {
        "id": "id",
        "review": "text",
        "stars": "integer",
        "day": "date",
    }
    assert found["columns"][2]["counts"] == {str(n): 8 for n in range(1, 6)}
    assert found["bytes"] == Path("reviews.csv").stat().st_size


def test_picture(saccade: Command) -> None:
    write_reviews()
    result = saccade("data", "reviews.csv", "--save", "reviews.png")
    assert result.code == 0 and "The picture is in reviews.png" in result.err
    assert imread("reviews.png").std() > 0.05
    refused = saccade("data", "reviews.csv", "--save", "reviews.bmp")
    assert refused.code == 2 and "try reviews.png" in refused.err and not refused.out
    Path("numbers.csv").write_text("x,y\n" + "".join(f"{n}.5,{n * n}.25\n" for n in range(30)))
    empty = saccade("data", "numbers.csv", "--save", "numbers.png")
    assert empty.code == 0 and "No picture" in empty.err and not Path("numbers.png").exists()


def test_given_roles_decide_the_task(saccade: Command) -> None:
    write_reviews()
    result = saccade("data", "reviews.csv", "--target", "stars")
    assert last_line(result.out) == "saccade train table --data reviews.csv --target stars"
    result = saccade("data", "reviews.csv", "--source", "review", "--target", "day")
    assert last_line(result.out).startswith("saccade train translate --data reviews.csv")


def test_swapped_roles_are_reported_with_the_right_command(saccade: Command) -> None:
    write_reviews()
    result = saccade("data", "reviews.csv", "--text", "stars", "--label", "review")
    assert result.code == 0
    assert "! reviews.csv: got 40 distinct values in 40 rows of 'review', the label" in result.out
    assert last_line(result.out).endswith("--text review --label stars")


def test_a_wrong_column_is_refused(saccade: Command) -> None:
    write_reviews()
    result = saccade("data", "reviews.csv", "--text", "revew")
    assert result.code == 2 and "Did you mean 'review'?" in result.err and not result.out


def test_a_file_sorted_by_class_is_read_to_its_end(saccade: Command) -> None:
    lines = [f"{['good', 'bad'][n > 6000]}\tthe text number {n} of many" for n in range(7000)]
    Path("sorted.tsv").write_text("\n".join(lines))
    result = saccade("data", "sorted.tsv")
    assert "the only column of classes (2 values in 7,000 rows)" in result.out


def test_doubts(saccade: Command) -> None:
    rows = [f"{text},{['yes', 'no'][n == 3]},,x" for n, text in enumerate(REVIEWS)]
    Path("d.csv").write_text("\n".join(["text,label,empty,same", *rows, *rows[:9]]) + "\n")
    out = saccade("data", "d.csv").out
    assert "! The column 'empty' has no value." in out
    assert "! The column 'same' has one value (x)." in out
    assert "9 of 49 rows repeat an earlier row" in out
    assert "95.9% of 'label' is 'yes'" in out
    assert "1 of 2 classes have fewer than 5 rows ('no')" in out


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("empty.csv", b"", "empty"),
        ("blank.csv", b"\n\n\n", "blank.csv"),
    ],
)
def test_nonsense_is_answered(saccade: Command, name: str, content: bytes, message: str) -> None:
    Path(name).write_bytes(content)
    result = saccade("data", name)
    assert result.code == 2 and message in result.err
    assert "Internal error" not in result.err


def test_no_file(saccade: Command) -> None:
    write_reviews()
    result = saccade("data", "review.csv")
    assert result.code == 2 and "no file review.csv" in result.err


def test_a_header_alone_and_a_single_row(saccade: Command) -> None:
    Path("one.csv").write_text("text,label\ngood food,yes\n")
    result = saccade("data", "one.csv")
    assert result.code == 0 and "1 rows" in result.out.replace("1 row,", "1 rows,")
    Path("same.csv").write_text("a,b\nx,y\nx,y\n")
    assert "No task suits this file" in saccade("data", "same.csv", "--set", "data.header=true").out


def test_reading_can_be_set(saccade: Command) -> None:
    rows = "".join(f"{text}~{n % 2}\n" for n, text in enumerate(REVIEWS))
    Path("odd.txt").write_text(rows)
    result = saccade("data", "odd.txt", "--set", "data.delimiter=~", "--set", "data.header=false")
    assert "separated by '~', no header, 2 columns, 40 rows" in result.out
    refused = saccade("data", "odd.txt", "--set", "data.separator=~")
    assert refused.code == 2 and "no setting 'data.separator'" in refused.err


def test_encodings_scripts_and_compression(saccade: Command) -> None:
    lines = [f"{n % 2}\t味道很好，送餐也很快第{n}次" for n in range(30)]
    text = "\r\n".join(["label\ttext_a", *lines])
    Path("zh.tsv.gz").write_bytes(gzip.compress(b"\xef\xbb\xbf" + text.encode()))
    result = saccade("data", "zh.tsv.gz")
    assert "Han, no spaces" in result.out
    assert last_line(result.out).endswith("--text text_a --label label")


def test_names_are_quoted_for_the_shell(saccade: Command) -> None:
    rows = "".join(f"{n % 2},{text}\n" for n, text in enumerate(REVIEWS))
    Path("my data.csv").write_text("the label,the text\n" + rows)
    result = saccade("data", "my data.csv")
    assert last_line(result.out) == (
        "saccade train classify --data 'my data.csv' --text 'the text' --label 'the label'"
    )


def test_loads_no_torch(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        "text,label\n" + "".join(f"a b {n},{n % 2}\n" for n in range(9))
    )
    code = (
        "import sys\nfrom saccade.cli.main import run\n"
        "assert run(['data', 'a.csv']) == 0\n"
        "print('LOADED', *sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, encoding="utf-8"
    )
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.partition("LOADED")[2].split())
    assert "saccade.data.records.summary" in loaded
    assert not {"torch", "matplotlib", "numba", "pandas", "sklearn"} & loaded


def test_a_column_of_splits_is_part_of_the_command(saccade: Command) -> None:
    rows = [f"{text},{n % 3},{['train', 'test'][n % 5 == 0]}" for n, text in enumerate(REVIEWS)]
    Path("parts.csv").write_text("\n".join(["text,label,part", *rows]) + "\n")
    result = saccade("data", "parts.csv")
    assert last_line(result.out) == (
        "saccade train classify --data parts.csv --text text --label label "
        "--set data.split_column=part"
    )


def test_two_parallel_files(saccade: Command) -> None:
    Path("a.en").write_text("\n".join(REVIEWS) + "\n", encoding="utf-8")
    Path("a.de").write_text("\n".join(GERMAN) + "\n", encoding="utf-8")
    result = saccade("data", "a.en,a.de")
    assert result.out.startswith("a.en,a.de: two parallel files, 2 columns, 40 rows")
    row = {line.split()[0]: line.split()[1:3] for line in result.out.splitlines() if line.strip()}
    assert row["en"] == ["text", "source"] and row["de"] == ["text", "target"]
    assert last_line(result.out) == "saccade train translate --data a.en,a.de"
    Path("a.de").write_text("\n".join(GERMAN[:9]) + "\n", encoding="utf-8")
    result = saccade("data", "a.en,a.de")
    assert result.code == 2 and "got fewer lines in a.de" in result.err
