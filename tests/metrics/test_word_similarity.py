"""Sets of judgments and analogies: read, and ranks compared as scipy compares them."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from saccade.errors import DataError
from saccade.metrics.word_similarity import read_word_benchmark, spearman

ratings = st.lists(st.integers(0, 4), min_size=2, max_size=20)


@given(ratings, st.integers(0, 1000))
def test_spearman_agrees_with_scipy_with_ties(values: list[int], seed: int) -> None:
    one = np.array(values, np.float64)
    other = np.random.default_rng(seed).integers(0, 4, len(one)).astype(np.float64)
    if len(set(one)) == 1 or len(set(other)) == 1:
        assert np.isnan(spearman(one, other))
    else:
        assert spearman(one, other) == pytest.approx(spearmanr(one, other).statistic, abs=1e-12)


@pytest.mark.parametrize("count", [0, 1])
def test_spearman_of_fewer_than_two_values_is_nan(count: int) -> None:
    assert np.isnan(spearman(np.zeros(count), np.zeros(count)))


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
