"""Searches against plain Python: all sequences written out, and a slow beam that never stops early.

The model is a table: the logits are drawn by a generator seeded with the sentence and the prefix.
"""

import itertools
import math
import re

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
from saccade.decoding.greedy import blockwise_topk, compaction_order
from saccade.errors import ConfigError
from saccade.types.shapes import DecoderState

BOS, EOS = 0, 1
SPECIAL_TOKENS = SpecialTokens(BOS, EOS, (BOS,))


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
            drawn[EOS] += self.towards_end
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

    def next(self, seed, generated_ids, forbidden=SPECIAL_TOKENS.forbidden):
        """The log-probabilities of what may follow, by token."""
        table = self.logits(seed, (BOS, *generated_ids)).log_softmax(0).tolist()
        return {token: value for token, value in enumerate(table) if token not in forbidden}


def by_hand(total, tokens, alpha):
    return total / ((5 + tokens) / 6) ** alpha


def all_sequences(table, seed, limit, alpha):
    """(score, ids, finished) of every sequence there is, best first."""
    found = []
    words = [token for token in range(table.vocab_size) if token not in (BOS, EOS)]
    for tokens in range(1, limit + 1):
        for body in itertools.product(words, repeat=tokens - 1):
            for last in [EOS, *words] if tokens == limit else [EOS]:
                whole = (*body, last)
                total = sum(table.next(seed, whole[:t])[whole[t]] for t in range(tokens))
                ids = list(body) if last == EOS else list(whole)
                found.append((by_hand(total, tokens, alpha), ids, last == EOS))
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
            (total + value, (*generated_ids, token))
            for total, generated_ids in open_
            for token, value in table.next(seed, generated_ids, forbidden).items()
        ]
        candidates.sort(key=lambda one: -one[0])
        open_ = []
        for total, generated_ids in candidates[:free]:
            if generated_ids[-1] == EOS:
                done.append((by_hand(total, tokens, alpha), list(generated_ids[:-1]), True))
            elif tokens == limit:
                done.append((by_hand(total, tokens, alpha), list(generated_ids), False))
            else:
                open_.append((total, generated_ids))
    return sorted(done, key=lambda one: -one[0])[:n_best], counts


def comparable(answers):
    """Return hypotheses in the form of the reference searches, rounded."""
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


def test_beam_table_satisfies_protocol():
    assert isinstance(Table(3), AutoregressiveModel)


@settings(deadline=None, max_examples=40)
@given(tables, st.integers(0, 10**6), st.integers(1, 4), alphas)
def test_beam_of_unlimited_width_finds_the_best_sequence(table, seed, limit, alpha):
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
        length_penalty=alpha,
    )
    assert comparable(found[0]) == expected


@settings(deadline=None, max_examples=40)
@given(tables, batches, st.integers(1, 5), st.data(), alphas)
def test_beam_equals_reference_beam_without_early_stopping(table, batch, width, data, alpha):
    n_best = data.draw(st.integers(1, width))
    memory, max_lengths = sentences(batch)
    found = beam_search(
        table,
        memory,
        special_tokens=SPECIAL_TOKENS,
        max_lengths=max_lengths,
        width=width,
        n_best=n_best,
        length_penalty=alpha,
    )
    for answers, (seed, limit) in zip(found, batch, strict=True):
        assert comparable(answers) == slow_beam(table, seed, limit, width, n_best, alpha)[0]


class TwoWays(Table):
    """Ends immediately with probability 0.6, or continues with 0.4 · 0.95ⁿ."""

    def logits(self, seed, prefix):
        chances = [0.0, 0.6, 0.4] if prefix == (BOS,) else [0.0, 0.05, 0.95]
        return torch.tensor(chances, dtype=torch.float64).log()


@pytest.mark.parametrize(
    ("n_best", "alpha", "steps"),
    [
        (1, 0.0, 1),  # log 0.4 is below log 0.6, and will only fall
        (1, 2.0, 6),  # log 0.4 / (11/6)² is above it: the long one may still win
        (2, 0.0, 6),  # the second best is not known yet
    ],
)
def test_beam_stops_early_only_when_safe(n_best, alpha, steps):
    table, max_lengths = TwoWays(3), torch.tensor([6])
    options = {"width": 2, "n_best": n_best, "length_penalty": alpha}
    [answers] = beam_search(
        table, torch.tensor([0]), special_tokens=SPECIAL_TOKENS, max_lengths=max_lengths, **options
    )
    assert comparable(answers) == slow_beam(table, 0, 6, 2, n_best, alpha)[0]
    assert len(table.rows) == steps


