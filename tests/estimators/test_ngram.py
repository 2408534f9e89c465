"""n-gram models: equal to slow counting, sums to one, driven by every search, and PTB's figure."""

import lzma
import math
from collections import Counter
from functools import cache
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.data.text.corpus import python_reference_text
from saccade.data.word_splitting import split_words
from saccade.decoding import SpecialTokens, beam_search, greedy_search
from saccade.decoding.protocol import AutoregressiveModel
from saccade.errors import ConfigError
from saccade.estimators.ngram.model import NGram
from saccade.estimators.ngram.smoothing import (
    NGRAM_SMOOTHINGS,
    absolute_discount,
    kneser_ney_discounts,
)
from saccade.io.tensors import read_tensors, write_tensors

V = 4
BOS = 0
SENTENCES = st.lists(
    st.lists(st.integers(1, V - 1), min_size=0, max_size=12), min_size=1, max_size=5
).filter(lambda sentences: any(sentences))


# --- the slow way: dictionaries, straight from the equations ------------------------------------


class Slow:
    """P(w | h) by recursion over grams held as tuples."""

    def __init__(
        self, sentences, order, vocab_size, smoothing, alpha=1.0, bos_id=None, cutoff=(1, 2)
    ):
        self.order, self.smoothing, self.alpha = order, smoothing, alpha
        self.min_count, self.min_count_order = cutoff
        self.outcomes = [w for w in range(vocab_size) if w != bos_id]
        fnv = () if bos_id is None else (bos_id,)
        self.texts = [fnv + tuple(sentence) for sentence in sentences]
        self.counts = [Counter() for _ in range(order + 1)]
        for text in self.texts:
            for n in range(1, order + 1):
                self.counts[n].update(text[i : i + n] for i in range(len(text) - n + 1))
        if bos_id is not None:
            del self.counts[1][(bos_id,)]
        self.seen = self.counts
        if smoothing == "kneser-ney":
            self.counts = [self.adjust(n, bos_id) for n in range(order + 1)]
        self.answer = cache(getattr(self, smoothing.replace("-", "_")))
        self.after = cache(self.after)

    def adjust(self, n, bos_id):
        if n == self.order or n == 0:
            return self.counts[n]
        before = {gram: set() for gram in self.counts[n]}
        starts = Counter()
        for text in self.texts:
            starts[text[:n]] += 1
            for i in range(1, len(text) - n + 1):
                before[text[i : i + n]].add(text[i - 1])
        if bos_id is None:
            starts = {gram: 1 for gram in starts}
        return {gram: len(seen) + starts.get(gram, 0) for gram, seen in before.items()}

    def after(self, h):
        found = {w: self.counts[len(h) + 1].get((*h, w), 0) for w in self.outcomes}
        return {w: times for w, times in found.items() if times}

    def p(self, w, h):
        h = tuple(h)[max(len(h) - self.order + 1, 0) :]
        return self.answer(w, h)

    def kept(self, h):
        """Those after h that are not left out."""
        return {
            w: times
            for w, times in self.after(h).items()
            if len(h) + 1 < self.min_count_order or self.seen[len(h) + 1][(*h, w)] >= self.min_count
        }

    def none(self, w, h):
        after = self.kept(h)
        return after.get(w, 0) / sum(after.values()) if after else self.answer(w, h[1:])

    def laplace(self, w, h):
        after = self.kept(h)
        room = sum(after.values()) + self.alpha * len(self.outcomes)
        return (after.get(w, 0) + self.alpha) / room

    def back_off(self, w, h):
        after, total = self.kept(h), sum(self.after(h).values())
        if not total:
            return self.answer(w, h[1:])
        n = Counter(self.counts[len(h) + 1].values())
        d = n[1] / (n[1] + 2 * n[2]) if n[1] and n[2] else 0.5
        unseen = [v for v in self.outcomes if v not in after]
        if not unseen:
            d = 0
        if w in after:
            return (after[w] - d) / total
        left = (d * len(after) + total - sum(after.values())) / total
        if not h:
            return left / len(unseen)
        return left * self.answer(w, h[1:]) / sum(self.answer(v, h[1:]) for v in unseen)

    def kneser_ney(self, w, h):
        after = self.after(h)
        lower = self.answer(w, h[1:]) if h else 1 / len(self.outcomes)
        if not after:
            return lower
        d = slow_discounts(Counter(self.counts[len(h) + 1].values()))
        total, kept = sum(after.values()), self.kept(h)
        taken = {v: d[min(times, 3)] if v in kept else times for v, times in after.items()}
        gamma = sum(taken.values()) / total
        return (after.get(w, 0) - taken.get(w, 0)) / total + gamma * lower


