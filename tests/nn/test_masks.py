from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from saccade.nn import Attention, Mask, ScaledDotScore

Rule = Callable[[int, int, int], bool]  # row, query, key: may it attend?


class Plan(NamedTuple):
    """A mask in plain Python: kinds of parts with their numbers, and the sizes they are for."""

    parts: list[tuple[str, list[int]]]
    rows: int
    query_length: int
    key_length: int

    @property
    def sizes(self) -> tuple[int, int, int]:
        return self.rows, self.query_length, self.key_length


@st.composite
def plans(draw: st.DrawFn, max_parts: int = 4) -> Plan:
    rows, query_length, past = draw(
        st.tuples(st.integers(1, 3), st.integers(1, 5), st.integers(0, 4))
    )
    key_length = query_length + past
    segments = st.lists(st.integers(0, 2), min_size=rows * key_length, max_size=rows * key_length)
    kinds: st.SearchStrategy[tuple[str, list[int]]] = st.one_of(
        st.just(("causal", [])),
        st.tuples(
            st.just("lengths"),
            st.lists(st.integers(0, key_length), min_size=rows, max_size=rows),
        ),
        st.tuples(
            st.just("query lengths"),
            st.lists(
                st.integers(0, key_length),
                min_size=rows * query_length,
                max_size=rows * query_length,
            ),
        ),
        st.tuples(st.just("window"), st.lists(st.integers(0, 4), min_size=1, max_size=2)),
        st.tuples(st.just("segments"), segments),
    )
    return Plan(draw(st.lists(kinds, max_size=max_parts)), rows, query_length, key_length)


def mask_and_rule(kind: str, numbers: list[int], plan: Plan) -> tuple[Mask, Rule]:
    """Return a mask and its rule in plain Python."""
    if kind == "causal":
        return Mask.causal(), lambda row, query, key: not key > query
    if kind == "lengths":
        lengths = Mask.lengths(torch.tensor(numbers))
        return lengths, lambda row, query, key: key < numbers[row]
    past = plan.key_length - plan.query_length
    if kind == "query lengths":
        each = torch.tensor(numbers).view(plan.rows, plan.query_length)
        return Mask.lengths(each), lambda row, query, key: key < int(each[row, query - past])
    if kind == "window":
        back, ahead = numbers[0], numbers[-1]  # one number is the reach both ways
        return Mask.window(
            *numbers
        ), lambda row, query, key: key in range(query - back, query + ahead + 1)
    ids = torch.tensor(numbers).view(plan.rows, plan.key_length)
    mask = Mask.segments(ids[:, past:], ids) if past else Mask.segments(ids)
    return mask, lambda row, query, key: bool(ids[row, query] == ids[row, key])


def built(plan: Plan) -> tuple[Mask, Rule]:
    both = [mask_and_rule(kind, numbers, plan) for kind, numbers in plan.parts]
    mask = Mask()
    for part, _ in both:
        mask = mask & part
    return mask, lambda *where: all(rule(*where) for _, rule in both)


def table(mask: Mask, rows: int, query_length: int, key_length: int) -> Tensor:
    """Return the whole table of a mask."""
    may_see = mask.may_see(query_length, key_length)
    if may_see is None:
        return torch.ones(rows, 1, query_length, key_length, dtype=torch.bool)
    assert may_see.dtype == torch.bool
    return may_see.expand(rows, 1, query_length, key_length)


@given(plans())
def test_mask_table_and_explanation_match_rule(plan: Plan) -> None:
    mask, rule = built(plan)
    seen = table(mask, *plan.sizes)
    for row in range(plan.rows):
        for step in range(plan.query_length):
            query = plan.key_length - plan.query_length + step  # the queries are the last positions
            for key in range(plan.key_length):
                may = rule(row, query, key)
                assert bool(seen[row, 0, step, key]) == may
                words = mask.explain(query, key, row, plan.key_length - plan.query_length)
                start = f"query {query} may {'' if may else 'not '}attend to key {key}"
                assert words == start if may else words.startswith(f"{start}: ")


