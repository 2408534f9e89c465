"""The state of a training: all that the loop carries from one step to the next."""

import math
from dataclasses import dataclass, field

from torch import Tensor

from saccade.optim import PIDState


@dataclass
class TrainState:
    """All that the loop carries from one step to the next; saved with each checkpoint."""

    step: int = 0
    best: float = -math.inf  # selection score
    best_step: int = 0
    evals_since_best: int = 0
    last_eval_step: int = 0
    loss: float = 0.0  # this and the next two: sums since the last report
    correct: int = 0
    tokens: int = 0
    seconds: float = 0.0  # time used over all sessions
    setup_seconds: float = 0.0  # of a time budget: used before the first step
    eval_seconds: float = 0.0  # of a time budget: duration of one evaluation; 0: not yet measured
    eval_examples: int = 0  # of a time budget: examples of one evaluation; 0: not yet planned
    last_eval_progress: float = 0.0  # of a time budget
    control: PIDState = PIDState()  # learning-rate controller
    best_weights: dict[str, Tensor] = field(default_factory=dict)
    recent_weights: list[dict[str, Tensor]] = field(default_factory=list)  # for averaging
    carry: dict[str, Tensor] = field(default_factory=dict)  # the objective's state, when saved
