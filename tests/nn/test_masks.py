from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from saccade.nn import Mask

Rule = Callable[[int, int, int], bool]  # row, query, key: may it see?


class Plan(NamedTuple):
    """A mask in plain Python: kinds of parts with their numbers, and the sizes they are for."""

    parts: list[tuple[str, list[int]]]
    rows: int
    steps: int
    places: int

    @property
    def sizes(self) -> tuple[int, int, int]:
        return self.rows, self.steps, self.places


@st.composite
def plans(draw: st.DrawFn, most: int = 4) -> Plan:
    rows, steps, past = draw(st.tuples(st.integers(1, 3), st.integers(1, 5), st.integers(0, 4)))
    places = steps + past
    segments = st.lists(st.integers(0, 2), min_size=rows * places, max_size=rows * places)
    kinds: st.SearchStrategy[tuple[str, list[int]]] = st.one_of(
        st.just(("causal", [])),
        st.tuples(
            st.just("lengths"),
            st.lists(st.integers(0, places), min_size=rows, max_size=rows),
        ),
        st.tuples(st.just("window"), st.lists(st.integers(0, 4), min_size=1, max_size=2)),
        st.tuples(st.just("segments"), segments),
    )
    return Plan(draw(st.lists(kinds, max_size=most)), rows, steps, places)


def mask_and_rule(kind: str, numbers: list[int], plan: Plan) -> tuple[Mask, Rule]:
    """The part, and what it means in plain Python."""
    if kind == "causal":
        return Mask.causal(), lambda row, query, key: not key > query
    if kind == "lengths":
        lengths = Mask.lengths(torch.tensor(numbers))
        return lengths, lambda row, query, key: key < numbers[row]
    if kind == "window":
        back, ahead = numbers[0], numbers[-1]  # one number is the reach both ways
        return Mask.window(
            *numbers
        ), lambda row, query, key: key in range(query - back, query + ahead + 1)
    ids = torch.tensor(numbers).view(plan.rows, plan.places)
    past = plan.places - plan.steps
    mask = Mask.segments(ids[:, past:], ids) if past else Mask.segments(ids)
    return mask, lambda row, query, key: bool(ids[row, query] == ids[row, key])


def built(plan: Plan) -> tuple[Mask, Rule]:
    both = [mask_and_rule(kind, numbers, plan) for kind, numbers in plan.parts]
    mask = Mask()
    for part, _ in both:
        mask = mask & part
    return mask, lambda *where: all(rule(*where) for _, rule in both)


def table(mask: Mask, rows: int, steps: int, places: int) -> Tensor:
    """The whole table, one row of the batch after the other."""
    may_see = mask.may_see(steps, places)
    if may_see is None:
        return torch.ones(rows, 1, steps, places, dtype=torch.bool)
    assert may_see.dtype == torch.bool
    return may_see.expand(rows, 1, steps, places)


@given(plans())
def test_the_table_the_words_and_the_rule_agree_everywhere(plan: Plan) -> None:
    mask, rule = built(plan)
    seen = table(mask, *plan.sizes)
    for row in range(plan.rows):
        for step in range(plan.steps):
            query = plan.places - plan.steps + step  # the queries are the last of the places
            for key in range(plan.places):
                may = rule(row, query, key)
                assert bool(seen[row, 0, step, key]) == may
                words = mask.explain(query, key, row)
                start = f"query {query} may {'' if may else 'not '}see key {key}"
                assert words == start if may else words.startswith(f"{start}: ")


@given(plans())
def test_and_is_and(plan: Plan) -> None:
    masks = [mask_and_rule(kind, numbers, plan)[0] for kind, numbers in plan.parts]
    whole, _ = built(plan)
    backwards, each = Mask(), torch.ones(plan.rows, 1, plan.steps, plan.places, dtype=torch.bool)
    for mask in masks:
        backwards = mask & backwards
        each = each & table(mask, *plan.sizes)
    assert torch.equal(table(whole, *plan.sizes), each)
    assert torch.equal(table(backwards, *plan.sizes), each)


@given(st.integers(1, 6), st.integers(0, 6), st.integers(0, 4), st.integers(0, 12))
def test_with_a_past_the_table_is_the_last_rows_of_the_whole(
    steps: int, past: int, back: int, length: int
) -> None:
    places = steps + past
    for mask in (
        Mask.causal(),
        Mask.window(back),
        Mask.causal() & Mask.window(back, 0),
        Mask.causal_window(back),
        Mask.causal() & Mask.lengths(torch.tensor([length, places])),
    ):
        whole, last = table(mask, 2, places, places), table(mask, 2, steps, places)
        assert torch.equal(last, whole[:, :, past:])


