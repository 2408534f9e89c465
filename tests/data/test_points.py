"""Points of a curve: generating, reading and splitting; row samplers."""

from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.data.points import (
    Points,
    PointsConfig,
    load_points,
    noisy_curve,
    read_points,
    split_points,
    true_curve,
)
from saccade.data.samplers import evenly_spaced_rows, shuffled_batches
from saccade.errors import ConfigError, DataError


def test_noisy_curve_matches_its_equation_and_noise() -> None:
    points = noisy_curve(20_000, noise=0.5, seed=3)
    assert (0 <= points.x).all() and (points.x < 5).all() and (np.diff(points.x) >= 0).all()
    assert abs(points.x.mean() - 2.5) < 0.05
    noise = points.y - np.array([2 * np.sin(x) + x**0.8 for x in points.x])
    assert noise.std() == pytest.approx(0.5, rel=0.03) and abs(noise.mean()) < 0.02
    np.testing.assert_array_equal(
        noisy_curve(9, noise=0.0).y, true_curve(noisy_curve(9, noise=0.0).x)
    )


def test_noisy_curve_is_a_function_of_the_seed() -> None:
    one, two = noisy_curve(seed=1), noisy_curve(seed=1)
    np.testing.assert_array_equal(one.x, two.x)
    np.testing.assert_array_equal(one.y, two.y)
    assert not np.isin(noisy_curve(seed=2).x, one.x).any()
    with pytest.raises(ValueError, match="got 0 points and noise -1"):
        noisy_curve(0, noise=-1.0)


def test_load_points_holds_out_other_points() -> None:
    splits = load_points(PointsConfig(synthetic="curve", points=30))
    assert len(splits.train.x) == len(splits.test.x) == 30
    assert not np.isin(splits.test.x, splits.train.x).any()
    assert splits.truth is not None


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=64), min_size=2, max_size=9))
def test_points_json_round_trip_is_exact(numbers: list[float]) -> None:
    points = Points("some", np.array(numbers), np.array(numbers[::-1]))
    again = Points.from_json(points.to_json())
    assert again.name == "some"
    assert again.x.tobytes() == points.x.tobytes() and again.y.tobytes() == points.y.tobytes()


# --- files --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "2\t5\n1\t-3.5\n",
        "2,5\n1,-3.5\n",
        "2 5\n1   -3.5\n",
        "x\ty\n2\t5\n\n1\t-3.5",
        "weight (kg), height\r\n2, 5\r\n1, -3.5\r\n\r\n",
    ],
)
def test_read_points_accepts_any_delimiter(text: str, tmp_path: Path) -> None:
    (tmp_path / "points").write_text(text, newline="")
    points = read_points(tmp_path / "points")
    assert points.x.tolist() == [1, 2]  # in the order of x
    assert points.y.tolist() == [-3.5, 5]


def test_read_points_lists_all_wrong_lines(tmp_path: Path) -> None:
    path = tmp_path / "points.csv"
    path.write_text("x,y\n1,2\n2,abc\n3\n4,5,6\n5,nan\n6,\n1_0,2\n7,8\n")
    with pytest.raises(DataError) as caught:
        read_points(path)
    message = str(caught.value)
    assert "points.csv: 6 lines cannot be used; expected x and y in each" in message
    assert "line 3: 'abc' is not a number" in message
    assert "line 4: got 1 cell; expected 2" in message
    assert "line 5: got 3 cells; expected 2" in message
    assert "line 6: 'nan' is not a number" in message
    assert "line 7: a value is missing" in message
    assert message.endswith("… and 1 more")


def test_read_points_does_not_take_a_broken_number_for_a_header(tmp_path: Path) -> None:
    (tmp_path / "p").write_text("1.2.3 4\n1 2\n2 3\n")
    with pytest.raises(DataError, match=r"line 1: '1.2.3' is not a number"):
        read_points(tmp_path / "p")


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "got an empty file"), ("x y\n", "got no points"), ("\n\n", "got an empty file")],
)
def test_read_points_reports_a_file_without_points(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "p").write_text(text)
    with pytest.raises(DataError, match=message):
        read_points(tmp_path / "p")


def test_load_points_needs_exactly_one_source(tmp_path: Path) -> None:
    for config in (PointsConfig(), PointsConfig(synthetic="curve", path="x")):
        with pytest.raises(ConfigError, match=r"exactly one of data.synthetic .* and data.path"):
            load_points(config)
    with pytest.raises(ConfigError, match="no built-in curve 'curv'. Did you mean 'curve'"):
        load_points(PointsConfig(synthetic="curv"))


# --- splits -------------------------------------------------------------------------------------


@given(st.integers(5, 60), st.floats(0.01, 0.6), st.integers(0, 5))
def test_split_points_is_a_partition(count: int, share: float, seed: int) -> None:
    whole = Points("some", np.arange(count, dtype=float), np.arange(count) * 2.0)
    splits = split_points(whole, share, seed)
    both = np.concatenate([splits.train.x, splits.test.x])
    assert sorted(both) == whole.x.tolist()
    assert len(splits.test.x) == max(1, round(share * count)) and len(splits.train.x) >= 2
    np.testing.assert_array_equal(splits.test.y, splits.test.x * 2)
    again = split_points(whole, share, seed)
    np.testing.assert_array_equal(again.test.x, splits.test.x)


def test_split_points_rejects_small_sets() -> None:
    two = Points("two.txt", np.arange(2.0), np.arange(2.0))
    with pytest.raises(
        DataError, match=r"two.txt: got 2 points, of which 1 would be held out; expected"
    ):
        split_points(two, 0.2, 0)


# --- samplers -----------------------------------------------------------------------------------


@given(st.integers(1, 20), st.integers(1, 25), st.integers(0, 30))
def test_shuffled_batches_resume_at_any_step(count: int, size: int, start: int) -> None:
    whole = [rows.tolist() for rows in islice(shuffled_batches(count, size, 7), start + 25)]
    assert [rows.tolist() for rows in islice(shuffled_batches(count, size, 7, start), 25)] == whole[
        start:
    ]
    each = -(-count // size)
    assert sorted(sum(whole[:each], [])) == list(range(count))  # an epoch has every row once


def test_shuffled_batches_reshuffle_each_epoch() -> None:
    rounds = [np.concatenate(list(islice(shuffled_batches(30, 7, 1, 5 * n), 5))) for n in range(3)]
    assert not np.array_equal(rounds[0], rounds[1]) and not np.array_equal(rounds[1], rounds[2])
    other = np.concatenate(list(islice(shuffled_batches(30, 7, 2), 5)))
    assert not np.array_equal(rounds[0], other)


def test_evenly_spaced_rows_are_distinct_and_include_both_ends() -> None:
    assert evenly_spaced_rows(10, 4).tolist() == [0, 3, 6, 9]
    assert evenly_spaced_rows(3, 10).tolist() == [0, 1, 2]
    assert evenly_spaced_rows(5, 1).tolist() == [0]
