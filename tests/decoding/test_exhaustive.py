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
def test_it_is_all_there_is(toy, size, batch, alpha):
    table = toy(*size)
    memory, max_lengths = sentences(batch)
    found = exhaustive_search(
        table,
        memory,
        special_tokens=SPECIAL_TOKENS,
        max_lengths=max_lengths,
        n_best=ALL,
        alpha=alpha,
    )
    for answers, (seed, limit) in zip(found, batch, strict=True):
        expected = written_out(table, seed, limit, alpha)
        assert [(a.ids, a.finished) for a in answers] == [one[1:] for one in expected]
        assert [a.score for a in answers] == pytest.approx([one[0] for one in expected])
    few = exhaustive_search(
        table, memory, special_tokens=SPECIAL_TOKENS, max_lengths=max_lengths, n_best=2, alpha=alpha
    )
    assert few == [answers[:2] for answers in found]


@settings(deadline=None, max_examples=30)
@given(size=sizes, batch=batches, alpha=alphas, rule=constraints)
def test_a_beam_as_wide_as_all_there_is_finds_the_same(toy, size, batch, alpha, rule):
    table = toy(*size)
    memory, max_lengths = sentences(batch)
    how = {
        "special_tokens": SPECIAL_TOKENS,
        "max_lengths": max_lengths,
        "alpha": alpha,
        "constraints": rule,
    }
    found = exhaustive_search(table, memory, **how, n_best=ALL)
    most = max(map(len, found))
    # n_best = width: the beam does not stop early
    wide = beam_search(table, memory, **how, width=most, n_best=most)
    # and where it does, it still has the best
    early = beam_search(table, memory, **how, width=most, n_best=1)
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
def test_it_holds_of_real_models(kind):
    model = tiny(kind, 4)
    source, lengths = torch.randint(6, (3, 5)), torch.tensor([5, 2, 4])
    how = {
        "special_tokens": SpecialTokens(0, 1, ()),
        "max_lengths": torch.tensor([4, 2, 3]),
        "alpha": 0.0,
    }
    with torch.no_grad():
        memory = model.encode(source, lengths)
    found = exhaustive_search(model, memory, **how, n_best=ALL)
    # three words besides the end mark: those that end after 0, 1, … of them, and those that fill
    assert [len(answers) for answers in found] == [1 + 3 + 9 + 27 + 81, 1 + 3 + 9, 1 + 3 + 9 + 27]
    for answers in found:
        assert sum(math.exp(a.log_probability) for a in answers) == pytest.approx(1)
    for answers, wide in zip(
        found, beam_search(model, memory, **how, width=121, n_best=121), strict=True
    ):
        agree(wide, answers)


def test_an_answer_does_not_depend_on_its_neighbours(toy):
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


def test_where_there_are_no_words_there_is_one_answer(toy):
    [[answer]] = exhaustive_search(
        toy(2),
        torch.tensor([0]),
        special_tokens=SPECIAL_TOKENS,
        max_lengths=torch.tensor([3]),
        n_best=9,
    )
    assert answer.ids == [] and answer.finished


def test_a_model_that_gives_nan_gives_answers_that_are_nan(toy):
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
    ("limit", "how", "said"),
    [
        (0, {}, "a limit of 0 tokens .* wanted at least 1"),
        (2, {"n_best": 0}, "the 0 best .* wanted n_best of 1 or more"),
        (2, {"alpha": -1.0}, "length penalty -1.0 .* a penalty of 0 or more"),
        (7, {}, r"sequences of 7 out of 10 tokens .* 1.0e\+07 of them; wanted at most 1,000,000"),
    ],
)
def test_what_cannot_be_is_refused(toy, limit, how, said):
    with pytest.raises(ValueError, match=said):
        exhaustive_search(
            toy(12),
            torch.tensor([0]),
            special_tokens=SPECIAL_TOKENS,
            max_lengths=torch.tensor([limit]),
            **how,
        )


def test_what_is_refused_would_have_been_too_much(toy):
    assert (
        10**6 <= MAX_EXHAUSTIVE_SEQUENCES < 10**7
    )  # so that the case above is refused for what it says


def test_it_leaves_no_graph_behind(toy):
    class Learning(toy):
        def step(self, ids, state):
            assert not torch.is_grad_enabled()
            return super().step(ids, state)

    exhaustive_search(
        Learning(3), torch.tensor([0]), special_tokens=SPECIAL_TOKENS, max_lengths=torch.tensor([2])
    )