def test_the_causal_table_is_the_lower_triangle() -> None:
    whole = Mask.causal().may_see(5, 5)
    assert whole is not None
    assert torch.equal(whole[0, 0], torch.ones(5, 5, dtype=torch.bool).tril())


def test_only_a_purely_causal_mask_says_so() -> None:
    lengths = Mask.lengths(torch.tensor([3]))
    assert Mask.causal().is_causal_only
    assert (Mask.causal() & Mask.causal()).is_causal_only
    assert (Mask.causal() & Mask()).is_causal_only
    assert (Mask.causal() & Mask.lengths(None)).is_causal_only
    for mask in (
        Mask(),
        lengths,
        Mask.causal() & lengths,
        lengths & Mask.causal(),
        Mask.window(10**6, 0),
        Mask.causal() & Mask.window(3),
        Mask.segments(torch.zeros(1, 3, dtype=torch.long)),
    ):
        assert not mask.is_causal_only


def test_how_far_a_mask_reaches() -> None:
    lengths, ids = Mask.lengths(torch.tensor([3])), torch.zeros(1, 3, dtype=torch.long)
    for mask in (Mask(), lengths, Mask.causal(), Mask.causal() & lengths, Mask.segments(ids)):
        assert mask.window_size is None
    assert Mask.window(4).window_size == (4, 4)
    assert Mask.window(4, 2).window_size == (4, 2)
    assert Mask.causal_window(4).window_size == (4, 0)
    assert (Mask.causal() & Mask.window(4)).window_size == (4, 0)
    assert (Mask.window(4, 2) & Mask.window(3, 5) & lengths & Mask.segments(ids)).window_size == (
        3,
        2,
    )


@given(plans(), st.integers(0, 8))
def test_a_table_may_begin_at_a_later_key(plan: Plan, first_key: int) -> None:
    first_key = min(first_key, plan.places - 1)
    mask, _ = built(plan)
    whole = table(mask, *plan.sizes)
    later = mask.may_see(plan.steps, plan.places, first_key=first_key)
    if later is None:
        later = torch.ones(1, 1, 1, plan.places - first_key, dtype=torch.bool)
    assert torch.equal(later.expand_as(whole[..., first_key:]), whole[..., first_key:])


@given(plans())
def test_only_lengths_are_the_same_for_every_query(plan: Plan) -> None:
    mask, _ = built(plan)
    seen = table(mask, *plan.sizes)
    if not mask.depends_on_position:
        assert torch.equal(seen, seen[:, :, :1].expand_as(seen))
    assert mask.depends_on_position == any(kind != "lengths" for kind, _ in plan.parts)


def test_no_table_is_made_where_all_may_be_seen() -> None:
    assert Mask.window(6).may_see(7, 7) is None
    assert Mask.window(5).may_see(7, 7) is not None
    assert Mask.causal_window(3).may_see(1, 7, first_key=3) is None
    assert Mask.causal_window(3).may_see(1, 7, first_key=2) is not None
    assert Mask().may_see(3, 7) is None
    assert Mask.lengths(None).may_see(3, 7) is None
    assert Mask.causal().may_see(1, 7) is None
    assert Mask.causal().may_see(2, 7) is not None


@pytest.mark.parametrize(
    ("mask", "query", "key", "row", "words"),
    [
        (Mask(), 0, 9, 0, "query 0 may see key 9"),
        (
            Mask.causal(),
            2,
            3,
            0,
            "query 2 may not see key 3: the key lies in the query's future",
        ),
        (
            Mask.lengths(torch.tensor([9, 4])),
            1,
            4,
            1,
            "query 1 may not see key 4: row 1 is 4 long and the key is padding",
        ),
        (
            Mask.window(2, 1),
            5,
            1,
            0,
            "query 5 may not see key 1: the key is 4 places back and the window reaches 2",
        ),
        (
            Mask.window(2, 1),
            5,
            7,
            0,
            "query 5 may not see key 7: the key is 2 places ahead and the window reaches 1",
        ),
        (
            # two queries after a past of two: the query at place 3 is the second of them
            Mask.segments(torch.tensor([[7, 8]]), torch.tensor([[6, 7, 7, 8]])),
            3,
            0,
            0,
            "query 3 may not see key 0: the query is in segment 8, the key in 6",
        ),
        (
            Mask.causal() & Mask.lengths(torch.tensor([3])),
            1,
            3,
            0,
            "query 1 may not see key 3: the key lies in the query's future, "
            "and row 0 is 3 long and the key is padding",
        ),
    ],
)
def test_it_says_why_in_words(mask: Mask, query: int, key: int, row: int, words: str) -> None:
    assert mask.explain(query, key, row) == words
