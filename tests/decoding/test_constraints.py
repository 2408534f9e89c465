"""Rules against writing the same again: against loops, another library, and in every search."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.decoding import (
    NO_CONSTRAINTS,
    RepetitionConstraints,
    SpecialTokens,
    beam_search,
    exhaustive_search,
    greedy_search,
    repeated_ngrams,
    repetition_penalty,
    sample,
)

SPECIAL_TOKENS = SpecialTokens(0, 1, (0,))
ALL = 10**6
RULES = [
    RepetitionConstraints(repetition_penalty=1.7),
    RepetitionConstraints(repetition_penalty=0.6),
    *(RepetitionConstraints(no_repeat_ngram_size=n) for n in (1, 2, 3)),
]
RULES.append(RepetitionConstraints(repetition_penalty=1.3, no_repeat_ngram_size=2))
every_rule = pytest.mark.parametrize("constraints", RULES, ids=str)


@st.composite
def histories(draw):
    """Generated ids of each row, and the logits of the next."""
    R, T, V = draw(st.integers(1, 4)), draw(st.integers(0, 9)), draw(st.integers(1, 4))
    torch.manual_seed(draw(st.integers(0, 2**32 - 1)))
    return torch.randint(V, (R, T)), torch.randn(R, V, dtype=torch.float64)


def has_twice(ids, n):
    runs = [tuple(ids[i : i + n]) for i in range(len(ids) - n + 1)]
    return len(set(runs)) < len(runs)


@settings(deadline=None, max_examples=60)
@given(histories(), st.sampled_from([0.5, 1.0, 1.2, 3.0]))
def test_constraints_repetition_penalty_divides_or_multiplies(history, penalty):
    generated_ids, logits = history
    expected = logits.clone()
    for row, tokens in enumerate(generated_ids.tolist()):
        for token in set(tokens):
            x = expected[row, token]
            expected[row, token] = x / penalty if x > 0 else x * penalty
    found = repetition_penalty(logits, generated_ids, penalty)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


@settings(deadline=None, max_examples=100)
@given(histories(), st.integers(1, 4))
def test_constraints_block_repeated_ngrams(history, n):
    generated_ids, logits = history
    V = logits.shape[1]
    found = repeated_ngrams(generated_ids, n, V)
    for row, tokens in enumerate(generated_ids.tolist()):
        runs = [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]
        newest = tokens[len(tokens) - n + 1 :]
        for token in range(V):
            blocked = len(tokens) >= n and (*newest, token) in runs
            assert bool(found[row, token]) == blocked


@settings(deadline=None, max_examples=40)
@given(histories(), st.sampled_from([0.5, 1.2, 3.0]), st.integers(1, 4))
def test_constraints_equal_hugging_face(history, penalty, n):
    peer = pytest.importorskip("transformers.generation.logits_process")
    generated_ids, logits = history
    theirs = peer.RepetitionPenaltyLogitsProcessor(penalty)
    torch.testing.assert_close(
        repetition_penalty(logits, generated_ids, penalty), theirs(generated_ids, logits.clone())
    )
    theirs = peer.NoRepeatNGramLogitsProcessor(n)
    blocked = theirs(generated_ids, logits.clone()) == -torch.inf
    assert torch.equal(repeated_ngrams(generated_ids, n, logits.shape[1]), blocked)


# --- in searches --------------------------------------------------------------------------------

batches = st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 5)), min_size=1, max_size=3)


def sentences(batch):
    seeds, max_lengths = zip(*batch, strict=True)
    return torch.tensor(seeds), torch.tensor(max_lengths)


def slow_next(table, seed, generated_ids, constraints):
    """The log-probabilities of what may follow, by token, one by one."""
    logits = table.logits(seed, generated_ids).tolist()
    for token in set(generated_ids):
        x = logits[token]
        logits[token] = (
            x / constraints.repetition_penalty if x > 0 else x * constraints.repetition_penalty
        )
    values = torch.tensor(logits, dtype=torch.float64).log_softmax(0).tolist()
    return {
        token: value
        for token, value in enumerate(values)
        if token != SPECIAL_TOKENS.bos
        and not (
            constraints.no_repeat_ngram_size
            and has_twice([*generated_ids, token], constraints.no_repeat_ngram_size)
        )
    }


@every_rule
@settings(deadline=None, max_examples=15)
@given(batch=batches, sharpness=st.sampled_from([0.5, 3.0]))
def test_constraints_apply_in_greedy_search(toy, constraints, batch, sharpness):
    table = toy(4, sharpness)
    memory, max_lengths = sentences(batch)
    found = greedy_search(
        table,
        memory,
        special_tokens=SPECIAL_TOKENS,
        max_lengths=max_lengths,
        constraints=constraints,
    )
    for answer, (seed, limit) in zip(found, batch, strict=True):
        generated_ids, total = [], 0.0
        while len(generated_ids) < limit and SPECIAL_TOKENS.eos not in generated_ids:
            options = slow_next(table, seed, generated_ids, constraints)
            token = max(options, key=options.__getitem__)
            generated_ids.append(token)
            total += options[token]
        assert answer.finished == (generated_ids[-1] == SPECIAL_TOKENS.eos)
        assert answer.ids == [token for token in generated_ids if token != SPECIAL_TOKENS.eos]
        assert answer.log_probability == pytest.approx(total, abs=1e-9)


@every_rule
@settings(deadline=None, max_examples=15)
@given(batch=batches, sharpness=st.sampled_from([0.5, 3.0]))
def test_constraints_of_width_one_is_greedy(toy, constraints, batch, sharpness):
    table = toy(4, sharpness)
    memory, max_lengths = sentences(batch)
    plain = greedy_search(
        table,
        memory,
        special_tokens=SPECIAL_TOKENS,
        max_lengths=max_lengths,
        constraints=constraints,
    )
    one = beam_search(
        table,
        memory,
        special_tokens=SPECIAL_TOKENS,
        max_lengths=max_lengths,
        width=1,
        constraints=constraints,
    )
    assert [[answer.ids] for answer in plain] == [[a.ids for a in answers] for answers in one]
    assert [a.score for a in plain] == pytest.approx([answers[0].score for answers in one])


@every_rule
@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 10**6), width=st.integers(2, 5))
def test_constraints_equals_reference_beam(toy, constraints, seed, width):
    table, limit = toy(4, 2.0), 5
    open_, done = [(0.0, [])], []
    for tokens in range(1, limit + 1):
        grown = [
            (total + value, [*generated_ids, token])
            for total, generated_ids in open_
            for token, value in slow_next(table, seed, generated_ids, constraints).items()
        ]
        best = sorted(grown, key=lambda one: -one[0])[: width - len(done)]
        ended = [one for one in best if one[1][-1] == SPECIAL_TOKENS.eos or tokens == limit]
        open_ = [one for one in best if one not in ended]
        done += [(total / ((5 + tokens) / 6), generated_ids) for total, generated_ids in ended]
    done.sort(key=lambda one: -one[0])
    [found] = beam_search(
        table,
        torch.tensor([seed]),
        special_tokens=SPECIAL_TOKENS,
        max_lengths=torch.tensor([limit]),
        width=width,
        n_best=width,
        constraints=constraints,
    )
    assert [a.ids + [SPECIAL_TOKENS.eos] * a.finished for a in found] == [
        generated_ids for _, generated_ids in done
    ]
    assert [a.score for a in found] == pytest.approx([score for score, _ in done], abs=1e-9)


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 3))
def test_constraints_blocking_keeps_other_log_probabilities(toy, seed, n):
    how = {"special_tokens": SPECIAL_TOKENS, "max_lengths": torch.tensor([5]), "n_best": ALL}
    [free] = exhaustive_search(toy(4), torch.tensor([seed]), **how)
    [blocked] = exhaustive_search(
        toy(4),
        torch.tensor([seed]),
        **how,
        constraints=RepetitionConstraints(no_repeat_ngram_size=n),
    )
    assert blocked == [answer for answer in free if not has_twice(answer.ids, n)]
    assert 0 < len(blocked) < len(free)


@every_rule
def test_constraints_is_independent_of_batch(toy, constraints):
    table, seeds, max_lengths = toy(5, 2.0), torch.arange(20), torch.tensor([1, 3, 5, 7] * 5)
    how = {"special_tokens": SPECIAL_TOKENS, "constraints": constraints}
    plain = greedy_search(table, seeds, max_lengths=max_lengths, **how)
    wide = beam_search(table, seeds, max_lengths=max_lengths, width=3, **how)
    for row in range(20):
        one = slice(row, row + 1)
        assert greedy_search(table, seeds[one], max_lengths=max_lengths[one], **how) == [plain[row]]
        assert beam_search(table, seeds[one], max_lengths=max_lengths[one], width=3, **how) == [
            wide[row]
        ]


@every_rule
def test_constraints_apply_in_every_search(toy, constraints):
    """Or nothing above would mean a thing."""
    table, seeds, max_lengths = toy(5, 2.0), torch.arange(30), torch.full((30,), 6)
    how = {"special_tokens": SPECIAL_TOKENS, "max_lengths": max_lengths}
    for search in (
        greedy_search,
        lambda *a, **k: sample(*a, **k, seeds=range(30)),
        lambda *a, **k: [answers[0] for answers in beam_search(*a, **k, width=3)],
    ):
        free, ruled = (
            search(table, seeds, **how),
            search(table, seeds, **how, constraints=constraints),
        )
        assert [a.ids for a in free] != [a.ids for a in ruled]
        if constraints.no_repeat_ngram_size:
            assert any(has_twice(answer.ids, constraints.no_repeat_ngram_size) for answer in free)
            assert not any(
                has_twice(answer.ids, constraints.no_repeat_ngram_size) for answer in ruled
            )


def test_constraints_that_never_apply_leave_results(toy):
    table, seeds, max_lengths = toy(4, 2.0), torch.arange(10), torch.full((10,), 5)
    free = greedy_search(table, seeds, special_tokens=SPECIAL_TOKENS, max_lengths=max_lengths)
    never = greedy_search(
        table,
        seeds,
        special_tokens=SPECIAL_TOKENS,
        max_lengths=max_lengths,
        constraints=RepetitionConstraints(no_repeat_ngram_size=6),
    )
    assert (
        never
        == free
        == greedy_search(
            table,
            seeds,
            special_tokens=SPECIAL_TOKENS,
            max_lengths=max_lengths,
            constraints=NO_CONSTRAINTS,
        )
    )


def test_constraints_repetition_penalty_equals_worked_example(toy):
    class Constant(toy):
        def logits(self, seed, prefix):
            return torch.tensor([9.0, -9.0, 3.0, 2.0, 1.4, -1.0], dtype=torch.float64)

    # 3.0; then 1.5 < 2.0; then 1.0 and 1.5 are left of them, above 1.4: the first again, for good
    how = {"special_tokens": SPECIAL_TOKENS, "max_lengths": torch.tensor([5])}
    [answer] = greedy_search(
        Constant(6),
        torch.tensor([0]),
        **how,
        constraints=RepetitionConstraints(repetition_penalty=2.0),
    )
    assert answer.ids == [2, 3, 2, 2, 2]
    [answer] = greedy_search(
        Constant(6),
        torch.tensor([0]),
        **how,
        constraints=RepetitionConstraints(no_repeat_ngram_size=1),
    )
    assert answer.ids == [2, 3, 4, 5] and answer.finished  # then only the end mark is left


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        (
            RepetitionConstraints(repetition_penalty=0.0),
            "a repetition penalty of 0.0; expected more than 0",
        ),
        (RepetitionConstraints(repetition_penalty=float("nan")), "a repetition penalty of nan"),
        (
            RepetitionConstraints(no_repeat_ngram_size=-1),
            "n-grams of -1 tokens .* expected 1 or more",
        ),
    ],
)
def test_constraints_refuse_invalid_values(toy, constraints, message):
    with pytest.raises(ValueError, match=message):
        greedy_search(
            toy(4),
            torch.tensor([0]),
            special_tokens=SPECIAL_TOKENS,
            max_lengths=torch.tensor([3]),
            constraints=constraints,
        )
