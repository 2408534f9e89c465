"""Settings that follow from the data: one function, and its reasons.

A setting that somebody set is left as it is; all others are chosen here. The rules are plain
arithmetic on a few facts of the training pairs, and every choice says which fact it came from.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from saccade.config import flatten, set_paths
from saccade.data.pairs import Pairs
from saccade.tasks.recipe import TranslationRecipe

LOOKED_AT = 20_000  # pairs


@dataclass(frozen=True)
class Facts:
    """What a sample of the training pairs says."""

    pairs: int
    source_letters: float  # per text
    target_letters: float
    target_words: float
    common: float  # share of the letters of both sides that occur on both


def facts_of(pairs: Pairs) -> Facts:
    """Look at up to 20,000 pairs, evenly spread over the file."""
    rows = np.unique(np.linspace(0, len(pairs) - 1, min(len(pairs), LOOKED_AT)).astype(np.int64))
    sources, targets = list(pairs.sources(rows)), list(pairs.targets(rows))
    left, right = (set("".join(side).lower()) for side in (sources, targets))
    return Facts(
        pairs=len(pairs),
        source_letters=float(np.mean([len(text) for text in sources])),
        target_letters=float(np.mean([len(text) for text in targets])),
        target_words=float(np.mean([len(text.split()) for text in targets])),
        common=len(left & right) / max(1, len(left | right)),
    )


@dataclass(frozen=True)
class Choice:
    """One setting, its value, and why."""

    path: str
    value: Any
    reason: str


def choose_model(facts: Facts) -> str:
    """The name of the model that suits the data, for who has named none."""
    return "bahdanau" if facts.target_words <= 1.5 else "transformer"


def size_up(recipe: TranslationRecipe, facts: Facts) -> tuple[TranslationRecipe, list[Choice]]:
    """Choose what is open, before anything is encoded."""
    choices: list[Choice] = []
    given = flatten(recipe, only_set=True)

    def choose(path: str, value: Any, reason: str) -> Any:
        if path in given:
            return given[path]
        choices.append(Choice(path, value, reason))
        return value

    if facts.target_words <= 1.5:
        why = f"answers are single words (of {facts.target_letters:.0f} letters on average)"
        kind = choose("data.tokenizer.kind", "character", why)
    else:
        why = f"answers have {facts.target_words:.0f} words on average"
        kind = choose("data.tokenizer.kind", "bytepair", why)
    if kind == "bytepair":
        size = 2000 if facts.pairs < 8_000 else 4000 if facts.pairs < 20_000 else 8000
        size = 16_000 if facts.pairs > 500_000 else size
        choose("data.tokenizer.size", size, f"{facts.pairs:,} pairs")
        choose(
            "data.tokenizer.shared",
            facts.common > 0.3,
            f"{100 * facts.common:.0f} % of the letters occur on both sides",
        )
    _choose_sizes(recipe.model.name, kind, facts, choose)
    _choose_training(recipe.model.name, kind, facts, choose)
    return set_paths(recipe, {choice.path: choice.value for choice in choices}), choices


def _choose_sizes(model: str, kind: str, facts: Facts, choose: Any) -> None:
    why = f"{facts.pairs:,} pairs"
    letters = kind == "character"
    if model == "transformer":
        wide = 128 if letters or facts.pairs < 20_000 else 256 if facts.pairs < 500_000 else 512
        choose("model.width", wide, why)
        choose("model.depth", 2 if wide == 128 else 3, f"a width of {wide}")
        choose("model.heads", wide // 32 if wide < 512 else 8, f"a width of {wide}")
    else:
        choose("model.width", 128 if letters or facts.pairs < 20_000 else 256, why)
    small = facts.pairs < 50_000 and not letters
    choose("model.dropout", 0.3 if small else 0.1, why)


def _choose_training(model: str, kind: str, facts: Facts, choose: Any) -> None:
    letters = kind == "character"
    per_token = 1.0 if letters else 4.0  # letters
    longer = max(facts.source_letters, facts.target_letters) / per_token + 1
    # about 128 rows, fewer where there are few pairs, so that an epoch has at least 50 steps
    rows = min(128, max(16, facts.pairs // 50))
    budget = int(np.clip(rows * longer, 256, 4096))
    budget = choose("train.batch_tokens", budget, f"about {rows} pairs of {longer:.0f} tokens")
    epoch = max(1.0, facts.pairs * longer / budget)
    # letters are learned in fewer passes than words: each is seen far more often
    epochs = float(np.clip((150_000 if letters else 600_000) / facts.pairs, 3, 40))
    steps = int(np.clip(epochs * epoch, 400, 100_000))
    steps = choose("train.steps", steps, f"{steps / epoch:.1f} times through {facts.pairs:,} pairs")
    choose(
        "train.warmup", max(20, min(steps // 10, 1000)), f"a tenth of {steps:,} steps, up to 1000"
    )
    choose("train.evaluate_every", max(50, steps // 20), f"twenty times in {steps:,} steps")
    rate = 2e-3 if model != "transformer" else 1e-3
    choose("train.learning_rate", rate, f"usual for {model} of this size")
    choose(
        "train.smoothing",
        0.0 if letters else 0.1,
        f"tokens are {'letters' if letters else 'pieces of words'}",
    )
