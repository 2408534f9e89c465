"""Time series: reading, windows and splits by time."""

import gzip

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.data.time_series import make_windows, noisy_sine, read_series, split_windows
from saccade.errors import DataError


def written(tmp_path, content, name="series.csv"):
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


# --- synthetic and files ------------------------------------------------------------------------


def test_noisy_sine_matches_its_equation_and_noise():
    np.testing.assert_allclose(
        noisy_sine(5, noise=0.0, rate=0.3).values, [np.sin(0.3 * t) for t in (1, 2, 3, 4, 5)]
    )
    noise = noisy_sine(20_000, noise=0.2, seed=1).values - noisy_sine(20_000, noise=0.0).values
    assert abs(noise.mean()) < 0.01 and noise.std() == pytest.approx(0.2, rel=0.02)
    np.testing.assert_array_equal(noisy_sine(seed=3).values, noisy_sine(seed=3).values)
    assert (noisy_sine(seed=3).values != noisy_sine(seed=4).values).all()
    with pytest.raises(ValueError, match="length 0 and noise 0.2; expected length"):
        noisy_sine(0)


@pytest.mark.parametrize(
    ("content", "column", "name", "values"),
    [
        ("1\n2.5\n-3e2\n", None, "series.csv", [1, 2.5, -300]),
        ("1\r\n2\r\n\r\n\n", None, "series.csv", [1, 2]),
        ("\ufeffsales\n1\n2", None, "sales", [1, 2]),
        ("day,sales\nMon,1\nTue,2\n", None, "sales", [1, 2]),
        ("day\ta\tb\nMon\t1\t5\nTue\t2\t6\n", "b", "b", [5, 6]),
        ("day\ta\tb\nMon\t1\t5\nTue\t2\t6\n", 2, "a", [1, 2]),
        ("day\ta\tb\nMon\t1\t5\nTue\t2\t6\n", "3", "b", [5, 6]),
        ("2020-01-01,7\n2020-01-02,8\n", None, "column 2", [7, 8]),
        ('"day, of the week",x\n"Mon, 1st", 4\n', "x", "x", [4]),
    ],
)
def test_read_series_reads_tables_and_lists(tmp_path, content, column, name, values):
    series = read_series(written(tmp_path, content), column)
    assert series.name.endswith(name) and series.values.tolist() == values
    packed = written(tmp_path, gzip.compress(content.encode()), "packed.csv.gz")
    assert read_series(packed, column).values.tolist() == values


@pytest.mark.parametrize(
    ("content", "column", "message"),
    [
        ("", None, "series.csv: got an empty file"),
        ("\n\n", None, "series.csv: got an empty file"),
        ("price\n", None, "got no values; expected one number in each row"),
        ("1\n\n3\n", None, "1 line cannot be used.*\n  - line 2: the value is missing"),
        ("NA\n1\n", None, "line 1: the value is missing"),
        ("x,y\n1,2\n1,NaN\n1,\n", "y", "2 lines .*\n  - line 3: .*missing\n  - line 4: .*missing"),
        ("x\n1\ntwo\n", None, "line 3: 'two' is not a number"),
        ("1\ninf\n", None, "line 2: 'inf' is not a number"),
        ("1\n1_000\n", None, "line 2: '1_000' is not a number"),
        ("a,b\n1,2\n3\n", "a", "line 3: got 1 cell; expected 2"),
        ("1\n" + "x\n" * 9, None, "9 lines (.|\n)*line 6: (.|\n)*… and 4 more"),
        ("a,b\n1,2\n", None, r"got 2 columns that may be the target .*--target a"),
        (
            "price,cost\n1,2\n",
            "prize",
            "no column 'prize', the target. Did you mean 'price'. Columns: price",
        ),
        ("1,2\n", "3", "no column '3', the target. Columns: column 1, column 2; try --target NAME"),
        (b"1\n\xff\n", None, "line 2: '.' is not a number"),
        ("1\n" + "7" * 10_000_000, None, "line 2: .* is not a number"),
    ],
)
def test_read_series_reports_wrong_files(tmp_path, content, column, message):
    with pytest.raises(DataError, match=message):
        read_series(written(tmp_path, content), column)


# --- windows ------------------------------------------------------------------------------------


@given(length=st.integers(2, 40), lags=st.integers(1, 6), horizon=st.integers(1, 5))
@settings(deadline=None)
def test_make_windows_equals_slicing(length, lags, horizon):
    values = np.arange(length) * 1.5
    if length < lags + horizon:
        with pytest.raises(ValueError, match=f"at least {lags + horizon} values"):
            make_windows(values, lags, horizon)
        return
    found = make_windows(values, lags, horizon)
    rows = [t for t in range(lags, length) if t + horizon <= length]
    assert found.times.tolist() == rows
    for row, t in enumerate(rows):
        assert found.features[row].tolist() == values[t - lags : t].tolist()
        assert found.labels[row].tolist() == values[t : t + horizon].tolist()


@given(length=st.integers(20, 60), lags=st.integers(1, 5), horizon=st.integers(1, 3))
@settings(deadline=None)
def test_split_windows_is_by_time_without_shared_labels(length, lags, horizon):
    values = np.arange(length, dtype=np.float64)
    splits = split_windows(values, lags, horizon, dev=0.2, test=0.3)
    labels = {name: set(split.labels.flatten().tolist()) for name, split in splits.items()}
    assert max(labels["train"]) < min(labels["dev"]) <= max(labels["dev"]) < min(labels["test"])
    # every value after the first `lags` is a label in one of the splits
    assert sorted(set().union(*labels.values())) == values[lags:].tolist()
    assert (
        splits["dev"].features[0].tolist()
        == (splits["dev"].times[0] - np.arange(lags, 0, -1)).tolist()
    )
    assert len(labels["test"]) == pytest.approx(0.3 * length, abs=1)


def test_split_windows_rejects_wrong_shares():
    with pytest.raises(ValueError, match="shares of 0.5 and 0.5; expected .* less than 1 together"):
        split_windows(np.arange(10.0), 2, dev=0.5, test=0.5)
    with pytest.raises(ValueError, match="2 of them for training.*smaller held-out shares"):
        split_windows(np.arange(10.0), 4, dev=0.4, test=0.4)
