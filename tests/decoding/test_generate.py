"""Searches against plain Python: all sequences written out, and a slow beam that never stops early.

The model is a table: the logits are drawn by a generator seeded with the sentence and the prefix.
"""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.decoding import (
    AutoregressiveModel,
    SpecialTokens,
    beam_search,
    greedy_search,
    length_penalty,
)
from saccade.decoding.generate import blockwise_topk, compaction_order
from saccade.types.shapes import DecoderState

BEGIN, END = 0, 1
SPECIAL_TOKENS = SpecialTokens(BEGIN, END, (BEGIN,))


class Table:
    """Logits that are a function of the sentence and the prefix, and of nothing else."""

    def __init__(self, vocab_size, sharpness=1.0, towards_end=0.0):
        self.vocab_size, self.sharpness, self.towards_end = vocab_size, sharpness, towards_end
        self.known = {}
        self.rows = []  # (hypotheses, sentences) of each step

    def logits(self, seed, prefix):
        if (seed, prefix) not in self.known:
            number = hash((seed, *prefix)) % 2**62
            drawn = torch.randn(
                self.vocab_size,
                dtype=torch.float64,
                generator=torch.Generator().manual_seed(number),
            )
            drawn *= self.sharpness
            drawn[END] += self.towards_end
            self.known[seed, prefix] = drawn
        return self.known[seed, prefix]

    def init_state(self, memory):
        return DecoderState(memory, torch.empty(len(memory), 0, dtype=torch.long))

    def step(self, ids, state):
        memory, cache = state
        self.rows.append((len(ids), len(memory)))
        assert len(cache) == len(ids)
        now = torch.cat([cache, ids], dim=1)
        seeds = memory.repeat_interleave(len(ids) // len(memory)).tolist()
        logits = [
            torch.stack(
                [
                    self.logits(seed, tuple(row[:t]))
                    for t in range(cache.shape[1] + 1, now.shape[1] + 1)
                ]
            )
            for seed, row in zip(seeds, now.tolist(), strict=True)
        ]
        return torch.stack(logits), DecoderState(memory, now)

    def next(self, seed, written, forbidden=SPECIAL_TOKENS.forbidden):
        """The log-probabilities of what may follow, by token."""
        table = self.logits(seed, (BEGIN, *written)).log_softmax(0).tolist()
        return {token: value for token, value in enumerate(table) if token not in forbidden}


def by_hand(total, tokens, alpha):
    return total / ((5 + tokens) / 6) ** alpha


def all_sequences(table, seed, limit, alpha):
    """(score, ids, finished) of every sequence there is, best first."""
    found = []
    words = [token for token in range(table.vocab_size) if token not in (BEGIN, END)]
    for tokens in range(1, limit + 1):
        for body in itertools.product(words, repeat=tokens - 1):
            for last in [END, *words] if tokens == limit else [END]:
                whole = (*body, last)
                total = sum(table.next(seed, whole[:t])[whole[t]] for t in range(tokens))
                ids = list(body) if last == END else list(whole)
                found.append((by_hand(total, tokens, alpha), ids, last == END))
    return sorted(found, key=lambda one: -one[0])


def slow_beam(table, seed, limit, width, n_best, alpha, forbidden=SPECIAL_TOKENS.forbidden):
    """A beam whose ended hypotheses keep their places, run to its end whatever it has found.

    Gives the best, and how many hypotheses were open at each step.
    """
    open_, done, counts = [(0.0, ())], [], []
    for tokens in range(1, limit + 1):
        counts.append(len(open_))
        free = width - len(done)
        candidates = [
            (total + value, (*written, token))
            for total, written in open_
            for token, value in table.next(seed, written, forbidden).items()
        ]
        candidates.sort(key=lambda one: -one[0])
        open_ = []
        for total, written in candidates[:free]:
            if written[-1] == END:
                done.append((by_hand(total, tokens, alpha), list(written[:-1]), True))
            elif tokens == limit:
                done.append((by_hand(total, tokens, alpha), list(written), False))
            else:
                open_.append((total, written))
    return sorted(done, key=lambda one: -one[0])[:n_best], counts


def shown(answers):
    """As the slow ways give them, with room for rounding."""
    return [(pytest.approx(a.score, abs=1e-9), a.ids, a.finished) for a in answers]


tables = st.builds(
    Table,
    st.integers(3, 5),
    st.sampled_from([0.3, 1.0, 4.0]),
    st.sampled_from([-1.0, 0.0, 2.0]),
)
alphas = st.sampled_from([0.0, 0.6, 1.0, 2.0])
batches = st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 5)), min_size=1, max_size=4)


