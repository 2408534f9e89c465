import gzip
import io
import json
import lzma
import os
import re
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from saccade.cli import predict_file
from saccade.cli.console import json_line
from saccade.cli.predict_file import (
    LimitedWarnings,
    chunk_rows,
    count_input_lines,
    escape_line_breaks,
    read_lines_lenient,
)
from saccade.cli.predict_input import FileInput, InputRow
from saccade.cli.resumable_output import ResumableOutput
from saccade.io.text_files import file_encoding, read_lines
from saccade.runs.run import load_run
from saccade.training.progress import show_progress
from saccade.types.results import Prediction
from tests.hanging import HANG_SECONDS

SAME_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
BREAKS = "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"


Command = Callable[..., Any]


@pytest.fixture
def reverser(trained_runs: dict[str, Path]) -> Path:
    return trained_runs["bahdanau"]


# --- one answer, one line -----------------------------------------------------------------------


@given(st.text(st.characters() | st.sampled_from(BREAKS + "\\"), max_size=20))
def test_escape_line_breaks_gives_one_line(text: str) -> None:
    line = escape_line_breaks(text)
    assert len((line + "\n").splitlines()) == 1
    if any(letter in text for letter in BREAKS):
        found = re.sub(r"\\(\\|[nr]|x..|u....)", unescaped, line)
        assert found == text
    else:
        assert line == text


def unescaped(match: re.Match[str]) -> str:
    code = match[1]
    plain = {"\\": "\\", "n": "\n", "r": "\r"}
    return plain[code] if code in plain else chr(int(code[1:], 16))


@given(st.text(st.characters(categories=None) | st.sampled_from(BREAKS), max_size=20))
def test_json_line_round_trips(text: str) -> None:
    line = json_line({"source": text, "score": -0.1})
    assert len((line + "\n").splitlines()) == 1
    line.encode()  # half a character, too, can be written
    assert json.loads(line) == {"source": text, "score": -0.1}