def test_beam_longer_hypothesis_can_overtake_ended_one():
    options = {
        "special_tokens": SPECIAL_TOKENS,
        "max_lengths": torch.tensor([6]),
        "width": 2,
        "n_best": 2,
    }
    [[first, second]] = beam_search(TwoWays(3), torch.tensor([0]), **options, length_penalty=0.0)
    assert (first.ids, second.ids) == ([], [2] * 6)
    [[first, second]] = beam_search(TwoWays(3), torch.tensor([0]), **options, length_penalty=2.0)
    assert (first.ids, second.ids) == ([2] * 6, [])
    assert not first.finished and second.finished
    assert first.log_probability == pytest.approx(math.log(0.4 * 0.95**5))
    assert first.score == pytest.approx(first.log_probability / (11 / 6) ** 2)
    assert second.score == pytest.approx(math.log(0.6))  # one token, the end mark: (6/6)² = 1


@settings(deadline=None, max_examples=40)
@given(tables, batches, alphas)
def test_beam_greedy_takes_the_argmax(table, batch, alpha):
    memory, max_lengths = sentences(batch)
    found = greedy_search(
        table, memory, special_tokens=SPECIAL_TOKENS, max_lengths=max_lengths, length_penalty=alpha
    )
    for answer, (seed, limit) in zip(found, batch, strict=True):
        generated_ids, total = [], 0.0
        while len(generated_ids) < limit and EOS not in generated_ids:
            token, value = max(table.next(seed, generated_ids).items(), key=lambda one: one[1])
            generated_ids.append(token)
            total += value
        finished = generated_ids[-1] == EOS
        assert answer.ids == (generated_ids[:-1] if finished else generated_ids)
        assert answer.finished == finished
        assert answer.log_probability == pytest.approx(total, abs=1e-9)
        assert answer.score == pytest.approx(by_hand(total, len(generated_ids), alpha), abs=1e-9)


@settings(deadline=None, max_examples=40)
@given(tables, batches, alphas)
def test_beam_of_width_one_is_greedy(table, batch, alpha):
    memory, max_lengths = sentences(batch)
    plain = greedy_search(
        table, memory, special_tokens=SPECIAL_TOKENS, max_lengths=max_lengths, length_penalty=alpha
    )
    one = beam_search(
        table,
        memory,
        special_tokens=SPECIAL_TOKENS,
        max_lengths=max_lengths,
        width=1,
        length_penalty=alpha,
    )
    assert [answer.ids for answer in plain] == [answers[0].ids for answers in one]
    assert [answer.score for answer in plain] == pytest.approx([a[0].score for a in one])


@settings(deadline=None, max_examples=25)
@given(tables, batches, st.integers(2, 4), st.integers(1, 3))
def test_beam_should_stop_and_on_token_are_called(table, batch, last, width):
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


def alone(table, batch, **options):
    """Each sentence by itself: its answers, and the hypotheses it had at each step."""
    for seed, limit in batch:
        table.rows.clear()
        answers = beam_search(
            table,
            torch.tensor([seed]),
            special_tokens=SPECIAL_TOKENS,
            max_lengths=torch.tensor([limit]),
            **options,
        )
        assert all(memory == 1 for _, memory in table.rows)
        yield answers[0], [hypotheses for hypotheses, _ in table.rows]


@settings(deadline=None, max_examples=40)
@given(tables, batches, st.integers(1, 4), alphas)
def test_beam_is_independent_of_batch_and_drops_finished(table, batch, width, alpha):
    options = {"width": width, "n_best": width, "length_penalty": alpha}
    separate = list(alone(table, batch, **options))
    for (_, grown), (seed, limit) in zip(separate, batch, strict=True):
        counts = slow_beam(table, seed, limit, width, width, alpha)[1]
        assert grown == counts[: len(grown)]  # no row for a hypothesis that is not there
    table.rows.clear()
    memory, max_lengths = sentences(batch)
    together = beam_search(
        table, memory, special_tokens=SPECIAL_TOKENS, max_lengths=max_lengths, **options
    )
    assert together == [answers for answers, _ in separate]
    # a row of memory for each sentence that is still open, whatever its hypotheses
    steps = max(len(grown) for _, grown in separate)
    expected = []
    for t in range(steps):
        still = [grown[t] for _, grown in separate if len(grown) > t]
        expected.append((len(still) * max(still), len(still)))
    assert table.rows == expected


@settings(deadline=None, max_examples=40)
@given(tables, batches)
def test_beam_greedy_drops_finished_rows(table, batch):
    memory, max_lengths = sentences(batch)
    found = greedy_search(table, memory, special_tokens=SPECIAL_TOKENS, max_lengths=max_lengths)
    steps = [len(answer.ids) + answer.finished for answer in found]
    expected = [sum(t < each for each in steps) for t in range(max(steps))]
    assert table.rows == [(rows, rows) for rows in expected]