def sentences(batch):
    seeds, max_lengths = zip(*batch, strict=True)
    return torch.tensor(seeds), torch.tensor(max_lengths)


def test_a_table_is_a_stepper():
    assert isinstance(Table(3), AutoregressiveModel)


@settings(deadline=None, max_examples=40)
@given(tables, st.integers(0, 10**6), st.integers(1, 4), alphas)
def test_a_beam_as_wide_as_all_there_is_finds_the_best_of_all(table, seed, limit, alpha):
    expected = all_sequences(table, seed, limit, alpha)
    total = sum(
        math.exp(score * length_penalty(len(ids) + finished, alpha))
        for score, ids, finished in expected
    )
    assert total <= 1 + 1e-9  # what is left is the chance of the marks that are never written
    found = beam_search(
        table,
        torch.tensor([seed]),
        special_tokens=SPECIAL_TOKENS,
        max_lengths=torch.tensor([limit]),
        width=len(expected),
        n_best=len(expected),
        alpha=alpha,
    )
    assert shown(found[0]) == expected


@settings(deadline=None, max_examples=40)
@given(tables, batches, st.integers(1, 5), st.data(), alphas)
def test_a_beam_is_the_slow_beam_and_stopping_early_changes_nothing(
    table, batch, width, data, alpha
):
    n_best = data.draw(st.integers(1, width))
    memory, max_lengths = sentences(batch)
    found = beam_search(
        table,
        memory,
        special_tokens=SPECIAL_TOKENS,
        max_lengths=max_lengths,
        width=width,
        n_best=n_best,
        alpha=alpha,
    )
    for answers, (seed, limit) in zip(found, batch, strict=True):
        assert shown(answers) == slow_beam(table, seed, limit, width, n_best, alpha)[0]


class TwoWays(Table):
    """Ends at once with chance 0.6, or goes on and on with 0.4 · 0.95ⁿ."""

    def logits(self, seed, prefix):
        chances = [0.0, 0.6, 0.4] if prefix == (BEGIN,) else [0.0, 0.05, 0.95]
        return torch.tensor(chances, dtype=torch.float64).log()


@pytest.mark.parametrize(
    ("n_best", "alpha", "steps"),
    [
        (1, 0.0, 1),  # log 0.4 is below log 0.6, and will only fall
        (1, 2.0, 6),  # log 0.4 / (11/6)² is above it: the long one may still win
        (2, 0.0, 6),  # the second best is not known yet
    ],
)
def test_it_stops_when_nothing_can_change_and_not_before(n_best, alpha, steps):
    table, max_lengths = TwoWays(3), torch.tensor([6])
    how = {"width": 2, "n_best": n_best, "alpha": alpha}
    [answers] = beam_search(
        table, torch.tensor([0]), special_tokens=SPECIAL_TOKENS, max_lengths=max_lengths, **how
    )
    assert shown(answers) == slow_beam(table, 0, 6, 2, n_best, alpha)[0]
    assert len(table.rows) == steps


