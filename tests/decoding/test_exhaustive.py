"""All sequences, against loops that write them out, and against a beam as wide as all of them."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.decoding import RepetitionConstraints, SpecialTokens, beam_search, exhaustive_search
from saccade.decoding.exhaustive import MAX_EXHAUSTIVE_SEQUENCES
from saccade.models import Bahdanau, BahdanauConfig, Transformer, TransformerConfig

SPECIAL_TOKENS = SpecialTokens(0, 1, (0,))
ALL = 10**6

sizes = st.tuples(st.integers(3, 4), st.sampled_from([0.3, 1.0, 4.0]))
alphas = st.sampled_from([0.0, 0.6, 1.0, 2.0])
batches = st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 4)), min_size=1, max_size=3)
constraints = st.sampled_from(
    [
        RepetitionConstraints(),
        RepetitionConstraints(repetition_penalty=1.5),
        RepetitionConstraints(no_repeat_ngram_size=2),
        RepetitionConstraints(0.7, 1),
    ]
)


def sentences(batch):
    seeds, max_lengths = zip(*batch, strict=True)
    return torch.tensor(seeds), torch.tensor(max_lengths)


def written_out(table, seed, limit, alpha):
    """(score, ids, finished) of every sequence, by itertools, best first."""
    found = []
    words = [
        v for v in range(table.vocab_size) if v not in (SPECIAL_TOKENS.bos, SPECIAL_TOKENS.eos)
    ]
    for tokens in range(1, limit + 1):
        for body in itertools.product(words, repeat=tokens - 1):
            for last in [SPECIAL_TOKENS.eos, *words] if tokens == limit else [SPECIAL_TOKENS.eos]:
                whole = [*body, last]
                total = sum(
                    float(table.logits(seed, whole[:t]).log_softmax(0)[whole[t]])
                    for t in range(tokens)
                )
                ids = whole[:-1] if last == SPECIAL_TOKENS.eos else whole
                found.append((total / ((5 + tokens) / 6) ** alpha, ids, last == SPECIAL_TOKENS.eos))
    return sorted(found, key=lambda one: -one[0])


def agree(some, others):
    assert [(a.ids, a.finished) for a in some] == [(b.ids, b.finished) for b in others]
    for figure in ("score", "log_probability"):
        one, other = ([getattr(a, figure) for a in answers] for answers in (some, others))
        assert one == pytest.approx(other, abs=1e-9)


@settings(deadline=None, max_examples=30)
@given(size=sizes, batch=batches, alpha=alphas)
def test_exhaustive_enumerates_all_sequences(toy, size, batch, alpha):
    table = toy(*size)
    memory, max_lengths = sentences(batch)
    found = exhaustive_search(
        table,
        memory,
        special_tokens=SPECIAL_TOKENS,
        max_lengths=max_lengths,
        n_best=ALL,
        length_penalty=alpha,
    )
    for answers, (seed, limit) in zip(found, batch, strict=True):
        expected = written_out(table, seed, limit, alpha)
        assert [(a.ids, a.finished) for a in answers] == [one[1:] for one in expected]
        assert [a.score for a in answers] == pytest.approx([one[0] for one in expected])
    n_best_two = exhaustive_search(
        table,
        memory,
        special_tokens=SPECIAL_TOKENS,
        max_lengths=max_lengths,
        n_best=2,
        length_penalty=alpha,
    )
    assert n_best_two == [answers[:2] for answers in found]


@settings(deadline=None, max_examples=30)
@given(size=sizes, batch=batches, alpha=alphas, rule=constraints)
def test_exhaustive_equals_beam_of_unlimited_width(toy, size, batch, alpha, rule):
    table = toy(*size)
    memory, max_lengths = sentences(batch)
    options = {
        "special_tokens": SPECIAL_TOKENS,
        "max_lengths": max_lengths,
        "length_penalty": alpha,
        "constraints": rule,
    }
    found = exhaustive_search(table, memory, **options, n_best=ALL)
    beam_width = max(map(len, found))
    # n_best = width: the beam does not stop early
    wide = beam_search(table, memory, **options, width=beam_width, n_best=beam_width)
    # and where it does, it still has the best
    early = beam_search(table, memory, **options, width=beam_width, n_best=1)
    for answers, many, one in zip(found, wide, early, strict=True):
        agree(many, answers)
        agree(one, answers[:1])


def tiny(kind, vocab_size):
    sizes = {"source_vocab_size": 6, "target_vocab_size": vocab_size}
    if kind == "transformer":
        config = TransformerConfig(**sizes, width=8, heads=2, hidden=8, depth=2)
        return Transformer(config).double().eval()
    return Bahdanau(BahdanauConfig(**sizes, width=6)).double().eval()


@pytest.mark.parametrize("kind", ["bahdanau", "transformer"])
def test_exhaustive_equals_beam_on_real_models(kind):
    model = tiny(kind, 4)
    source, lengths = torch.randint(6, (3, 5)), torch.tensor([5, 2, 4])
    options = {
        "special_tokens": SpecialTokens(0, 1, ()),
        "max_lengths": torch.tensor([4, 2, 3]),
        "length_penalty": 0.0,
    }
    with torch.no_grad():
        memory = model.encode(source, lengths)
    found = exhaustive_search(model, memory, **options, n_best=ALL)
    # three words besides the end mark: those that end after 0, 1, … of them, and those that fill
    assert [len(answers) for answers in found] == [1 + 3 + 9 + 27 + 81, 1 + 3 + 9, 1 + 3 + 9 + 27]
    for answers in found:
        assert sum(math.exp(a.log_probability) for a in answers) == pytest.approx(1)
    for answers, wide in zip(
        found, beam_search(model, memory, **options, width=121, n_best=121), strict=True
    ):
        agree(wide, answers)


def test_exhaustive_is_independent_of_batch(toy):
    table, memory, max_lengths = toy(4), torch.tensor([3, 4, 5]), torch.tensor([3, 1, 4])
    together = exhaustive_search(
        table, memory, special_tokens=SPECIAL_TOKENS, max_lengths=max_lengths, n_best=5
    )
    for row in (2, 0, 1):
        one = slice(row, row + 1)
        assert exhaustive_search(
            table,
            memory[one],
            special_tokens=SPECIAL_TOKENS,
            max_lengths=max_lengths[one],
            n_best=5,
        ) == [together[row]]


def test_exhaustive_without_candidates_has_one_hypothesis(toy):
    [[answer]] = exhaustive_search(
        toy(2),
        torch.tensor([0]),
        special_tokens=SPECIAL_TOKENS,
        max_lengths=torch.tensor([3]),
        n_best=9,
    )
    assert answer.ids == [] and answer.finished


def test_exhaustive_propagates_nan(toy):
    class Broken(toy):
        def logits(self, seed, prefix):
            return super().logits(seed, prefix) * torch.nan

    [answers] = exhaustive_search(
        Broken(4),
        torch.tensor([0]),
        special_tokens=SPECIAL_TOKENS,
        max_lengths=torch.tensor([2]),
        n_best=3,
    )
    assert len(answers) == 3 and all(math.isnan(answer.score) for answer in answers)


@pytest.mark.parametrize(
    ("limit", "options", "message"),
    [
        (0, {}, "a maximum length of 0 tokens; expected 1 or more"),
        (2, {"n_best": 0}, "got n_best 0 .* expected n_best of 1 or more"),
        (2, {"length_penalty": -1.0}, "length_penalty -1.0; .* a penalty of 0 or more"),
        (7, {}, r"got 1.0e\+07 sequences of 7 out of 10 tokens; expected at most 1,000,000"),
    ],
)
def test_exhaustive_refuses_invalid_settings(toy, limit, options, message):
    with pytest.raises(ValueError, match=message):
        exhaustive_search(
            toy(12),
            torch.tensor([0]),
            special_tokens=SPECIAL_TOKENS,
            max_lengths=torch.tensor([limit]),
            **options,
        )


def test_exhaustive_limit_is_between_the_tested_sizes(toy):
    assert (
        10**6 <= MAX_EXHAUSTIVE_SEQUENCES < 10**7
    )  # so that the case above is refused for its size


def test_exhaustive_builds_no_autograd_graph(toy):
    class Learning(toy):
        def step(self, ids, state):
            assert not torch.is_grad_enabled()
            return super().step(ids, state)

    exhaustive_search(
        Learning(3), torch.tensor([0]), special_tokens=SPECIAL_TOKENS, max_lengths=torch.tensor([2])
    )