def slow_discounts(n):
    if n[1] and n[2] and n[3] and n[4]:
        y = n[1] / (n[1] + 2 * n[2])
        d = [0, 1 - 2 * y * n[2] / n[1], 2 - 3 * y * n[3] / n[2], 3 - 4 * y * n[4] / n[3]]
        if 0 < d[1] < 1 and 0 < d[2] < 2 and 0 < d[3] < 3:
            return d
    return [0, 0.5, 1.0, 1.5]


def arrays(sentences):
    return [np.array(sentence, np.int64) for sentence in sentences]


def every_context(longest):
    for length in range(longest + 1):
        yield from product(range(V), repeat=length)


@pytest.mark.parametrize("smoothing", NGRAM_SMOOTHINGS)
@pytest.mark.parametrize("bos_id", [None, BOS])
@given(
    sentences=SENTENCES,
    order=st.integers(1, 3),
    cutoff=st.tuples(st.integers(1, 3), st.integers(2, 3)),
)
@settings(deadline=None, max_examples=30)
def test_equals_slow_counting_and_sums_to_one_after_every_context(
    smoothing, bos_id, sentences, order, cutoff
):
    min_count, min_count_order = cutoff
    model = NGram(
        order,
        V,
        smoothing,
        alpha=0.3,
        bos_id=bos_id,
        min_count=min_count,
        min_count_order=min_count_order,
    ).fit(arrays(sentences))
    slow = Slow(sentences, order, V, smoothing, 0.3, bos_id, cutoff)
    for length in range(order + 1):  # up to one token more than counts
        contexts = list(product(range(V), repeat=length))
        found = model.distributions(np.array(contexts, np.int64).reshape(V**length, length))
        expected = [[slow.p(w, h) if w != bos_id else 0.0 for w in range(V)] for h in contexts]
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
        assert found.min() >= 0
        np.testing.assert_allclose(found.sum(axis=1), 1, rtol=0, atol=1e-12)


@pytest.fixture(scope="module")
def reference_words():
    """4,000 words of real text, of a vocabulary of 500 and the rest as one word."""
    words = split_words(python_reference_text().lower())[:4000]
    known = {word: id for id, (word, _) in enumerate(Counter(words).most_common(499), start=1)}
    return np.array([known.get(word, 0) for word in words])


@pytest.mark.parametrize("smoothing", ["back-off", "kneser-ney"])
def test_on_real_text_the_discounts_are_estimated_and_the_answer_is_the_slow_one(
    smoothing, reference_words
):
    learned, held_out = reference_words[:1000], reference_words[1000:1040]
    model = NGram(3, 500, smoothing).fit(learned)
    slow = Slow([learned.tolist()], 3, 500, smoothing)
    estimated = [level.discounts.tolist() for level in model.levels]
    assert [0.5, 1.0, 1.5] not in estimated and [0.5, 0.5, 0.5] not in estimated
    found = model.log_probabilities(held_out)
    for t, token in enumerate(held_out.tolist()):
        context = held_out[max(t - 2, 0) : t].tolist()
        assert math.exp(found[t]) == pytest.approx(slow.p(token, context), rel=1e-9)


@pytest.mark.parametrize("smoothing", NGRAM_SMOOTHINGS)
def test_rare_ngrams_of_a_real_text_are_left_out(smoothing, reference_words):
    whole, pruned = (
        NGram(3, 500, smoothing, min_count=min_count).fit(reference_words) for min_count in (1, 3)
    )
    slow = Slow([reference_words.tolist()], 3, 500, smoothing, cutoff=(3, 2))
    for n, (before, after) in enumerate(zip(whole.levels, pruned.levels, strict=True), start=1):
        frequent = [gram for gram, times in slow.seen[n].items() if times >= 3 or n == 1]
        assert len(after.keys) == len(frequent) <= len(before.keys)
        assert n == 1 or len(after.keys) < len(before.keys) / 4
    held_out = reference_words[::13][:40]
    found = np.exp(pruned.log_probabilities(held_out))
    for t, token in enumerate(held_out.tolist()):
        context = held_out[max(t - 2, 0) : t].tolist()
        assert found[t] == pytest.approx(slow.p(token, context), rel=1e-9)
    again = NGram.from_arrays(pruned.to_arrays())
    assert (again.min_count, again.min_count_order) == (3, 2)
    np.testing.assert_array_equal(np.exp(again.log_probabilities(held_out)), found)
    old = {name: array for name, array in pruned.to_arrays().items() if name != "cutoff"}
    assert NGram.from_arrays(old).min_count == 1  # as in runs of older versions