@settings(deadline=None, max_examples=40)
@given(tables, batches, st.integers(1, 4))
def test_beam_maximum_lengths_are_per_example(table, batch, width):
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
def test_beam_never_generates_forbidden_tokens(table, batch, width, data):
    forbidden = data.draw(st.sets(st.integers(2, table.vocab_size - 1)))
    special_tokens = SpecialTokens(BOS, EOS, (BOS, *sorted(forbidden)))
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
            comparable(answers)
            == slow_beam(table, seed, limit, width, width, 1.0, special_tokens.forbidden)[0]
        )
    for answer in greedy_search(
        table, memory, special_tokens=special_tokens, max_lengths=max_lengths
    ):
        assert not set(answer.ids) & set(special_tokens.forbidden)


def test_beam_works_without_forbidden_tokens():
    table = Table(3, sharpness=5.0)
    special_tokens = SpecialTokens(BOS, EOS, ())
    max_lengths = torch.tensor([4] * 20)
    found = greedy_search(
        table, torch.arange(20), special_tokens=special_tokens, max_lengths=max_lengths
    )
    assert any(BOS in answer.ids for answer in found)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 0}, r"got width 0, n_best 1 .* expected 1 ≤ n_best ≤ width"),
        ({"width": 2, "n_best": 3}, r"got width 2, n_best 3 .* expected 1 ≤ n_best ≤ width"),
        ({"width": 2, "n_best": 0}, r"got width 2, n_best 0"),
        ({"width": 2, "length_penalty": -0.5}, r"length_penalty -0.5; .* a penalty of 0 or more"),
    ],
)
def test_beam_refuses_invalid_width(options, message):
    with pytest.raises(ValueError, match=message):
        beam_search(
            Table(3),
            torch.tensor([0]),
            special_tokens=SPECIAL_TOKENS,
            max_lengths=torch.tensor([2]),
            **options,
        )


@pytest.mark.parametrize("search", [greedy_search, lambda *a, **k: beam_search(*a, **k, width=2)])
def test_beam_refuses_maximum_length_of_zero(search):
    with pytest.raises(ValueError, match="a maximum length of 0 tokens; expected 1 or more"):
        search(
            Table(3),
            torch.tensor([0, 1]),
            special_tokens=SPECIAL_TOKENS,
            max_lengths=torch.tensor([0, 3]),
        )


def test_beam_propagates_nan():
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


def test_beam_builds_no_autograd_graph():
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


# --- blockwise top-k, and which rows moves -------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 5), st.integers(1, 40_000), st.integers(1, 7), st.integers(0, 99))
def test_beam_blockwise_topk_equals_topk(R, V, k, seed):
    torch.manual_seed(seed)
    table, k = torch.randn(R, V), min(k, V)
    table[:, :: 1 + seed % 5] = -torch.inf  # marks that are never written, and more of them
    values, positions = blockwise_topk(table, k)
    reference = table.topk(k, dim=-1)
    assert torch.equal(values, reference.values)
    assert torch.equal(table.gather(1, positions), reference.values)
    assert all(len(set(row)) == k for row in positions.tolist())


def test_beam_blockwise_topk_keeps_nan():
    table = torch.zeros(2, 40_000)
    table[1, 12_345] = torch.nan
    values, positions = blockwise_topk(table, 2)
    assert values[1, 0].isnan() and positions[1, 0] == 12_345


@given(st.sets(st.integers(0, 30), min_size=1))
def test_beam_compaction_order_moves_little(stays):
    order = compaction_order(sorted(stays))
    assert set(order) == stays
    moved = [position for position, old in enumerate(order) if position != old]
    assert all(position not in stays for position in moved)


def test_beam_that_does_not_fit_into_memory_is_refused_with_one_that_does(monkeypatch):
    monkeypatch.setattr("saccade.decoding.beam.UNCHECKED_BYTES", 0)
    monkeypatch.setattr("saccade.decoding.beam.available_memory", lambda: 20_000)
    monkeypatch.setattr("saccade.io.memory.available_memory", lambda: 20_000)
    options = dict(special_tokens=SPECIAL_TOKENS, max_lengths=torch.tensor([6]))
    memory = torch.tensor([3])
    with pytest.raises(ConfigError, match=r"a beam of 90, .* try a beam of \d+ or less") as refused:
        beam_search(Table(100), memory, width=90, **options)
    fitting = int(re.findall(r"a beam of (\d+) or less", str(refused.value))[0])
    assert 1 < fitting < 90
    assert beam_search(Table(100), memory, width=fitting, **options)
