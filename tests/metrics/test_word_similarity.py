"""Sets of judgments and analogies: read, and ranks compared as scipy compares them."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from saccade.errors import DataError
from saccade.metrics.word_similarity import read_word_benchmark, spearman

few = st.lists(st.integers(0, 4), min_size=2, max_size=20)


@given(few, st.integers(0, 1000))
def test_rank_correlation_is_scipys_ties_and_all(values: list[int], seed: int) -> None:
    one = np.array(values, np.float64)
    other = np.random.default_rng(seed).integers(0, 4, len(one)).astype(np.float64)
    if len(set(one)) == 1 or len(set(other)) == 1:
        assert np.isnan(spearman(one, other))
    else:
        assert spearman(one, other) == pytest.approx(spearmanr(one, other).statistic, abs=1e-12)


@pytest.mark.parametrize(
    ("content", "pairs"),
    [
        ("# note\nsun\tmoon\t3.5\n\ncat\tdog\t9\n", 2),
        ("Word 1,Word 2,Human (mean)\nsun,moon,3.5\n", 1),
        ("old new A 1.58 2.72\n", 1),
    ],
)
def test_judgments_in_their_several_forms(content: str, pairs: int, tmp_path: Path) -> None:
    path = tmp_path / "pairs.txt"
    path.write_text(content)
    found = read_word_benchmark(path, path.read_text().splitlines())
    assert len(found.similarity_pairs) == pairs and not found.analogies


def test_questions_with_their_categories(tmp_path: Path) -> None:
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
def test_sets_that_are_not_right_are_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.txt"
    path.write_text(content)
    with pytest.raises(DataError, match="wanted"):
        read_word_benchmark(path, content.splitlines())
