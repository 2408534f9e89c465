"""What looking for a broken law found."""

from typing import NamedTuple


class CheckResult(NamedTuple):
    """What looking for a broken law found."""

    invariant: str
    num_inputs: int  # inputs; 0: it could not be tried, and `note` says why
    difference: float  # the largest seen
    tolerance: float
    note: str = ""

    @property
    def passed(self) -> bool:
        """Whether all differences are within the tolerance (one that is NaN is not)."""
        return self.difference <= self.tolerance

    @property
    def verdict(self) -> str:
        """holds, BROKEN, or not tried."""
        if not self.num_inputs:
            return "skipped"
        return "passed" if self.passed else "FAILED"


def skipped(invariant: str, note: str) -> CheckResult:
    """A law that could not be looked at, and why."""
    return CheckResult(invariant, 0, 0.0, 0.0, note)
