"""What looking for a broken law found."""

from typing import NamedTuple


class Finding(NamedTuple):
    """What looking for a broken law found."""

    law: str
    tried: int  # inputs; 0: it could not be tried, and `note` says why
    difference: float  # the largest seen
    tolerance: float
    note: str = ""

    @property
    def holds(self) -> bool:
        """Whether all differences are within the tolerance (one that is NaN is not)."""
        return self.difference <= self.tolerance

    @property
    def verdict(self) -> str:
        """holds, BROKEN, or not tried."""
        if not self.tried:
            return "not tried"
        return "holds" if self.holds else "BROKEN"


def not_tried(law: str, note: str) -> Finding:
    """A law that could not be looked at, and why."""
    return Finding(law, 0, 0.0, 0.0, note)