def test_predictions_with_line_breaks_are_escaped(
    saccade: Command, reverser: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = f"a\\{BREAKS}b"
    monkeypatch.setattr(
        "saccade.data.tokenizers.CharacterTokenizer.decode", lambda self, ids: broken
    )
    (tmp_path / "in.txt").write_text("abc\nfed\n")
    result = saccade("predict", reverser, "--file", "in.txt")
    assert result.out.splitlines() == [r"a\\\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029b"] * 2
    several = saccade("predict", reverser, "--file", "in.txt", "--beam=2", "--n-best=2")
    rows = [line.split("\t") for line in several.out.splitlines()]
    assert [row[:2] for row in rows] == [["1", "1"], ["1", "2"], ["2", "1"], ["2", "2"]]
    values = saccade("predict", reverser, "--file", "in.txt", "--json").out.splitlines()
    assert [json.loads(line)["text"] for line in values] == [broken] * 2


# --- reading ------------------------------------------------------------------------------------


@SAME_FOLDER
@given(st.lists(st.binary(max_size=6).map(lambda b: b.replace(b"\n", b"")), max_size=6))
def test_read_lines_lenient_accepts_any_bytes(tmp_path: Path, lines: list[bytes]) -> None:
    lines.insert(0, b"x")  # some first bytes mean that a file is packed, or in UTF-16
    content = b"".join(line + b"\n" for line in lines)
    path = tmp_path / "in.txt"
    path.write_bytes(content)
    warnings: list[str] = []
    found = list(read_lines_lenient(str(path), warnings.append))
    encoding = file_encoding(path).name
    if encoding.startswith(("utf-16", "utf-32")):
        return
    assert len(found) == len(lines) == count_input_lines(str(path))
    try:
        content.decode(encoding)
    except UnicodeDecodeError:
        wrong = [n for n, text in enumerate(found, 1) if "�" in text]
        stated = [int(number) for w in warnings for number in re.findall(r"line (\d+): inv", w)]
        assert stated == wrong
    else:
        assert found == list(read_lines(path))
        assert bool(warnings) == (encoding != "utf-8")


def test_read_lines_lenient_warns_with_line_number(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes("abc\nété 年 年 年\n".encode() + b"\xe9t\n")
    warnings: list[str] = []
    assert list(read_lines_lenient(str(path), warnings.append)) == ["abc", "été 年 年 年", "�t"]
    assert re.search(r"in.txt, line 3: invalid UTF-8 \(0xe9\) is read as �", warnings[0])
    path.write_bytes("abc\n".encode("utf-16"))
    assert list(read_lines_lenient(str(path), warnings.append)) == ["abc"]
    french = "Où est passée la forêt où l'été était si doux, près du château ?"
    path.write_bytes(f"abc\n{french}\n".encode("latin-1"))
    assert list(read_lines_lenient(str(path), warnings.append)) == ["abc", french]
    assert [w.split(": ")[1] for w in warnings[1:]] == [
        "read as utf-16-le, which was detected.",
        "read as cp1252, which was detected.",
    ]


def test_count_lines_of_uncompressed_files(tmp_path: Path) -> None:
    for content, lines in ((b"", 0), (b"\n", 1), (b"a", 1), (b"a\n\nb", 3)):
        (tmp_path / "in.txt").write_bytes(content)
        assert count_input_lines(str(tmp_path / "in.txt")) == lines
    (tmp_path / "in.gz").write_bytes(gzip.compress(b"a\nb\n"))
    (tmp_path / "in.xz").write_bytes(lzma.compress(b"a\nb\n"))
    for unknown in ("in.gz", "in.xz", "missing"):
        assert count_input_lines(str(tmp_path / unknown)) is None
    assert count_input_lines("-") is None


@given(st.lists(st.text("ab", max_size=12), max_size=30), st.data())
def test_chunk_rows_is_bounded_and_resumable(lines: list[str], data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(predict_file, "PREDICT_CHUNK_LINES", 4)
        patch.setattr(predict_file, "PREDICT_CHUNK_CHARACTERS", 10)
        patch.setattr(predict_file, "EMPTY_CHUNK_LINES", 7)
        rows = [InputRow(line, line) for line in lines]
        groups = list(chunk_rows(iter(rows)))
        assert [row for group in groups for row in group] == rows
        for group in groups:
            characters = sum(len(row.text) for row in group)
            assert len(group) <= (4 if characters else 7)
            assert len(group) == 1 or characters <= 10
        done = data.draw(st.integers(0, len(groups)))
        answered = sum(map(len, groups[:done]))
        assert list(chunk_rows(iter(rows[answered:]))) == groups[done:]


def predict_lines(content: str, folder: Path, **options: Any) -> tuple[list[int], str]:
    """Predict a file of lines; return the numbers of inputs of each call, and the output."""
    calls: list[int] = []

    def predict(inputs: list[str], *, first: int, on_progress: Any) -> list[Prediction]:
        calls.append(len(inputs))
        return [Prediction(text.upper() or "-") for text in inputs]

    (folder / "in.txt").write_text(content)
    (folder / "out.txt").unlink(missing_ok=True)
    rows = (InputRow(line, line) for line in content.split("\n")[:-1])
    inputs = FileInput(lambda warn: iter([rows]))
    with ResumableOutput(folder / "out.txt", {}) as output:
        predict_file.predict_file(
            str(folder / "in.txt"),
            inputs,
            predict,
            lambda number, row, found: f"{number} {found.text}\n",
            lambda text: text,
            output,
            **options,
        )
        output.finish()
    return calls, (folder / "out.txt").read_text()


def test_empty_lines_are_predicted_once_for_each_chunk(tmp_path: Path) -> None:
    lines = 2 * predict_file.EMPTY_CHUNK_LINES + 5
    calls, output = predict_lines("a\n" + "\n" * lines + "b\n\n", tmp_path)
    # the first and the last chunk have a line that is not empty
    assert calls == [predict_file.PREDICT_CHUNK_LINES, 1, 1, 2]
    expected = ["A", *["-"] * lines, "B", "-"]
    assert output == "".join(f"{n} {text}\n" for n, text in enumerate(expected, 1))


def test_sampled_predictions_of_empty_lines_are_not_repeated(tmp_path: Path) -> None:
    calls, _ = predict_lines("\n" * 5000, tmp_path, is_sampled=True)
    assert sum(calls) == 5000


def peak_of_reading(path: Path) -> int:
    tracemalloc.start()
    lines = read_lines_lenient(str(path), pytest.fail)
    count = sum(len(group) for group in chunk_rows(InputRow(line, line) for line in lines))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == count_input_lines(str(path))
    return peak


def test_read_lines_lenient_memory_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("saccade.io.text_files.READ_BLOCK_BYTES", 1 << 16)
    monkeypatch.setattr(predict_file, "PREDICT_CHUNK_LINES", 100)
    block = b"a line of a file that has many of them, each like the others\n" * 3000
    (tmp_path / "short.txt").write_bytes(block)
    (tmp_path / "long.txt").write_bytes(block * 8)
    short, long = peak_of_reading(tmp_path / "short.txt"), peak_of_reading(tmp_path / "long.txt")
    assert long < 1.1 * short < len(block) * 4


# --- the command --------------------------------------------------------------------------------


def test_predict_file_reads_compressed_files_and_pipes(
    saccade: Command, reverser: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predict_file, "PREDICT_CHUNK_LINES", 3)
    texts = [word for word in ("abc", "", "fed", "a", "bcdefa", "éa", "f") for _ in range(2)]
    content = "".join(f"{text}\n" for text in texts).encode()
    (tmp_path / "in.txt").write_bytes(content)
    (tmp_path / "in.gz").write_bytes(gzip.compress(content))
    (tmp_path / "in.xz").write_bytes(lzma.compress(content))
    opened = load_run(reverser)
    expected = "".join(f"{opened.predict(text).text}\n" for text in texts)
    for name in ("in.txt", "in.gz", "in.xz"):
        result = saccade("predict", reverser, "--file", name)
        assert result.out == expected
        *notes, summary = result.err.splitlines()
        assert re.fullmatch(r"14 lines in [\d.,]+ s: [\d.,]+ lines/s", summary)
        assert notes == [
            f"{name}, input {at}: 1 of 2 tokens is not in the vocabulary." for at in (11, 12)
        ]
        assert saccade("predict", reverser, "--file", name, "--out", f"{name}.out").out == ""
        assert (tmp_path / f"{name}.out").read_bytes() == expected.encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert saccade("predict", reverser, "--file", "-").out == expected
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    saccade("predict", reverser, "--file", "-", "--out", "piped.out")
    assert (tmp_path / "piped.out").read_bytes() == expected.encode()


def test_predict_file_truncates_long_lines_with_a_warning(
    saccade: Command, reverser: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predict_file, "PREDICT_CHUNK_LINES", 2)
    (tmp_path / "in.txt").write_text(f"abc\nfed\na\nb\n{'c' * 1001}\nd\n")
    result = saccade("predict", reverser, "--file", "in.txt")
    assert result.code == 0
    opened = load_run(reverser)
    texts = ["abc", "fed", "a", "b", "c" * 1000, "d"]
    assert result.out == "".join(f"{opened.predict(text).text}\n" for text in texts)
    assert (
        "in.txt, line 5 is longer than this model takes: truncated from 1,001 to 1,000"
        in result.err
    )
    refused = saccade("predict", reverser, "c" * 1001)
    assert refused.code == 2 and "got input 1 (1,001 tokens); expected at most 1000" in refused.err


def test_limited_warnings_counts_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    warn = LimitedWarnings(Console(stderr=True, width=200))
    for number in range(7):
        warn(f"warning {number}")
    warn.finish()
    result = capsys.readouterr().err.splitlines()
    assert result == [
        *(f"warning {number}" for number in range(5)),
        "… and 2 lines more like these.",
    ]


def test_predict_accepts_surrogates(saccade: Command, reverser: Path) -> None:
    result = saccade("predict", reverser, "ab\udcff", "--json")
    assert result.code == 0
    assert json.loads(result.out)["source"] == "ab\udcff"


def test_predict_out_needs_a_file(saccade: Command, reverser: Path) -> None:
    result = saccade("predict", reverser, "abc", "--out", "a.txt")
    assert result.code == 2 and "--out needs --file" in result.err


def test_progress_bar_keeps_predictions(
    saccade: Command, reverser: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Standard error is a screen, standard output is not: `saccade predict … > answers.txt`."""
    screen = io.StringIO()

    def console() -> Console:
        return Console(file=screen, force_terminal=True, width=100, highlight=False)

    monkeypatch.setattr(predict_file, "stderr_console", console)
    (tmp_path / "in.txt").write_text("abc\nfed\n")
    result = saccade("predict", reverser, "--file", "in.txt")
    assert result.out == "".join(f"{a.text}\n" for a in load_run(reverser).predict(["abc", "fed"]))
    assert "2/2" in screen.getvalue() and "lines/s" in screen.getvalue()


def test_progress_bar_keeps_printed_text(capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress(Console(file=io.StringIO(), force_terminal=True), "counting"):
        print("an answer")
    assert capsys.readouterr().out == "an answer\n"


def test_predict_stdin_line_by_line(reverser: Path) -> None:
    code = "from saccade.cli.main import main; main()"
    arguments = [sys.executable, "-c", code, "predict", str(reverser), "--file", "-"]
    opened = load_run(reverser)
    with subprocess.Popen(
        arguments,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        encoding="utf-8",
    ) as started:
        assert started.stdin and started.stdout
        for text in ("abc", "fed"):
            started.stdin.write(f"{text}\n")
            started.stdin.flush()
            assert started.stdout.readline() == opened.predict(text).text + "\n"
        started.stdin.close()
        assert started.wait(timeout=HANG_SECONDS) == 0
