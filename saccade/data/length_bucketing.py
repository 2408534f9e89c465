"""Which sequences are answered together."""

from collections.abc import Iterator, Sequence


def group_by_length(
    rows: Sequence[int], encoded: Sequence[Sequence[int]], max_tokens: int, max_rows: int
) -> Iterator[list[int]]:
    """Rows of like length together, at most so many, and about so many tokens with padding."""
    group: list[int] = []
    for row in sorted(rows, key=lambda row: len(encoded[row])):
        held = (len(encoded[row]) + 1) * (len(group) + 1)
        if group and (held > max_tokens or len(group) == max_rows):
            yield group
            group = []
        group.append(row)
    if group:
        yield group