@pytest.mark.parametrize("min_count", [1, 3])
@pytest.mark.parametrize("smoothing", NGRAM_SMOOTHINGS)
def test_sums_to_one_after_every_context_of_a_real_text(smoothing, min_count, reference_words):
    model = NGram(4, 500, smoothing, min_count=min_count).fit(reference_words)
    seen = np.lib.stride_tricks.sliding_window_view(reference_words, 3)
    unseen = np.random.default_rng(1).integers(0, 500, (300, 3))
    for contexts in (seen[::7], unseen, seen[::50, :2], unseen[:, :1], unseen[:1, :0]):
        np.testing.assert_allclose(model.distributions(contexts).sum(axis=1), 1, atol=1e-12)


def test_katz_back_off_is_accurate_for_dense_counts():
    """Token 1 is followed by all but one token, after which hardly anything is left to give."""
    rng = np.random.default_rng(0)
    often = np.stack([np.ones(300_000, np.int64), rng.integers(1, 60, 300_000)], axis=1).ravel()
    model = NGram(3, 61, "back-off").fit(often)
    for context in ([1], [2, 1], [1, 1], [1, 2], [60, 1]):
        assert abs(model.distribution(context).sum() - 1) < 1e-12


@pytest.mark.parametrize("smoothing", NGRAM_SMOOTHINGS)
@given(sentences=SENTENCES, others=SENTENCES, marked=st.booleans())
@settings(deadline=None, max_examples=10)
def test_a_long_text_is_scored_as_token_by_token(smoothing, sentences, others, marked):
    bos_id = BOS if marked else None
    model = NGram(3, V, smoothing, bos_id=bos_id).fit(arrays(sentences))
    expected = []
    for sentence in others:
        whole = [BOS] * marked + sentence
        for t in range(marked, len(whole)):
            expected.append(model.log_probability(whole[:t], whole[t]))
            assert math.exp(expected[-1]) == pytest.approx(model.distribution(whole[:t])[whole[t]])
    np.testing.assert_allclose(model.log_probabilities(arrays(others)), expected, rtol=1e-12)


def test_no_gram_reaches_into_the_next_sentence():
    difference = NGram(2, V, "none").fit(arrays([[1, 2], [3, 2]]))
    assert difference.log_probability([2], 3) == math.log(1 / 4)  # what follows 2 was never seen
    joined = NGram(2, V, "none").fit(np.array([1, 2, 3, 2]))
    assert joined.log_probability([2], 3) == 0


def test_a_word_that_follows_one_word_only_is_unlikely_elsewhere():
    """San Francisco: often seen, but after one word; Kneser–Ney counts what it was seen after."""
    san, francisco, dog = 1, 2, 3
    text = [san, francisco] * 30 + [4, dog, 5, dog, 6, dog, 7, dog, 8, dog]
    model = NGram(2, 20, "kneser-ney").fit(np.array(text))
    plain = NGram(2, 20, "back-off").fit(np.array(text))
    assert model.log_probability([19], dog) > model.log_probability([19], francisco)
    assert plain.log_probability([19], dog) < plain.log_probability([19], francisco)


def test_discounts_by_hand():
    counts = np.repeat([1, 2, 3, 4], [40, 20, 10, 5])
    y = 40 / 80
    expected = [1 - 2 * y * 20 / 40, 2 - 3 * y * 10 / 20, 3 - 4 * y * 5 / 10]
    np.testing.assert_allclose(kneser_ney_discounts(counts), expected)
    assert absolute_discount(counts) == 0.5 == 40 / (40 + 2 * 20)
    assert absolute_discount(np.repeat([1, 2], [30, 5])) == 0.75
    np.testing.assert_array_equal(kneser_ney_discounts(np.array([1, 1, 2])), [0.5, 1, 1.5])
    rising = np.repeat([1, 2, 3, 4], [10, 5, 50, 5])  # would give a discount under 0
    np.testing.assert_array_equal(kneser_ney_discounts(rising), [0.5, 1, 1.5])


# --- as a stepper -------------------------------------------------------------------------------

