import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import saccade.nn.kv_cache as state_file
from saccade.nn import KVCache, extend_cache
from saccade.types.shapes import select_rows

pieces = st.lists(st.integers(1, 9), min_size=1, max_size=12)


def piece(length: int, requires_grad: bool = False) -> KVCache:
    """Return keys and values of different widths, as with an additive score."""
    keys, values = torch.randn(2, 3, length, 4), torch.randn(2, 3, length, 5)
    return KVCache(keys.requires_grad_(requires_grad), values.requires_grad_(requires_grad), length)


def joined(parts: list[KVCache]) -> tuple[Tensor, Tensor]:
    return torch.cat([p.keys for p in parts], dim=2), torch.cat([p.values for p in parts], dim=2)


def grown(parts: list[KVCache]) -> KVCache:
    cache: KVCache | None = None
    for part in parts:
        cache = extend_cache(cache, part)
    assert cache is not None
    return cache


def check(memory: KVCache, parts: list[KVCache]) -> None:
    keys, values = joined(parts)
    assert memory.length == keys.shape[2]
    assert torch.equal(memory.filled()[0], keys)
    assert torch.equal(memory.filled()[1], values)


@given(pieces, st.sampled_from([torch.enable_grad, torch.no_grad, torch.inference_mode]))
def test_extend_cache_matches_concatenation(sizes: list[int], mode: type) -> None:
    parts = [piece(size) for size in sizes]
    with mode():
        check(grown(parts), parts)


@given(pieces)
def test_extend_cache_ignores_spare_capacity(sizes: list[int]) -> None:
    parts = [piece(size) for size in sizes]
    with torch.no_grad():
        roomy = grown(parts)
        roomy = extend_cache(roomy, roomy_part := extend_cache(piece(3), piece(1)))
    assert roomy_part.keys.shape[2] > roomy_part.length == 4
    tail = KVCache(*roomy_part.filled(), 4)
    check(roomy, [*parts, tail])


def test_extend_cache_passes_gradients_to_every_piece() -> None:
    parts = [piece(size, requires_grad=True) for size in (2, 1, 3)]
    leaves = [tensor for part in parts for tensor in part[:2]]
    cache: KVCache | None = None
    mine, expected = torch.zeros(()), torch.zeros(())
    for n, part in enumerate(parts):
        cache = extend_cache(cache, part)
        for filled, all_of_it in zip(cache.filled(), joined(parts[: n + 1]), strict=True):
            mine, expected = mine + filled.pow(3).sum(), expected + all_of_it.pow(3).sum()
    for got, right in zip(
        torch.autograd.grad(mine, leaves), torch.autograd.grad(expected, leaves), strict=True
    ):
        torch.testing.assert_close(got, right)


def test_extend_cache_without_then_with_gradients() -> None:
    first, second, third = piece(1), piece(1), piece(2, requires_grad=True)
    with torch.no_grad():
        cache = extend_cache(first, second)
    assert cache.keys.shape[2] > cache.length  # spare capacity, which is not content
    memory = extend_cache(cache, third)
    check(memory, [first, second, third])
    memory.filled()[0].sum().backward()
    assert third.keys.grad is not None and bool((third.keys.grad == 1).all())


@torch.no_grad()
def test_extend_cache_doubles_capacity() -> None:
    parts = [piece(1) for _ in range(200)]
    memory, buffers = parts[0], set[int]()
    for part in parts[1:]:
        memory = extend_cache(memory, part)
        buffers.add(memory.keys.shape[2])
        assert memory.keys.shape[2] == memory.values.shape[2] < max(17, 2 * memory.length)
    assert buffers == {16, 32, 64, 128, 256}  # copied five times, not 199
    check(memory, parts)


@torch.no_grad()
def test_extend_cache_writes_to_the_same_buffer_within_capacity() -> None:
    memory = extend_cache(piece(1), piece(1))
    before = memory.keys.data_ptr(), memory.values.data_ptr()
    after = extend_cache(memory, piece(3))
    assert (after.keys.data_ptr(), after.values.data_ptr()) == before


@torch.no_grad()
def test_extend_cache_does_not_change_its_inputs() -> None:
    first, second = piece(2), piece(1)
    copies = [tensor.clone() for tensor in (*first[:2], *second[:2])]
    extend_cache(extend_cache(first, second), piece(1))
    for tensor, copy in zip((*first[:2], *second[:2]), copies, strict=True):
        assert torch.equal(tensor, copy)


@torch.no_grad()
def test_extend_cache_invalidates_its_input_as_documented() -> None:
    cache, one, other = extend_cache(piece(1), piece(1)), piece(1), piece(1)
    first = extend_cache(cache, one)
    second = extend_cache(cache, other)  # a second use of `past` writes over what the first wrote
    assert torch.equal(second.filled()[0][:, :, 2:], other.keys)
    assert torch.equal(first.filled()[0], second.filled()[0])
    assert state_file.__doc__ is not None and "A cache is used once" in state_file.__doc__


def test_extend_cache_with_gradients_can_be_reused() -> None:
    cache, one, other = grown([piece(1), piece(1)]), piece(1), piece(1)
    first, second = extend_cache(cache, one), extend_cache(cache, other)
    assert torch.equal(first.filled()[0][:, :, 2:], one.keys)
    assert torch.equal(second.filled()[0][:, :, 2:], other.keys)


@torch.no_grad()
@pytest.mark.parametrize("rows", [[1], [1, 1, 0, 0, 1]])
def test_select_rows_keeps_cache_length(rows: list[int]) -> None:
    parts = [piece(1), piece(2)]
    chosen = select_rows(grown(parts), torch.tensor(rows))
    assert isinstance(chosen, KVCache)
    last = KVCache(torch.randn(len(rows), 3, 1, 4), torch.randn(len(rows), 3, 1, 5), 1)
    keys, values = joined(parts)
    check(extend_cache(chosen, last), [KVCache(keys[rows], values[rows], 3), last])
