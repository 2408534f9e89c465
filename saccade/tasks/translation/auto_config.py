"""Choice of the settings that were left open, from statistics of the training pairs.

A setting that was given is kept. Every choice states the statistic it follows from.

Models for sentences are sized for about an hour of training on two cores, or for `train.minutes`:
in a short time, many small steps of a small model with few tokens learn more than few large ones
(docs/lab-notes.md has the measurements). For longer training set more steps. A training step takes
about six operations per weight and token, two forward and four backward (Kaplan et al. 2020).
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from saccade.config import flatten, override_settings
from saccade.data.parallel.pairs import SentencePairs
from saccade.data.samplers import evenly_spaced_rows
from saccade.tasks.base import Choice
from saccade.tasks.length import evaluation_choice, warmup_choice
from saccade.tasks.translation.config import TranslationRecipe

STATS_SAMPLE_PAIRS = 20_000  # pairs
CHARS_PER_TOKEN = 4.0
DEFAULT_SECONDS = 3600.0  # of training on sentences, without train.minutes
MIN_STEPS, MAX_STEPS = 400, 100_000
TRAIN_FLOPS = 8e10  # operations per second that training reaches on two cores
TARGET_TOKEN_SHARE = 0.8  # of a batch's token budget; padding and longer sources take the rest


class TimeLimits(NamedTuple):
    """Largest sizes of a model for sentences that learns most in a time, and its learning rate."""

    minutes: float  # up to which these hold
    vocab_size: int
    width: int
    depth: int
    batch_tokens: int
    learning_rate: float  # of the transformer
    max_dropout: float


TIME_LIMITS = (
    TimeLimits(6, 4000, 128, 2, 512, 4e-3, 0.1),
    TimeLimits(20, 8000, 128, 2, 1024, 3e-3, 0.1),
    TimeLimits(40, 8000, 256, 4, 2048, 2e-3, 0.3),
    TimeLimits(math.inf, 8000, 256, 4, 4096, 1e-3, 0.3),
)


@dataclass(frozen=True)
class PairStats:
    """Statistics of a sample of the training pairs."""

    pairs: int
    source_chars: float  # per text
    target_chars: float
    target_words: float
    shared_chars: float  # share of characters that occur on both sides


def pair_stats(pairs: SentencePairs) -> PairStats:
    """Return the statistics of up to 20,000 pairs, evenly spread over the file."""
    rows = evenly_spaced_rows(len(pairs), min(len(pairs), STATS_SAMPLE_PAIRS))
    sources, targets = list(pairs.sources(rows)), list(pairs.targets(rows))
    left, right = (set("".join(side).lower()) for side in (sources, targets))
    return PairStats(
        pairs=len(pairs),
        source_chars=float(np.mean([len(text) for text in sources])),
        target_chars=float(np.mean([len(text) for text in targets])),
        target_words=float(np.mean([len(text.split()) for text in targets])),
        shared_chars=len(left & right) / max(1, len(left | right)),
    )


def choose_model(facts: PairStats) -> str:
    """Return the name of the model that suits the data."""
    return "bahdanau" if facts.target_words <= 1.5 else "transformer"


def auto_configure(
    recipe: TranslationRecipe, facts: PairStats
) -> tuple[TranslationRecipe, list[Choice]]:
    """Choose the open settings, before the pairs are encoded."""
    choices: list[Choice] = []
    given, known = flatten(recipe, exclude_unset=True), flatten(recipe)

    def choose(path: str, value: Any, reason: str) -> Any:
        if path in given:
            return given[path]
        if path not in known:  # a model without this setting
            return value
        choices.append(Choice(path, value, reason))
        return value

    if facts.target_words <= 1.5:
        why = f"answers are single words (of {facts.target_chars:.0f} letters on average)"
        kind = choose("data.tokenizer.kind", "character", why)
    else:
        why = f"answers have {facts.target_words:.0f} words on average"
        kind = choose("data.tokenizer.kind", "bpe", why)
    vocabulary = {"character": 100, "word": 10_000}.get(kind, 0)  # or near enough
    minutes = recipe.train.minutes
    if kind == "bpe":
        # no more: in an hour, the rare pieces of a larger one are hardly met
        size = 2000 if facts.pairs < 8_000 else 4000 if facts.pairs < 20_000 else 8000
        size, why = _limit(size, "vocab_size", facts, minutes)
        vocabulary = choose("data.tokenizer.size", size, why)
        choose(
            "data.tokenizer.shared",
            facts.shared_chars > 0.3,
            f"{100 * facts.shared_chars:.0f} % of the letters occur on both sides",
        )
    model = recipe.model_name
    met = _choose_sizes(model, kind, facts, vocabulary or 8000, minutes, choose)
    _choose_training(model, kind, facts, met, minutes, choose)
    return override_settings(recipe, {choice.path: choice.value for choice in choices}), choices


def _time_limits(minutes: float | None) -> TimeLimits:
    """Return the sizes for a time budget; without one, those for an hour."""
    return next(limits for limits in TIME_LIMITS if (minutes or math.inf) <= limits.minutes)


def _limit(size: int, name: str, facts: PairStats, minutes: float | None) -> tuple[int, str]:
    """Return a size that suits the number of pairs, or less if time is short, and the reason."""
    limit = getattr(_time_limits(minutes), name)
    return (limit, f"for {minutes:g} min") if limit < size else (size, f"{facts.pairs:,} pairs")


def _choose_sizes(
    model: str,
    kind: str,
    facts: PairStats,
    vocabulary: int,
    minutes: float | None,
    choose: Any,
) -> float:
    """Choose the model's sizes; return about how many weights a target token meets."""
    why = f"{facts.pairs:,} pairs"
    letters = kind == "character"
    if letters:
        minutes = None  # a model of letters is small, and learns in minutes
    if model == "transformer":
        # nothing wider: of so many pairs an hour sees a part, and of a wider model less
        width = 128 if letters or facts.pairs < 50_000 else 256
        width = choose("model.width", *_limit(width, "width", facts, minutes))
        depth = 2 if letters or facts.pairs < 8_000 else 4
        depth, reason = _limit(depth, "depth", facts, minutes)
        depth = choose("model.depth", depth, "letters" if letters else reason)
        # other widths than ours must be divisible too
        heads = next(h for h in (max(1, width // 32), 4, 2, 1) if width % h == 0)
        choose("model.heads", heads, f"a width of {width}")
        hidden = 4 * width
        if not letters:
            why_hidden = "twice the width, as is usual for small corpora"
            hidden = choose("model.hidden", 2 * width, why_hidden) or hidden
        met = depth * (12 * width**2 + 4 * width * hidden) + width * vocabulary
    else:
        width = 128 if letters or facts.pairs < 20_000 else 256
        width = choose("model.width", *_limit(width, "width", facts, minutes))
        met = 32 * width**2 + width * vocabulary
    dropout = 0.3 if facts.pairs < 50_000 and not letters else 0.1
    if dropout > _time_limits(minutes).max_dropout:
        dropout, why = _time_limits(minutes).max_dropout, f"for {minutes:g} min: few epochs"
    choose("model.dropout", dropout, why)
    return float(met)


def _choose_training(
    model: str, kind: str, facts: PairStats, met: float, minutes: float | None, choose: Any
) -> None:
    letters = kind == "character"
    per_token = 1.0 if letters else CHARS_PER_TOKEN
    longer = max(facts.source_chars, facts.target_chars) / per_token + 1
    limits = _time_limits(None if letters else minutes)
    # fewer where there are few pairs, so that an epoch has at least 50 steps
    limit = 128.0 if letters else limits.batch_tokens / longer
    rows = min(limit, max(16, facts.pairs // 50))
    budget = int(np.clip(rows * longer + 1e-6, 256, limits.batch_tokens))  # 4095.999… is 4096
    why = f"about {budget / longer:.0f} pairs of {longer:.0f} tokens"
    if budget == limits.batch_tokens < TIME_LIMITS[-1].batch_tokens:
        why += f", for {minutes:g} min"
    budget = choose("train.batch_tokens", budget, why)
    epoch = max(1.0, facts.pairs * longer / budget)
    step_seconds = 6 * met * budget * TARGET_TOKEN_SHARE / TRAIN_FLOPS
    steps = choose("train.steps", *_steps(letters, facts, epoch, step_seconds, minutes))
    if minutes is None:
        for choice in (warmup_choice(steps), evaluation_choice(steps)):
            choose(choice.path, choice.value, choice.reason)
    if not letters:
        choose("train.patience", 8, "the rate falls to the end, and the scores rise as it does")
    rate, why = 2e-3, f"usual for {model} of this size"
    if model == "transformer":
        rate = limits.learning_rate
        why = why if limits is TIME_LIMITS[-1] else f"for {minutes:g} min of small steps"
    choose("train.learning_rate", rate, why)
    choose(
        "train.label_smoothing",
        0.0 if letters else 0.1,
        f"tokens are {'letters' if letters else 'pieces of words'}",
    )


def _steps(
    letters: bool, facts: PairStats, epoch: float, step_seconds: float, minutes: float | None
) -> tuple[int, str]:
    """Return so many steps that the pairs are learned, and the reason.

    Of sentences at most what an hour allows; in a time budget, the clock decides.
    """
    # letters are learned in fewer passes than words: each is seen far more often
    pairs_seen, max_epochs = (150_000, 40) if letters else (2_000_000, 60)
    steps = float(np.clip(pairs_seen / facts.pairs, 3, max_epochs)) * epoch
    if minutes is None and not letters:
        steps = min(steps, DEFAULT_SECONDS / step_seconds)
    whole = int(np.clip(steps, MIN_STEPS, MAX_STEPS))
    reason = f"{whole / epoch:.1f} times through {facts.pairs:,} pairs"
    if whole in (MIN_STEPS, MAX_STEPS):
        reason += f", the {'lower' if whole == MIN_STEPS else 'upper'} limit"
    if minutes is not None:
        reason += f", if {minutes:g} min are enough"
    elif not letters:
        reason += f", about {max(1, round(whole * step_seconds / 60))} min on two cores"
    return whole, reason
