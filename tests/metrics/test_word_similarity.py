"""Sets of judgments and analogies are read."""

from pathlib import Path

import pytest

from saccade.errors import DataError
from saccade.metrics.word_similarity import read_word_benchmark


@pytest.mark.parametrize(
    ("content", "pairs"),
    [
        ("# note\nsun\tmoon\t3.5\n\ncat\tdog\t9\n", 2),
        ("Word 1,Word 2,Human (mean)\nsun,moon,3.5\n", 1),
        ("old new A 1.58 2.72\n", 1),
    ],
)
def test_similarity_pairs_parse_all_formats(content: str, pairs: int, tmp_path: Path) -> None:
    path = tmp_path / "pairs.txt"
    path.write_text(content)
    found = read_word_benchmark(path, path.read_text().splitlines())
    assert len(found.similarity_pairs) == pairs and not found.analogies


def test_analogies_parse_categories(tmp_path: Path) -> None:
    path = tmp_path / "questions.txt"
    path.write_text(": capitals\nAthens Greece Bern Switzerland\n:plurals\na as b bs\n")
    found = read_word_benchmark(path, path.read_text().splitlines())
    assert [q.category for q in found.analogies] == ["capitals", "plurals"]
    path.write_text("Athens Greece Bern Switzerland\n")
    assert (
        read_word_benchmark(path, path.read_text().splitlines()).analogies[0].words[3]
        == "Switzerland"
    )


@pytest.mark.parametrize("content", ["", "sun moon 3\nsun moon\n", ": a\none two three\n"])
def test_word_benchmark_refuses_invalid_lines(content: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.txt"
    path.write_text(content)
    with pytest.raises(DataError, match="expected"):
        read_word_benchmark(path, content.splitlines())