SPECIAL_TOKENS = SpecialTokens(bos=BOS, eos=1, forbidden=(BOS,))


@pytest.fixture
def sayings():
    return NGram(3, 5, "kneser-ney", bos_id=BOS).fit(
        arrays([[2, 3, 4, 1], [2, 3, 3, 1], [4, 2, 1], [2, 3, 4, 4, 1]])
    )


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_ngram_step_by_step_equals_several_tokens(order):
    text = [2, 3, 4, 2, 1, 3, 3, 2, 4, 1]
    model = NGram(order, 5).fit(np.array(text))
    assert isinstance(model, AutoregressiveModel)
    ids = torch.tensor([[0, 2, 3, 4], [0, 4, 4, 1]])
    whole, _ = model.step(ids, model.init_state(ids))
    state, steps = model.init_state(ids), []
    for t in range(4):
        logits, state = model.step(ids[:, t : t + 1], state)
        steps.append(logits)
    torch.testing.assert_close(torch.cat(steps, dim=1), whole)
    for row, t in product(range(2), range(4)):
        expected = model.distribution(ids[row, : t + 1].tolist())
        np.testing.assert_allclose(whole[row, t].exp().numpy(), expected, rtol=1e-12)


def test_ngram_wide_beam_finds_best_sequence(sayings):
    limit = 4
    scores = {}
    for length in range(limit + 1):
        for ids in product((2, 3, 4), repeat=length):
            ended = [*ids, 1] if length < limit else list(ids)
            scores[ids] = sayings.log_probabilities(arrays([ended])).sum()
    best = sorted(scores, key=lambda ids: -scores[ids])[:5]
    found = beam_search(
        sayings,
        torch.zeros(1, 1),
        special_tokens=SPECIAL_TOKENS,
        max_lengths=torch.tensor([limit]),
        width=200,
        n_best=5,
        length_penalty=0.0,
    )[0]
    assert [tuple(answer.ids) for answer in found] == best
    for answer in found:
        assert answer.log_probability == pytest.approx(scores[tuple(answer.ids)])


def test_ngram_greedy_takes_best_token(sayings):
    max_lengths = torch.tensor([6, 1])
    first, second = greedy_search(
        sayings, torch.zeros(2, 1), special_tokens=SPECIAL_TOKENS, max_lengths=max_lengths
    )
    written = [BOS]
    while written[-1] != 1:
        written.append(int(sayings.distribution(written).argmax()))
    assert first.ids == written[1:-1] and second.ids == written[1:2]


# --- as a Markov chain --------------------------------------------------------------------------


def test_k_steps_are_the_sum_over_all_paths():
    model = NGram(2, 3, "laplace").fit(np.array([0, 1, 2, 2, 1, 0, 0, 1]))
    p = model.transition_matrix()
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-12)
    paths = np.zeros((3, 3))
    for path in product(range(3), repeat=4):
        paths[path[0], path[-1]] += math.exp(
            sum(model.log_probability([a], b) for a, b in zip(path, path[1:], strict=False))
        )
    np.testing.assert_allclose(model.k_step_transition_matrix(3), paths, rtol=1e-12)
    np.testing.assert_array_equal(model.k_step_transition_matrix(0), np.eye(3))


def test_the_stationary_distribution_stays_and_is_where_chains_end():
    model = NGram(2, 5, "kneser-ney", bos_id=BOS).fit(arrays([[1, 2, 3, 4, 2, 2, 3], [4, 1, 1]]))
    found = model.stationary_distribution()
    np.testing.assert_allclose(found @ model.transition_matrix(), found, atol=1e-14)
    assert found.sum() == pytest.approx(1, abs=1e-13) and found.min() >= 0 and found[BOS] == 0
    np.testing.assert_allclose(model.k_step_transition_matrix(200)[3], found, atol=1e-12)


def test_a_chain_that_goes_round_has_a_stationary_distribution_though_it_never_settles():
    model = NGram(2, 3, "none").fit(np.array([0, 1, 2, 0, 1, 2, 0]))
    np.testing.assert_allclose(model.stationary_distribution(), 1 / 3)
    assert (model.k_step_transition_matrix(1000) == model.k_step_transition_matrix(1)).all()


def test_stationary_distribution_refuses_reducible_chain():
    model = NGram(2, 4, "none").fit(arrays([[0, 1, 0], [2, 3, 2]]))
    with pytest.raises(ValueError, match="token 0 never reaches token 2.*smoothing"):
        model.stationary_distribution()