@given(plans())
def test_mask_and_matches_tables(plan: Plan) -> None:
    masks = [mask_and_rule(kind, numbers, plan)[0] for kind, numbers in plan.parts]
    whole, _ = built(plan)
    backwards, each = (
        Mask(),
        torch.ones(plan.rows, 1, plan.query_length, plan.key_length, dtype=torch.bool),
    )
    for mask in masks:
        backwards = mask & backwards
        each = each & table(mask, *plan.sizes)
    assert torch.equal(table(whole, *plan.sizes), each)
    assert torch.equal(table(backwards, *plan.sizes), each)


@given(st.integers(1, 6), st.integers(0, 6), st.integers(0, 4), st.integers(0, 12))
def test_mask_with_cache_is_last_rows_of_whole_table(
    query_length: int, past: int, back: int, length: int
) -> None:
    key_length = query_length + past
    for mask in (
        Mask.causal(),
        Mask.window(back),
        Mask.causal() & Mask.window(back, 0),
        Mask.causal_window(back),
        Mask.causal() & Mask.lengths(torch.tensor([length, key_length])),
    ):
        whole, last = (
            table(mask, 2, key_length, key_length),
            table(mask, 2, query_length, key_length),
        )
        assert torch.equal(last, whole[:, :, past:])


def test_mask_causal_is_lower_triangle() -> None:
    whole = Mask.causal().may_see(5, 5)
    assert whole is not None
    assert torch.equal(whole[0, 0], torch.ones(5, 5, dtype=torch.bool).tril())


def test_mask_is_causal_only() -> None:
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


def test_mask_window_size() -> None:
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
def test_mask_table_from_a_later_key(plan: Plan, first_key: int) -> None:
    first_key = min(first_key, plan.key_length - 1)
    mask, _ = built(plan)
    whole = table(mask, *plan.sizes)
    later = mask.may_see(plan.query_length, plan.key_length, first_key=first_key)
    if later is None:
        later = torch.ones(1, 1, 1, plan.key_length - first_key, dtype=torch.bool)
    assert torch.equal(later.expand_as(whole[..., first_key:]), whole[..., first_key:])


@given(plans())
def test_mask_depends_on_position(plan: Plan) -> None:
    mask, _ = built(plan)
    seen = table(mask, *plan.sizes)
    if not mask.depends_on_position:
        assert torch.equal(seen, seen[:, :, :1].expand_as(seen))
    assert mask.depends_on_position == any(kind != "lengths" for kind, _ in plan.parts)


def test_mask_without_effect_has_no_table() -> None:
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
        (Mask(), 0, 9, 0, "query 0 may attend to key 9"),
        (
            Mask.causal(),
            2,
            3,
            0,
            "query 2 may not attend to key 3: the key lies in the query's future",
        ),
        (
            Mask.lengths(torch.tensor([9, 4])),
            1,
            4,
            1,
            "query 1 may not attend to key 4: row 1 is 4 long and the key is padding",
        ),
        (
            Mask.window(2, 1),
            5,
            1,
            0,
            "query 5 may not attend to key 1: the key is 4 positions back and the window reaches 2",
        ),
        (
            Mask.window(2, 1),
            5,
            7,
            0,
            "query 5 may not attend to key 7: "
            "the key is 2 positions ahead and the window reaches 1",
        ),
        (
            # two queries after a past of two: the query at position 3 is the second of them
            Mask.segments(torch.tensor([[7, 8]]), torch.tensor([[6, 7, 7, 8]])),
            3,
            0,
            0,
            "query 3 may not attend to key 0: the query is in segment 8, the key in 6",
        ),
        (
            Mask.causal() & Mask.lengths(torch.tensor([3])),
            1,
            3,
            0,
            "query 1 may not attend to key 3: the key lies in the query's future, "
            "and row 0 is 3 long and the key is padding",
        ),
    ],
)
def test_mask_explain(mask: Mask, query: int, key: int, row: int, words: str) -> None:
    assert mask.explain(query, key, row) == words


