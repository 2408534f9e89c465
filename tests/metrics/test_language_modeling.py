"""Entropy, perplexity and bits, by hand, by loops and against torch."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from saccade import metrics
from saccade.metrics.language_modeling import (
    bits_per_character,
    bits_per_word,
    distribution_cross_entropy,
    entropy,
    kl_divergence,
    perplexity,
    text_cross_entropy,
)


@st.composite
def two_distributions(draw):
    size = draw(st.integers(1, 8))
    counts = st.lists(st.integers(0, 20), min_size=size, max_size=size).filter(any)
    p, q = np.array(draw(counts), float), np.array(draw(counts), float) + 1
    return p / p.sum(), q / q.sum()


log_probabilities = st.lists(st.floats(-20, 0), min_size=1, max_size=20)
bases = st.sampled_from([2.0, math.e, 10.0])

# --- distributions ------------------------------------------------------------------------------


def test_entropy_worked_by_hand():
    assert entropy([0.5, 0.25, 0.125, 0.125]) == pytest.approx(1.75)  # four kinds of weather
    assert entropy([1.0, 0.0]) == 0
    assert str(entropy([1.0, 0.0])) == "0.0"
    assert entropy([1 / 6] * 6, base=math.e) == pytest.approx(math.log(6))
    assert distribution_cross_entropy([0.5, 0.5], [0.25, 0.75]) == pytest.approx(
        1 + 0.5 * math.log2(4 / 3)
    )
    assert distribution_cross_entropy([1, 0, 0], [0.4, 0.3, 0.3], math.e) == pytest.approx(
        0.916, abs=5e-4
    )
    assert kl_divergence([0.5, 0.5], [0.25, 0.75]) == pytest.approx(0.5 * math.log2(4 / 3))


WEATHER = {"fine": 0.5, "cloudy": 0.25, "rain": 0.125, "snow": 0.125}
CODES = [  # no code word is a prefix of another
    ({"fine": "10", "cloudy": "110", "rain": "0", "snow": "111"}, 2.25),
    ({"fine": "0", "cloudy": "110", "rain": "10", "snow": "111"}, 1.875),
    ({"fine": "0", "cloudy": "10", "rain": "110", "snow": "111"}, 1.75),
]


@pytest.mark.parametrize(("code", "bits"), CODES)
def test_a_code_for_the_weather_takes_the_cross_entropy(code, bits):
    p = list(WEATHER.values())
    words = [code[weather] for weather in WEATHER]
    length = sum(chance * len(word) for chance, word in zip(p, words, strict=True))
    assert length == bits
    q = [2.0 ** -len(word) for word in words]  # what the code was made for
    assert metrics.distribution_cross_entropy(p, q) == pytest.approx(length)
    assert metrics.kl_divergence(p, q) == pytest.approx(length - 1.75)
    assert metrics.entropy(p) == pytest.approx(1.75)
    assert length >= 1.75  # none takes less
    assert metrics.entropy(p, math.e) == pytest.approx(1.75 * math.log(2))


def test_perplexity_of_weather_text_matches_entropy():
    days = ["fine"] * 4 + ["cloudy"] * 2 + ["rain", "snow"]
    surprises = [math.log(WEATHER[day]) for day in days]
    assert metrics.text_cross_entropy(surprises).value == pytest.approx(1.75)
    assert metrics.text_cross_entropy(surprises, math.e).value == pytest.approx(1.75 * math.log(2))
    assert metrics.perplexity(surprises).value == pytest.approx(2**1.75)


@given(two_distributions(), bases)
def test_language_modeling_equals_definition(both, base):
    p, q = both
    terms = list(zip(p.tolist(), q.tolist(), strict=True))
    assert entropy(p, base) == pytest.approx(
        sum(-a * math.log(a, base) for a in p.tolist() if a), abs=1e-12
    )
    assert distribution_cross_entropy(p, q, base) == pytest.approx(
        sum(-a * math.log(b, base) for a, b in terms)
    )
    assert kl_divergence(p, q, base) == pytest.approx(
        sum(a * math.log(a / b, base) for a, b in terms if a), abs=1e-9
    )


@given(two_distributions())
def test_guessing_another_distribution_never_pays(both):
    p, q = both
    assert distribution_cross_entropy(p, q) >= entropy(p) - 1e-12
    assert kl_divergence(p, q) >= 0 == kl_divergence(p, p)
    assert 0 <= entropy(p) <= math.log2(len(p)) + 1e-12
    assert entropy([1 / len(p)] * len(p)) == pytest.approx(math.log2(len(p)))


@given(two_distributions())
def test_language_modeling_agrees_with_torch(both):
    p, q = map(torch.tensor, both)
    theirs = torch.distributions.Categorical(p).entropy().item()
    assert entropy(p, math.e) == pytest.approx(theirs, abs=1e-6)  # torch cuts p off near 0
    theirs = torch.nn.functional.kl_div(q.log(), p, reduction="sum").item()
    assert kl_divergence(p, q, math.e) == pytest.approx(theirs, abs=1e-9)


def test_cross_entropy_is_infinite_outside_support():
    assert distribution_cross_entropy([0.5, 0.5], [1.0, 0.0]) == math.inf
    assert kl_divergence([0.5, 0.5], [1.0, 0.0]) == math.inf
    assert kl_divergence([1.0, 0.0], [0.5, 0.5]) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("p", "q", "message"),
    [
        ([3, 1], [0.5, 0.5], "p with a minimum of 1 and a sum of 4; .* dividing counts"),
        ([0.5, 0.5], [-0.5, 1.5], "q with a minimum of -0.5"),
        ([0.5, 0.5], [math.nan, 1.0], "q with a minimum of nan"),
        ([0.5, 0.5], [1.0], "p with 2 outcomes and q with 1"),
        ([], [], r"p of shape \(0,\); expected a one-dimensional array"),
        ([[1.0]], [1.0], r"p of shape \(1, 1\)"),
    ],
)
def test_entropy_refuses_invalid_distribution(p, q, message):
    with pytest.raises(ValueError, match=message):
        distribution_cross_entropy(p, q)


def test_entropy_refuses_invalid_base():
    with pytest.raises(ValueError, match="got base 1.0; expected more than 1: 2 for bits"):
        entropy([1.0], base=1.0)


# --- a text under a model -----------------------------------------------------------------------


@given(log_probabilities)
def test_perplexity_is_the_root_of_one_over_the_probability(values):
    found = perplexity(values)
    assert found.value == pytest.approx(math.exp(-sum(values)) ** (1 / len(values)))
    assert found.num_events == len(values)
    assert found.value == pytest.approx(2 ** text_cross_entropy(values).value)
    nats = text_cross_entropy(values, base=math.e)
    assert nats.value == pytest.approx(-sum(values) / len(values))
    assert (nats.unit, nats.num_events) == ("nats per event", len(values))
    assert text_cross_entropy(values).unit == "bits per event"


def test_a_blind_guess_among_v_has_perplexity_v_and_a_sure_one_has_one():
    assert perplexity([math.log(1 / 50)] * 7).value == pytest.approx(50)
    assert perplexity([0.0] * 7).value == 1
    assert str(text_cross_entropy([0.0]).value) == "0.0"


def test_perplexity_is_no_harmonic_mean():
    # choices of 2 and 8: their geometric mean is 4, their harmonic mean 3.2
    assert perplexity([math.log(1 / 2), math.log(1 / 8)]).value == pytest.approx(4)


def test_cross_entropy_equals_torch():
    logits, target = torch.randn(30, 9, dtype=torch.float64), torch.randint(9, (30,))
    values = logits.log_softmax(dim=-1)[torch.arange(30), target]
    loss = torch.nn.functional.cross_entropy(logits, target).item()
    assert text_cross_entropy(values, base=math.e).value == pytest.approx(loss)
    assert perplexity(values).value == pytest.approx(math.exp(loss))


def test_a_text_guessed_by_its_own_frequencies_costs_its_entropy():
    text = "abracadabra"
    shares = {letter: text.count(letter) / len(text) for letter in text}
    values = [math.log(shares[letter]) for letter in text]
    assert bits_per_character(values, text).value == pytest.approx(entropy(list(shares.values())))


def test_figures_by_character_and_word_do_not_depend_on_the_pieces():
    text = "née à\nParis"
    pieces = [math.log(0.5), math.log(0.25), math.log(0.125)]  # 6 bits in all
    for values in (pieces, [sum(pieces)]):
        assert bits_per_character(values, text) == (pytest.approx(6 / 11), 11, "bits per character")
        assert bits_per_word(values, text) == (pytest.approx(2.0), 3, "bits per word")
        assert perplexity(values, num_events=3).value == pytest.approx(4.0)
        assert text_cross_entropy(values, num_events=3) == (pytest.approx(2.0), 3, "bits per event")


def test_an_impossible_event_is_seen():
    assert perplexity([-1.0, -math.inf]).value == math.inf
    assert perplexity([-1000.0]).value == math.inf
    assert bits_per_character([-math.inf], "a").value == math.inf
    assert math.isnan(perplexity([-1.0, math.nan]).value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: perplexity([]), "got no log-probabilities"),
        (
            lambda: perplexity([-1.0, 2.5]),
            "log-probability of 2.5; .* a loss has the opposite sign",
        ),
        (lambda: bits_per_character([-1.0], ""), "got 0 events; expected 1 or more"),
        (lambda: bits_per_word([-1.0], " \n"), "got 0 events"),
        (lambda: text_cross_entropy([-1.0], base=0.5), "got base 0.5"),
    ],
)
def test_perplexity_refuses_invalid_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
