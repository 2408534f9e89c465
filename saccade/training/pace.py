"""The pace of a training, by steps or by the clock: progress, warm-up, evaluations, the end."""

from collections.abc import Callable

from saccade.training.budget import (
    EVAL_EXAMPLES,
    TIMED_EXAMPLES,
    TIMED_PROGRESS,
    WARMUP_SHARE,
    BudgetPlan,
    count_evaluations,
    plan_budget,
)
from saccade.training.config import TrainConfig
from saccade.training.state import TrainState

CLOCK_STEPS = 10_000  # schedules count steps; in a time budget, ten-thousandths of the time


class Pace:
    """Everything that depends on the length of a training and on time.

    Without `train.minutes` all but the checkpoint interval is a function of the step, so that a
    resumed training has identical bits. With it, the clock decides.
    """

    def __init__(self, settings: TrainConfig, state: TrainState, clock: Callable[[], float]):
        self.settings, self.state, self.clock = settings, state, clock
        self.budget = None if settings.minutes is None else 60 * settings.minutes
        self.started = clock() - state.seconds
        self.last_save = clock()
        self.resumed_at = state.step, state.seconds

    def seconds(self) -> float:
        """Return the time used over all sessions."""
        return self.clock() - self.started

    @property
    def progress(self) -> float:
        """Share of the training that is done, from 0 to 1."""
        by_steps = self.state.step / max(1, self.settings.max_steps)
        if self.budget is None:
            return by_steps
        start = self.state.setup_seconds
        return min(1.0, max(by_steps, (self.seconds() - start) / (self._end - start)))

    @property
    def _end(self) -> float:
        """Second at which the last step of a time budget ends: the last evaluation comes then."""
        assert self.budget is not None
        return max(self.budget - self.state.eval_seconds, self.state.setup_seconds + 1e-9)

    def schedule_step(self, progress: float) -> tuple[int, int]:
        """Return the step and the length of the warm-up, as learning-rate schedules count them."""
        if self.budget is None or self.settings.warmup is not None:
            return self.state.step, self.settings.warmup_steps
        return max(1, round(CLOCK_STEPS * progress)), round(CLOCK_STEPS * WARMUP_SHARE)

    def stop_reason(self, stop: bool) -> str:
        """Return why training ends here (steps, minutes, patience, stop), or an empty string."""
        state = self.state
        state.seconds = self.seconds()
        if stop:
            return "stop"
        if state.step >= self.settings.max_steps:
            return "steps"
        if state.evals_since_best >= self.settings.patience:
            return "patience"
        return "minutes" if self.budget is not None and state.seconds >= self._end else ""

    # --- evaluations ------------------------------------------------------------------------

    @property
    def eval_examples(self) -> int:
        """Number of examples of an evaluation."""
        return self.state.eval_examples or EVAL_EXAMPLES

    def evaluation_is_due(self) -> bool:
        """Return True if the model is to be evaluated after this step."""
        state = self.state
        if state.last_eval_step >= state.step:
            return False
        if self.budget is None or self.settings.evaluate_every is not None:
            return state.step % self.settings.evaluation_interval == 0
        if not state.eval_seconds:
            return False
        interval = 1 / count_evaluations(self.budget, state.eval_seconds)
        # none shortly before the last one, which comes after the last step
        progress = self.progress
        return state.last_eval_progress + interval <= progress <= 1 - interval / 2

    def timing_is_due(self) -> bool:
        """Return True if an evaluation is to be timed, from which the others are planned."""
        return (
            self.budget is not None
            and not self.state.eval_seconds
            and self.progress >= TIMED_PROGRESS
        )

    def plan(self, timed_seconds: float) -> BudgetPlan:
        """Plan the evaluations of a time budget from the duration of the timed one."""
        assert self.budget is not None
        state, (first, before) = self.state, self.resumed_at
        seconds = self.seconds()
        # scores of the best weights so far remain comparable
        fixed = self.eval_examples if state.best_step or state.eval_examples else None
        plan = plan_budget(
            self.budget,
            seconds,
            state.step,
            (seconds - timed_seconds - before) / max(1, state.step - first),
            timed_seconds / TIMED_EXAMPLES,
            fixed,
        )
        state.eval_seconds, state.eval_examples = max(plan.eval_seconds, 1e-9), plan.examples
        state.last_eval_progress = self.progress
        limit = int(min(plan.steps, self.settings.max_steps))
        return plan._replace(steps=limit)

    def evaluated(self, seconds: float) -> None:
        """Record that the model was evaluated in so many seconds."""
        self.state.last_eval_step = self.state.step
        if self.budget is not None:
            self.state.eval_seconds = max(seconds, 1e-9)
            self.state.last_eval_progress = self.progress

    # --- checkpoints ------------------------------------------------------------------------

    def checkpoint_is_due(self) -> bool:
        """Return True if the last checkpoint is `train.checkpoint_seconds` old."""
        return self.clock() - self.last_save >= self.settings.checkpoint_seconds

    def checkpoint_saved(self) -> None:
        """Start the interval to the next checkpoint."""
        self.last_save = self.clock()
