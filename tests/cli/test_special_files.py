"""Pipes, devices and sockets in place of a file: refused by name, without opening; no hang."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from saccade.io.byte_source import byte_source
from tests.special_files import make_special

COMMANDS = [
    ["data", "FILE"],
    ["train", "FILE"],
    ["train", "translate", "FILE"],
    ["train", "translate", "--data", "FILE,FILE"],
    ["train", "language", "FILE"],
    ["train", "vectors", "FILE"],
    ["train", "classify", "FILE"],
    ["train", "table", "FILE", "--target", "x"],
    ["train", "forecast", "FILE"],
    ["train", "kernel-regression", "FILE"],
    ["train", "FILE.toml"],
    ["train", "translate", "--data", "words.tsv", "--set", "data.dev=FILE"],
    ["predict", "RUN", "--file", "FILE"],
    ["evaluate", "RUN", "FILE"],
    ["check", "RUN", "--data", "FILE"],
    ["finetune", "RUN", "FILE"],
    ["compare", "translate", "FILE"],
    ["doctor", "RUN", "FILE"],
    ["plot", "zipf", "FILE"],
    ["import", "gpt2", "FILE"],
    ["import", "glove", "FILE"],
]


@pytest.mark.parametrize("kind", ["a device", "a pipe", "a socket"])
@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_special_files_are_refused(
    arguments: list[str],
    kind: str,
    saccade: Callable[..., Any],
    trained_runs: dict[str, Path],
    words_file: Path,
    tmp_path: Path,
) -> None:
    (tmp_path / "words.tsv").write_bytes(words_file.read_bytes())
    for name in ("FILE", "FILE.toml"):
        make_special(kind, tmp_path / name)
    run = str(trained_runs["seq2seq"])
    result = saccade(*[run if argument == "RUN" else argument for argument in arguments])
    assert result.code == 2 and "Internal" not in result.err, result.err
    assert "FILE" in result.err and "expected" in result.err
    assert {"FILE", "FILE.toml", "words.tsv"} <= {*os.listdir(tmp_path)}


def test_pipe_of_a_shell_is_read_from_its_start_by_each_reader() -> None:
    """`<(command)` of a shell is the path of an open pipe, which is read once."""
    reading, writing = os.pipe()
    content = b"".join(b"line %d\n" % number for number in range(5000))
    os.write(writing, content)
    os.close(writing)
    source = byte_source(f"/dev/fd/{reading}")
    for _ in range(2):
        with source.open() as file:
            assert b"".join(iter(lambda file=file: file.read(1 << 12), b"")) == content  # type: ignore[misc]
    os.close(reading)
    assert source.path is None


def test_process_substitution_is_predicted_like_a_file(
    saccade: Callable[..., Any], trained_runs: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "in.txt").write_text("abc\nfed\n")
    expected = saccade("predict", trained_runs["seq2seq"], "--file", "in.txt")
    assert expected.code == 0 and len(expected.out.splitlines()) == 2
    reading, writing = os.pipe()
    os.write(writing, b"abc\nfed\n")
    os.close(writing)
    found = saccade("predict", trained_runs["seq2seq"], "--file", f"/dev/fd/{reading}")
    os.close(reading)
    assert found.out == expected.out