def test_a_long_answer_may_overtake_one_that_ended_before_it():
    how = {
        "special_tokens": SPECIAL_TOKENS,
        "max_lengths": torch.tensor([6]),
        "width": 2,
        "n_best": 2,
    }
    [[first, second]] = beam_search(TwoWays(3), torch.tensor([0]), **how, alpha=0.0)
    assert (first.ids, second.ids) == ([], [2] * 6)
    [[first, second]] = beam_search(TwoWays(3), torch.tensor([0]), **how, alpha=2.0)
    assert (first.ids, second.ids) == ([2] * 6, [])
    assert not first.finished and second.finished
    assert first.log_probability == pytest.approx(math.log(0.4 * 0.95**5))
    assert first.score == pytest.approx(first.log_probability / (11 / 6) ** 2)
    assert second.score == pytest.approx(math.log(0.6))  # one token, the end mark: (6/6)² = 1


@settings(deadline=None, max_examples=40)
@given(tables, batches, alphas)
def test_greedy_takes_the_likeliest_token_each_time(table, batch, alpha):
    memory, max_lengths = sentences(batch)
    found = greedy_search(
        table, memory, special_tokens=SPECIAL_TOKENS, max_lengths=max_lengths, alpha=alpha
    )
    for answer, (seed, limit) in zip(found, batch, strict=True):
        written, total = [], 0.0
        while len(written) < limit and END not in written:
            token, value = max(table.next(seed, written).items(), key=lambda one: one[1])
            written.append(token)
            total += value
        finished = written[-1] == END
        assert answer.ids == (written[:-1] if finished else written)
        assert answer.finished == finished
        assert answer.log_probability == pytest.approx(total, abs=1e-9)
        assert answer.score == pytest.approx(by_hand(total, len(written), alpha), abs=1e-9)


@settings(deadline=None, max_examples=40)
@given(tables, batches, alphas)
def test_a_beam_of_one_is_greedy(table, batch, alpha):
    memory, max_lengths = sentences(batch)
    plain = greedy_search(
        table, memory, special_tokens=SPECIAL_TOKENS, max_lengths=max_lengths, alpha=alpha
    )
    one = beam_search(
        table, memory, special_tokens=SPECIAL_TOKENS, max_lengths=max_lengths, width=1, alpha=alpha
    )
    assert [answer.ids for answer in plain] == [answers[0].ids for answers in one]
    assert [answer.score for answer in plain] == pytest.approx([a[0].score for a in one])


@settings(deadline=None, max_examples=25)
@given(tables, batches, st.integers(2, 4), st.integers(1, 3))
def test_an_answer_stops_where_it_is_to_and_every_token_is_told(table, batch, last, width):
    memory, max_lengths = sentences(batch)
    special_tokens = SPECIAL_TOKENS._replace(should_stop=lambda ids: ids[-1] == last)
    heard = {}
    found = greedy_search(
        table,
        memory,
        special_tokens=special_tokens,
        max_lengths=max_lengths,
        on_token=lambda sentence, ids: heard.setdefault(sentence, []).append(list(ids)),
    )
    plain = greedy_search(table, memory, special_tokens=SPECIAL_TOKENS, max_lengths=max_lengths)
    for sentence, (stopped, whole) in enumerate(zip(found, plain, strict=True)):
        end = whole.ids.index(last) + 1 if last in whole.ids else len(whole.ids)
        assert stopped.ids == whole.ids[:end]
        assert stopped.finished == (last in whole.ids or whole.finished)
        assert heard.get(sentence, []) == [stopped.ids[: t + 1] for t in range(len(stopped.ids))]
    one = beam_search(
        table, memory, special_tokens=special_tokens, max_lengths=max_lengths, width=1
    )
    assert [answers[0].ids for answers in one] == [answer.ids for answer in found]
    for answers in beam_search(
        table,
        memory,
        special_tokens=special_tokens,
        max_lengths=max_lengths,
        width=width,
        n_best=width,
    ):
        assert all(last not in answer.ids[:-1] for answer in answers)


def alone(table, batch, **how):
    """Each sentence by itself: its answers, and the hypotheses it had at each step."""
    for seed, limit in batch:
        table.rows.clear()
        answers = beam_search(
            table,
            torch.tensor([seed]),
            special_tokens=SPECIAL_TOKENS,
            max_lengths=torch.tensor([limit]),
            **how,
        )
        assert all(memory == 1 for _, memory in table.rows)
        yield answers[0], [hypotheses for hypotheses, _ in table.rows]