# --- kept, and misused --------------------------------------------------------------------------


@pytest.mark.parametrize("smoothing", NGRAM_SMOOTHINGS)
def test_a_model_kept_in_a_file_is_the_same_model(smoothing, tmp_path):
    texts = arrays([[1, 2, 3, 1, 2], [3, 3]])
    model = NGram(3, V, smoothing, alpha=0.5, bos_id=BOS).fit(texts)
    tensors = {name: torch.from_numpy(array) for name, array in model.to_arrays().items()}
    write_tensors(tmp_path / "model.safetensors", tensors, {})
    back, _ = read_tensors(tmp_path / "model.safetensors")
    again = NGram.from_arrays({name: tensor.numpy() for name, tensor in back.items()})
    assert (again.order, again.vocab_size, again.bos_id) == (3, V, BOS)
    assert (again.smoothing, again.alpha) == (smoothing, 0.5)
    for context in every_context(2):
        np.testing.assert_array_equal(again.distribution(context), model.distribution(context))


def test_ngram_refuses_invalid_input():
    with pytest.raises(ConfigError, match="no smoothing 'kneserney'. Did you mean 'kneser-ney'"):
        NGram(2, V, "kneserney")
    with pytest.raises(ValueError, match="got order 0.*expected an order of 1 or more"):
        NGram(0, V)
    with pytest.raises(ValueError, match="got min_count 0 .*expected a count of 1 or more"):
        NGram(2, V, min_count=0)
    with pytest.raises(ValueError, match="min_count_order 1; .* single tokens are always kept"):
        NGram(2, V, min_count_order=1)
    with pytest.raises(ValueError, match="bos_id 9; expected 0 to 3"):
        NGram(2, V, bos_id=9)
    with pytest.raises(ValueError, match="not fitted; call fit"):
        NGram(2, V).distribution([1])
    with pytest.raises(ValueError, match=r"got the id 4; expected 0 to 3 \(vocab_size"):
        NGram(2, V).fit(np.array([1, 4]))
    with pytest.raises(ValueError, match="shape .2, 2.* one-dimensional array of integers"):
        NGram(2, V).fit(np.ones((2, 2), np.int64))
    with pytest.raises(ValueError, match="dtype float64"):
        NGram(2, V).fit(np.array([1.5, 2.0]))
    with pytest.raises(ValueError, match="a text without tokens"):
        NGram(2, V, bos_id=0).fit(arrays([[], []]))
    with pytest.raises(ValueError, match="bos_id 0 inside a sequence"):
        NGram(2, V, bos_id=0).fit(np.array([1, 0, 2]))
    fitted = NGram(3, V).fit(np.array([1, 2, 3]))
    with pytest.raises(ValueError, match="got the id 7; expected 0 to 3"):
        fitted.distribution([7])
    with pytest.raises(ValueError, match="order 3.*expected order 2"):
        fitted.transition_matrix()
    with pytest.raises(ValueError, match="'keys.3' is missing.*all arrays of to_arrays"):
        NGram.from_arrays({k: v for k, v in fitted.to_arrays().items() if k != "keys.3"})
    with pytest.raises(ValueError, match="-1 steps; expected 0"):
        NGram(2, V).fit(np.array([1, 2])).k_step_transition_matrix(-1)


@pytest.mark.long
@pytest.mark.parametrize(("order", "perplexity"), [(5, 141.2), (3, 148.3)])
def test_the_published_figures_of_the_penn_treebank(dataset, order, perplexity):
    """KN5 141.2 and KN3 148.3 (Mikolov et al. 2011): no cut-offs, the sentence's end predicted."""
    folder = dataset("ptb")

    def sentences(name):
        with lzma.open(folder / f"ptb.{name}.txt.xz", "rt", encoding="utf-8") as file:
            return [line.split() for line in file]

    words = sorted({word for sentence in sentences("train") for word in sentence})
    ids = {word: id for id, word in enumerate(words, start=2)}
    train, test = (
        [np.array([ids[word] for word in sentence] + [1]) for sentence in sentences(name)]
        for name in ("train", "test")
    )
    model = NGram(order, len(ids) + 2, "kneser-ney", bos_id=0).fit(train)
    scores = model.log_probabilities(test)
    assert len(ids) == 9_999 and len(scores) == 82_430
    assert math.exp(-scores.mean()) == pytest.approx(perplexity, abs=0.1)
