"""Results of invariance checks, and the names of the invariants. Does not import torch."""

from typing import NamedTuple

BATCH_INVARIANCE = "batch invariance"
PADDING_INVARIANCE = "padding invariance"
CACHE_CONSISTENCY = "cache consistency"
CAUSALITY = "causality"
KERNEL_PARITY = "fused attention equals reference"
BEAM1_IS_GREEDY = "beam 1 equals greedy"
NBEST_PREFIX = "n-best starts with the best"
BEAM_SCORE_CONSISTENCY = "beam scores equal rescoring"
THREAD_INVARIANCE = "thread-count invariance"
COMPILE_PARITY = "compiled equals eager"
RELOAD_CONSISTENCY = "reload consistency"


class CheckResult(NamedTuple):
    """Largest deviation that a check of one invariant measured."""

    invariant: str
    num_inputs: int  # 0: skipped, with the reason in `note`
    difference: float  # largest deviation
    tolerance: float
    note: str = ""

    @property
    def passed(self) -> bool:
        """True if the largest deviation is within the tolerance (NaN is not)."""
        return self.difference <= self.tolerance

    @property
    def verdict(self) -> str:
        """Return "passed", "FAILED" or "skipped"."""
        if not self.num_inputs:
            return "skipped"
        return "passed" if self.passed else "FAILED"


def skipped(invariant: str, note: str) -> CheckResult:
    """Return the result of a check that could not run, with the reason."""
    return CheckResult(invariant, 0, 0.0, 0.0, note)