@settings(deadline=None, max_examples=40)
@given(tables, batches, st.integers(1, 4), alphas)
def test_neighbours_change_nothing_and_the_finished_leave_the_batch(table, batch, width, alpha):
    how = {"width": width, "n_best": width, "alpha": alpha}
    apart = list(alone(table, batch, **how))
    for (_, grown), (seed, limit) in zip(apart, batch, strict=True):
        counts = slow_beam(table, seed, limit, width, width, alpha)[1]
        assert grown == counts[: len(grown)]  # no row for a hypothesis that is not there
    table.rows.clear()
    memory, max_lengths = sentences(batch)
    together = beam_search(
        table, memory, special_tokens=SPECIAL_TOKENS, max_lengths=max_lengths, **how
    )
    assert together == [answers for answers, _ in apart]
    # a row of memory for each sentence that is still open, whatever its hypotheses
    steps = max(len(grown) for _, grown in apart)
    expected = []
    for t in range(steps):
        still = [grown[t] for _, grown in apart if len(grown) > t]
        expected.append((len(still) * max(still), len(still)))
    assert table.rows == expected


@settings(deadline=None, max_examples=40)
@given(tables, batches)
def test_greedy_goes_on_only_with_those_that_have_not_ended(table, batch):
    memory, max_lengths = sentences(batch)
    found = greedy_search(table, memory, special_tokens=SPECIAL_TOKENS, max_lengths=max_lengths)
    steps = [len(answer.ids) + answer.finished for answer in found]
    expected = [sum(t < each for each in steps) for t in range(max(steps))]
    assert table.rows == [(rows, rows) for rows in expected]


@settings(deadline=None, max_examples=40)
@given(tables, batches, st.integers(1, 4))
def test_limits_are_each_sentences_own(table, batch, width):
    memory, max_lengths = sentences(batch)
    for answers, (_, limit) in zip(
        beam_search(
            table,
            memory,
            special_tokens=SPECIAL_TOKENS,
            max_lengths=max_lengths,
            width=width,
            n_best=width,
        ),
        batch,
        strict=True,
    ):
        for answer in answers:
            tokens = len(answer.ids) + answer.finished
            assert tokens <= limit
            assert answer.finished or tokens == limit


@settings(deadline=None, max_examples=40)
@given(tables, batches, st.integers(1, 4), st.data())
def test_what_is_never_written_is_never_written(table, batch, width, data):
    forbidden = data.draw(st.sets(st.integers(2, table.vocab_size - 1)))
    special_tokens = SpecialTokens(BEGIN, END, (BEGIN, *sorted(forbidden)))
    memory, max_lengths = sentences(batch)
    found = beam_search(
        table,
        memory,
        special_tokens=special_tokens,
        max_lengths=max_lengths,
        width=width,
        n_best=width,
    )
    for answers, (seed, limit) in zip(found, batch, strict=True):
        assert not {token for answer in answers for token in answer.ids} & set(
            special_tokens.forbidden
        )
        # and the chance it had is not given to the others
        assert (
            shown(answers)
            == slow_beam(table, seed, limit, width, width, 1.0, special_tokens.forbidden)[0]
        )
    for answer in greedy_search(
        table, memory, special_tokens=special_tokens, max_lengths=max_lengths
    ):
        assert not set(answer.ids) & set(special_tokens.forbidden)


