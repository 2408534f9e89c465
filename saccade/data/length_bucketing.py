"""Grouping of sequences of similar length for batched inference."""

from collections.abc import Iterator, Sequence


def group_by_length(
    rows: Sequence[int], encoded: Sequence[Sequence[int]], max_tokens: int, max_rows: int
) -> Iterator[list[int]]:
    """Yield groups of rows of similar length, at most `max_rows` and about `max_tokens` padded."""
    group: list[int] = []
    for row in sorted(rows, key=lambda row: len(encoded[row])):
        padded_tokens = (len(encoded[row]) + 1) * (len(group) + 1)
        if group and (padded_tokens > max_tokens or len(group) == max_rows):
            yield group
            group = []
        group.append(row)
    if group:
        yield group
