"""Warm-up and evaluation interval of a training whose number of steps is known.

In a time budget (`train.minutes`) they are shares of it instead: `saccade.training.budget`.
"""

from saccade.tasks.base import Choice

MIN_WARMUP, MAX_WARMUP = 20, 1000
EVALUATIONS = 20
MIN_EVALUATION_INTERVAL = 50  # steps


def warmup_choice(steps: int) -> Choice:
    """Return a tenth of the steps within bounds, and the bound that decided."""
    tenth = steps // 10
    value = min(max(tenth, MIN_WARMUP), MAX_WARMUP, steps // 2)
    if value == tenth:
        reason = f"a tenth of {steps:,} steps"
    elif value == MAX_WARMUP:
        reason = f"the upper limit; a tenth of {steps:,} steps would be more"
    elif value == MIN_WARMUP:
        reason = f"the lower limit; a tenth of {steps:,} steps would be less"
    else:
        reason = f"half of {steps:,} steps, which is below the lower limit of {MIN_WARMUP}"
    return Choice("train.warmup", value, reason)


def evaluation_choice(steps: int) -> Choice:
    """Return the steps between evaluations, and how many evaluations that makes."""
    value = max(MIN_EVALUATION_INTERVAL, steps // EVALUATIONS)
    count = -(-steps // value)  # the last one after the last step
    if value > steps:
        reason = f"once, after the last of {steps:,} steps"
    elif value == MIN_EVALUATION_INTERVAL:
        reason = f"the lower limit: {count} times in {steps:,} steps"
    else:
        reason = f"{count} times in {steps:,} steps"
    return Choice("train.evaluate_every", value, reason)