def test_nothing_has_to_be_forbidden():
    table = Table(3, sharpness=5.0)
    special_tokens = SpecialTokens(BEGIN, END, ())
    max_lengths = torch.tensor([4] * 20)
    found = greedy_search(
        table, torch.arange(20), special_tokens=special_tokens, max_lengths=max_lengths
    )
    assert any(BEGIN in answer.ids for answer in found)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"width": 0}, r"a beam of 0 with 1 best .* wanted 1 ≤ n_best ≤ width"),
        ({"width": 2, "n_best": 3}, r"a beam of 2 with 3 best .* wanted 1 ≤ n_best ≤ width"),
        ({"width": 2, "n_best": 0}, r"a beam of 2 with 0 best"),
        ({"width": 2, "alpha": -0.5}, r"length penalty -0.5 .* a penalty of 0 or more"),
    ],
)
def test_a_beam_that_cannot_be_is_refused(how, said):
    with pytest.raises(ValueError, match=said):
        beam_search(
            Table(3),
            torch.tensor([0]),
            special_tokens=SPECIAL_TOKENS,
            max_lengths=torch.tensor([2]),
            **how,
        )


@pytest.mark.parametrize("search", [greedy_search, lambda *a, **k: beam_search(*a, **k, width=2)])
def test_a_limit_that_leaves_no_room_is_refused(search):
    with pytest.raises(ValueError, match="a limit of 0 tokens .* wanted at least 1"):
        search(
            Table(3),
            torch.tensor([0, 1]),
            special_tokens=SPECIAL_TOKENS,
            max_lengths=torch.tensor([0, 3]),
        )


def test_a_model_that_gives_nan_gives_answers_that_are_nan():
    """It is seen in the score, from a beam as from greedy search, and not by a missing answer."""

    class Broken(Table):
        def logits(self, seed, prefix):
            return torch.full((self.vocab_size,), torch.nan, dtype=torch.float64)

    memory, max_lengths = torch.tensor([0, 1]), torch.tensor([2, 3])
    for answer in greedy_search(
        Broken(4), memory, special_tokens=SPECIAL_TOKENS, max_lengths=max_lengths
    ):
        assert math.isnan(answer.score)
    for answers in beam_search(
        Broken(4), memory, special_tokens=SPECIAL_TOKENS, max_lengths=max_lengths, width=3, n_best=2
    ):
        assert len(answers) == 2
        assert all(math.isnan(answer.score) for answer in answers)


def test_a_search_leaves_no_graph_behind():
    weight = torch.ones(1, requires_grad=True)

    class Learning(Table):
        def step(self, ids, state):
            assert not torch.is_grad_enabled()
            logits, state = super().step(ids, state)
            return logits * weight, state

    for width in (1, 2):
        beam_search(
            Learning(3),
            torch.tensor([0]),
            special_tokens=SPECIAL_TOKENS,
            max_lengths=torch.tensor([2]),
            width=width,
        )
    greedy_search(
        Learning(3), torch.tensor([0]), special_tokens=SPECIAL_TOKENS, max_lengths=torch.tensor([2])
    )


# --- the likeliest of many, and who moves -------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 5), st.integers(1, 40_000), st.integers(1, 7), st.integers(0, 99))
def test_the_likeliest_by_blocks_are_those_of_topk(R, V, k, seed):
    torch.manual_seed(seed)
    table, k = torch.randn(R, V), min(k, V)
    table[:, :: 1 + seed % 5] = -torch.inf  # marks that are never written, and more of them
    values, places = blockwise_topk(table, k)
    wanted = table.topk(k, dim=-1)
    assert torch.equal(values, wanted.values)
    assert torch.equal(table.gather(1, places), wanted.values)
    assert all(len(set(row)) == k for row in places.tolist())


def test_a_number_that_is_none_is_seen_among_blocks():
    table = torch.zeros(2, 40_000)
    table[1, 12_345] = torch.nan
    values, places = blockwise_topk(table, 2)
    assert values[1, 0].isnan() and places[1, 0] == 12_345


@given(st.sets(st.integers(0, 30), min_size=1))
def test_those_that_stay_fill_the_holes_and_no_other_moves(stays):
    order = compaction_order(sorted(stays))
    assert set(order) == stays
    moved = [place for place, old in enumerate(order) if place != old]
    assert all(place not in stays for place in moved)
