"""Data sources: exactly one of a file, a published dataset and a synthetic set."""

import pytest

from saccade.data.datasets import TEXT_DATASETS
from saccade.data.source import (
    DatasetSource,
    DatasetSourceConfig,
    PathSource,
    SourceConfig,
    SyntheticSource,
    resolve_source,
    source_name,
)
from saccade.errors import ConfigError

SYNTHETIC = {"sine": lambda: "a sine"}


def test_source_is_the_one_that_is_set() -> None:
    found = resolve_source(DatasetSourceConfig(synthetic="sine"), SYNTHETIC, TEXT_DATASETS, "text")
    assert isinstance(found, SyntheticSource) and found.generate() == "a sine"
    found = resolve_source(DatasetSourceConfig(dataset="ptb"), SYNTHETIC, TEXT_DATASETS, "text")
    assert found == DatasetSource("ptb", TEXT_DATASETS["ptb"])
    found = resolve_source(SourceConfig(path="a.csv"), SYNTHETIC, what="series")
    assert found == PathSource("a.csv") and found.name == "a.csv"


@pytest.mark.parametrize(
    ("given", "got"),
    [
        ({}, "no data source"),
        ({"synthetic": "sine", "path": "a.csv"}, "data.synthetic='sine' and data.path='a.csv'"),
        ({"dataset": "ptb", "path": "a"}, "data.dataset='ptb' and data.path='a'"),
    ],
)
def test_source_count_other_than_one_is_an_error(given: dict[str, str], got: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve_source(
            DatasetSourceConfig(**given), SYNTHETIC, {"ptb": TEXT_DATASETS["ptb"]}, "text"
        )
    assert str(caught.value) == (
        f"got {got} for a text; expected exactly one of data.synthetic (a built-in set), "
        "data.dataset (a published dataset) and data.path (a file); try --data FILE, or "
        "--data NAME with one of: ptb, sine."
    )


def test_source_without_datasets_does_not_offer_them() -> None:
    with pytest.raises(ConfigError, match=r"built-in set\) and data.path \(a file\)") as caught:
        resolve_source(SourceConfig(), SYNTHETIC, what="series")
    assert "dataset" not in str(caught.value)


def test_source_name_that_is_unknown_gets_a_suggestion() -> None:
    with pytest.raises(ConfigError, match="no built-in series 'sin'. Did you mean 'sine'"):
        resolve_source(SourceConfig(synthetic="sin"), SYNTHETIC, what="series")
    with pytest.raises(ConfigError, match="no published text 'pbt'. Did you mean 'ptb'"):
        resolve_source(DatasetSourceConfig(dataset="pbt"), SYNTHETIC, TEXT_DATASETS, "text")


def test_source_name_is_that_of_the_source_in_use() -> None:
    assert source_name(SourceConfig(synthetic="sine")) == "sine"
    assert source_name(DatasetSourceConfig(dataset="ptb")) == "ptb"
    assert source_name(DatasetSourceConfig(path="a.txt")) == "a.txt"
    assert source_name(SourceConfig()) == "no data"
