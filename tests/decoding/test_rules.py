"""Rules against writing the same again: against loops, another library, and in every search."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.decoding import (
    NO_RULES,
    Marks,
    Rules,
    beam,
    exhaustive,
    greedy,
    repeats,
    repetition_penalty,
    sample,
)

MARKS = Marks(0, 1, (0,))
ALL = 10**6
RULES = [Rules(repetition=1.7), Rules(repetition=0.6), *(Rules(no_repeat=n) for n in (1, 2, 3))]
RULES.append(Rules(repetition=1.3, no_repeat=2))
every_rule = pytest.mark.parametrize("rules", RULES, ids=str)


@st.composite
def histories(draw):
    """What each row has written, and the logits of what may come next."""
    R, T, V = draw(st.integers(1, 4)), draw(st.integers(0, 9)), draw(st.integers(1, 4))
    torch.manual_seed(draw(st.integers(0, 2**32 - 1)))
    return torch.randint(V, (R, T)), torch.randn(R, V, dtype=torch.float64)


def has_twice(ids, n):
    runs = [tuple(ids[i : i + n]) for i in range(len(ids) - n + 1)]
    return len(set(runs)) < len(runs)


@settings(deadline=None, max_examples=60)
@given(histories(), st.sampled_from([0.5, 1.0, 1.2, 3.0]))
def test_what_was_written_is_divided_or_multiplied(history, penalty):
    written, logits = history
    expected = logits.clone()
    for row, tokens in enumerate(written.tolist()):
        for token in set(tokens):
            x = expected[row, token]
            expected[row, token] = x / penalty if x > 0 else x * penalty
    found = repetition_penalty(logits, written, penalty)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


@settings(deadline=None, max_examples=100)
@given(histories(), st.integers(1, 4))
def test_a_token_is_blocked_if_it_would_complete_a_run_a_second_time(history, n):
    written, logits = history
    V = logits.shape[1]
    found = repeats(written, n, V)
    for row, tokens in enumerate(written.tolist()):
        runs = [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]
        newest = tokens[len(tokens) - n + 1 :]
        for token in range(V):
            blocked = len(tokens) >= n and (*newest, token) in runs
            assert bool(found[row, token]) == blocked


@settings(deadline=None, max_examples=40)
@given(histories(), st.sampled_from([0.5, 1.2, 3.0]), st.integers(1, 4))
def test_both_are_hugging_faces(history, penalty, n):
    peer = pytest.importorskip("transformers.generation.logits_process")
    written, logits = history
    theirs = peer.RepetitionPenaltyLogitsProcessor(penalty)
    torch.testing.assert_close(
        repetition_penalty(logits, written, penalty), theirs(written, logits.clone())
    )
    theirs = peer.NoRepeatNGramLogitsProcessor(n)
    blocked = theirs(written, logits.clone()) == -torch.inf
    assert torch.equal(repeats(written, n, logits.shape[1]), blocked)


# --- in searches --------------------------------------------------------------------------------

batches = st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 5)), min_size=1, max_size=3)


def sentences(batch):
    seeds, limits = zip(*batch, strict=True)
    return torch.tensor(seeds), torch.tensor(limits)


def slow_next(table, seed, written, rules):
    """The log-probabilities of what may follow, by token, one by one."""
    logits = table.logits(seed, written).tolist()
    for token in set(written):
        x = logits[token]
        logits[token] = x / rules.repetition if x > 0 else x * rules.repetition
    values = torch.tensor(logits, dtype=torch.float64).log_softmax(0).tolist()
    return {
        token: value
        for token, value in enumerate(values)
        if token != MARKS.begin
        and not (rules.no_repeat and has_twice([*written, token], rules.no_repeat))
    }


@every_rule
@settings(deadline=None, max_examples=15)
@given(batch=batches, sharpness=st.sampled_from([0.5, 3.0]))
def test_greedy_search_keeps_them(toy, rules, batch, sharpness):
    table = toy(4, sharpness)
    memory, limits = sentences(batch)
    found = greedy(table, memory, marks=MARKS, limits=limits, rules=rules)
    for answer, (seed, limit) in zip(found, batch, strict=True):
        written, total = [], 0.0
        while len(written) < limit and MARKS.end not in written:
            options = slow_next(table, seed, written, rules)
            token = max(options, key=options.__getitem__)
            written.append(token)
            total += options[token]
        assert answer.finished == (written[-1] == MARKS.end)
        assert answer.ids == [token for token in written if token != MARKS.end]
        assert answer.log_probability == pytest.approx(total, abs=1e-9)


@every_rule
@settings(deadline=None, max_examples=15)
@given(batch=batches, sharpness=st.sampled_from([0.5, 3.0]))
def test_a_beam_of_one_is_greedy(toy, rules, batch, sharpness):
    table = toy(4, sharpness)
    memory, limits = sentences(batch)
    plain = greedy(table, memory, marks=MARKS, limits=limits, rules=rules)
    one = beam(table, memory, marks=MARKS, limits=limits, width=1, rules=rules)
    assert [[answer.ids] for answer in plain] == [[a.ids for a in answers] for answers in one]
    assert [a.score for a in plain] == pytest.approx([answers[0].score for answers in one])


@every_rule
@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 10**6), width=st.integers(2, 5))
def test_a_beam_is_a_slow_beam(toy, rules, seed, width):
    table, limit = toy(4, 2.0), 5
    open_, done = [(0.0, [])], []
    for tokens in range(1, limit + 1):
        grown = [
            (total + value, [*written, token])
            for total, written in open_
            for token, value in slow_next(table, seed, written, rules).items()
        ]
        best = sorted(grown, key=lambda one: -one[0])[: width - len(done)]
        ended = [one for one in best if one[1][-1] == MARKS.end or tokens == limit]
        open_ = [one for one in best if one not in ended]
        done += [(total / ((5 + tokens) / 6), written) for total, written in ended]
    done.sort(key=lambda one: -one[0])
    [found] = beam(
        table,
        torch.tensor([seed]),
        marks=MARKS,
        limits=torch.tensor([limit]),
        width=width,
        n_best=width,
        rules=rules,
    )
    assert [a.ids + [MARKS.end] * a.finished for a in found] == [written for _, written in done]
    assert [a.score for a in found] == pytest.approx([score for score, _ in done], abs=1e-9)


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 3))
def test_blocking_takes_answers_away_and_leaves_the_others_their_probability(toy, seed, n):
    how = {"marks": MARKS, "limits": torch.tensor([5]), "n_best": ALL}
    [free] = exhaustive(toy(4), torch.tensor([seed]), **how)
    [blocked] = exhaustive(toy(4), torch.tensor([seed]), **how, rules=Rules(no_repeat=n))
    assert blocked == [answer for answer in free if not has_twice(answer.ids, n)]
    assert 0 < len(blocked) < len(free)


@every_rule
def test_neighbours_change_nothing(toy, rules):
    table, seeds, limits = toy(5, 2.0), torch.arange(20), torch.tensor([1, 3, 5, 7] * 5)
    how = {"marks": MARKS, "rules": rules}
    plain = greedy(table, seeds, limits=limits, **how)
    wide = beam(table, seeds, limits=limits, width=3, **how)
    for row in range(20):
        one = slice(row, row + 1)
        assert greedy(table, seeds[one], limits=limits[one], **how) == [plain[row]]
        assert beam(table, seeds[one], limits=limits[one], width=3, **how) == [wide[row]]


@every_rule
def test_every_search_is_changed(toy, rules):
    """Or nothing above would mean a thing."""
    table, seeds, limits = toy(5, 2.0), torch.arange(30), torch.full((30,), 6)
    how = {"marks": MARKS, "limits": limits}
    for search in (
        greedy,
        lambda *a, **k: sample(*a, **k, seeds=range(30)),
        lambda *a, **k: [answers[0] for answers in beam(*a, **k, width=3)],
    ):
        free, ruled = search(table, seeds, **how), search(table, seeds, **how, rules=rules)
        assert [a.ids for a in free] != [a.ids for a in ruled]
        if rules.no_repeat:
            assert any(has_twice(answer.ids, rules.no_repeat) for answer in free)
            assert not any(has_twice(answer.ids, rules.no_repeat) for answer in ruled)


def test_a_rule_that_never_applies_changes_nothing(toy):
    table, seeds, limits = toy(4, 2.0), torch.arange(10), torch.full((10,), 5)
    free = greedy(table, seeds, marks=MARKS, limits=limits)
    never = greedy(table, seeds, marks=MARKS, limits=limits, rules=Rules(no_repeat=6))
    assert never == free == greedy(table, seeds, marks=MARKS, limits=limits, rules=NO_RULES)


def test_repetition_worked_by_hand(toy):
    class Constant(toy):
        def logits(self, seed, prefix):
            return torch.tensor([9.0, -9.0, 3.0, 2.0, 1.4, -1.0], dtype=torch.float64)

    # 3.0; then 1.5 < 2.0; then 1.0 and 1.5 are left of them, above 1.4: the first again, for good
    how = {"marks": MARKS, "limits": torch.tensor([5])}
    [answer] = greedy(Constant(6), torch.tensor([0]), **how, rules=Rules(repetition=2.0))
    assert answer.ids == [2, 3, 2, 2, 2]
    [answer] = greedy(Constant(6), torch.tensor([0]), **how, rules=Rules(no_repeat=1))
    assert answer.ids == [2, 3, 4, 5] and answer.finished  # then only the end mark is left


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        (Rules(repetition=0.0), "a repetition penalty of 0.0 .* wanted more than 0"),
        (Rules(repetition=float("nan")), "a repetition penalty of nan"),
        (Rules(no_repeat=-1), "runs of -1 tokens .* wanted 1 or more"),
    ],
)
def test_rules_that_cannot_be_are_refused(toy, rules, said):
    with pytest.raises(ValueError, match=said):
        greedy(toy(4), torch.tensor([0]), marks=MARKS, limits=torch.tensor([3]), rules=rules)
