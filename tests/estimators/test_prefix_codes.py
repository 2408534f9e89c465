"""Prefix codes: mean lengths, Huffman's code against all others, and entropy."""

from itertools import product

import numpy as np
import pytest

from saccade.estimators.prefix_codes import (
    check_prefix_code,
    entropy_bits,
    huffman_code,
    mean_code_length,
)

WEATHER = {"sun": 0.5, "rain": 0.25, "fog": 0.125, "snow": 0.125}


@pytest.mark.parametrize(
    ("words", "bits"),
    [("10 110 0 111", 2.25), ("0 110 10 111", 1.875), ("0 10 110 111", 1.75)],
)
def test_mean_length_of_three_weather_codes(words: str, bits: float) -> None:
    code = dict(zip(WEATHER, words.split(), strict=True))
    assert mean_code_length(code, WEATHER) == bits
    assert bits >= entropy_bits(WEATHER) == 1.75


def test_huffman_code_is_shorter_than_every_other_prefix_code() -> None:
    weights = dict(zip("abcd", np.random.default_rng(0).random(4).tolist(), strict=True))
    best = mean_code_length(huffman_code(weights), weights)
    words = ["".join(bits) for size in (1, 2, 3) for bits in product("01", repeat=size)]
    lengths = []
    for chosen in product(words, repeat=4):
        code = dict(zip("abcd", chosen, strict=True))
        try:
            lengths.append(mean_code_length(code, weights))
        except ValueError:  # not a prefix code
            continue
    assert len(lengths) > 100
    assert best == pytest.approx(min(lengths))
    assert entropy_bits(weights) <= best < entropy_bits(weights) + 1


def test_wrong_codes_are_refused() -> None:
    with pytest.raises(ValueError, match="got 1 for 'a' and 10 for 'b'"):
        check_prefix_code({"b": "10", "a": "1"})
    with pytest.raises(ValueError, match="got the code word '12' of 'a'"):
        check_prefix_code({"a": "12"})
    with pytest.raises(ValueError, match="of other symbols: b"):
        mean_code_length({"a": "0"}, {"a": 1.0, "b": 2.0})
    with pytest.raises(ValueError, match="expected some above 0"):
        huffman_code({"a": -1.0})
    assert huffman_code({"a": 3.0}) == {"a": "0"}
