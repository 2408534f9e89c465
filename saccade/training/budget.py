"""Shares of a time budget: warm-up, evaluations, and the steps that fit. Does not import torch.

With `train.minutes` the learning-rate schedule follows the clock, so it reaches its end whatever
the speed of the machine. Evaluations take a share of the budget as well: one is timed early in
training, and their number and size follow from its duration.
"""

import math
from typing import NamedTuple

WARMUP_SHARE = 0.1  # of the time for training
EVAL_SHARE = 0.1  # of the budget, for all evaluations together
MIN_EVALUATIONS, MAX_EVALUATIONS = 4, 20
EVAL_EXAMPLES = 500  # of the validation split, in an evaluation during training
MIN_EVAL_EXAMPLES = 50
TIMED_EXAMPLES = 100  # of the evaluation that is timed; its scores are not used
TIMED_PROGRESS = 0.1  # progress of training at which it is timed
MAX_SETUP_SHARE = 0.5  # of the budget, for reading and tokenizing; training has the rest at least


class BudgetPlan(NamedTuple):
    """Steps and evaluations that fit into the rest of a time budget."""

    evaluations: int  # still to be made, the last one after the last step
    examples: int  # of the validation split, in each evaluation
    eval_seconds: float  # of each evaluation
    steps: int  # that fit, with those made already


def plan_budget(
    seconds: float,
    used: float,
    step: int,
    step_seconds: float,
    example_seconds: float,
    examples: int | None = None,
) -> BudgetPlan:
    """Plan the rest of a time budget.

    Evaluations take `EVAL_SHARE` of the budget. If fewer than `MIN_EVALUATIONS` of the full size
    fit into that, they are made smaller, and if this is not enough, fewer.

    Args:
        seconds: the whole budget.
        used: seconds used so far.
        step: steps made so far.
        step_seconds: duration of a step.
        example_seconds: duration of evaluating one example.
        examples: size of an evaluation, if it is fixed already.
    """
    share = EVAL_SHARE * seconds
    if examples is None:
        fitting = share / MIN_EVALUATIONS / max(example_seconds, 1e-9)
        examples = int(min(max(fitting, MIN_EVAL_EXAMPLES), EVAL_EXAMPLES))
    eval_seconds = examples * example_seconds
    count = count_evaluations(seconds, eval_seconds)
    evaluations = max(1, count - int(count * used / seconds))  # they are evenly spread
    left = seconds - used - evaluations * eval_seconds
    steps = step + max(0, math.floor(left / max(step_seconds, 1e-9)))
    return BudgetPlan(evaluations, examples, eval_seconds, steps)


def count_evaluations(seconds: float, eval_seconds: float) -> int:
    """Return how many evaluations fit into their share of a budget, at least the last one."""
    fitting = EVAL_SHARE * seconds / max(eval_seconds, 1e-9)
    return int(min(max(fitting, 1), MAX_EVALUATIONS))


def format_duration(seconds: float) -> str:
    """Return a duration in words: `45 s`, `2 min 30 s`, `3 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes:,} min {rest} s" if rest else f"{minutes:,} min"