# --- tensors, lists, alternatives -----------------------------------------------------------------


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4), (2, 1, 3, 4), (2, 5, 3, 4), (1, 1, 3, 4)])
def test_mask_from_tensor_is_the_tensor(shape: tuple[int, ...]) -> None:
    allowed = torch.rand(*shape) < 0.5
    expected = allowed if allowed.dim() == 4 else allowed.view(-1, 1, 3, 4)
    assert torch.equal(Mask.from_tensor(allowed).may_see(3, 4), expected)
    assert torch.equal((~Mask.from_tensor(allowed)).may_see(3, 4), ~expected)


def test_mask_from_tensor_composes_with_a_window_in_blocks() -> None:
    torch.manual_seed(0)
    T, window = 200, 3
    x, allowed = torch.randn(2, 1, T, 4), torch.rand(2, T, T) < 0.7
    mask = Mask.from_tensor(allowed) & Mask.window(window)
    attention = Attention(ScaledDotScore())
    torch.testing.assert_close(attention(x, x, x, mask), attention.reference(x, x, x, mask))
    lengths = torch.randint(0, T, (2, T))
    mask = Mask.lengths(lengths) & Mask.causal_window(window)
    torch.testing.assert_close(attention(x, x, x, mask), attention.reference(x, x, x, mask))


@given(plans(), st.integers(0, 4))
def test_mask_or_and_not_are_those_of_the_tables(plan: Plan, cut: int) -> None:
    first, second = (
        built(plan._replace(parts=parts))[0] for parts in (plan.parts[:cut], plan.parts[cut:])
    )
    one, two = table(first, *plan.sizes), table(second, *plan.sizes)
    assert torch.equal(table(first | second, *plan.sizes), one | two)
    assert torch.equal(table(~first, *plan.sizes), ~one)
    assert torch.equal(table(~(first & second), *plan.sizes), table(~first | ~second, *plan.sizes))
    assert torch.equal(table(first & ~second, *plan.sizes), one & ~two)


def test_mask_explains_tensors_and_alternatives() -> None:
    table = Mask.from_tensor(torch.tensor([[True, False], [True, True]]))
    assert table.explain(0, 1) == "query 0 may not attend to key 1: the tensor is False there"
    assert table.explain(1, 1) == "query 1 may attend to key 1"
    inverted = (~Mask.causal()).explain(2, 1)
    assert inverted == "query 2 may not attend to key 1: the inverted mask allows it"
    either = Mask.causal() | Mask.lengths([1])
    assert either.explain(0, 0) == "query 0 may attend to key 0"
    assert either.explain(0, 2).endswith(
        "no alternative allows it (the key lies in the query's future; "
        "row 0 is 1 long and the key is padding)"
    )
    each = Mask.lengths([[1, 3]])
    assert each.explain(0, 2).endswith("row 0 is 1 long and the key is padding")
    assert each.explain(1, 2) == "query 1 may attend to key 2"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Mask.lengths(torch.ones(2, 3, 4).long()), r"shape \(2, 3, 4\); expected \(B,\)"),
        (lambda: Mask.lengths([[1, 2], [3]]), r"rows differ in size; expected \(B,\), .* \(B, T\)"),
        (lambda: Mask.lengths([3, [3]]), "rows differ in size"),  # type: ignore[list-item]
        (lambda: Mask.lengths(torch.tensor(3)), r"shape \(\); expected \(B,\), one for each row"),
        (
            lambda: Mask.lengths(torch.ones(2)),
            "type torch.float32; expected integers",
        ),
        (lambda: Mask.lengths(torch.ones(2) > 0), "type torch.bool; .* try Mask.from_tensor"),
        (lambda: Mask.from_tensor(torch.zeros(3, 3)), "got a mask of type torch.float32; .* == 0"),
        (lambda: Mask.from_tensor(torch.ones(3) > 0), r"shape \(3,\); expected \(T, S\)"),
    ],
)
def test_mask_refuses_wrong_lengths_and_tables(make: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        make()
