"""Settings that follow from the data: one function, and its reasons.

A setting that somebody set is left as it is; all others are chosen here. The rules are plain
arithmetic on a few facts of the training pairs, and every choice says which fact it came from.

Sentences are sized for about an hour on two cores: what a small corpus cannot fill, a large model
does not fit into, and of a large corpus an hour sees a part. Who has more time asks for more
steps. A training step takes about six operations for each weight that a token meets, two forward
and four backward (Kaplan et al. 2020).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from saccade.config import flatten, set_paths
from saccade.data.pairs import Pairs
from saccade.tasks.recipe import TranslationRecipe
from saccade.tasks.task import Choice

LOOKED_AT = 20_000  # pairs
LETTERS_IN_A_PIECE = 4.0
HOUR = 3600.0
RATE = 8e10  # operations a second of two cores: what training reaches, not what the machine could
FULL = 0.8  # of a batch's budget that is target tokens: padding and the longer source take the rest
MOST_TOKENS = 4096


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
    vocabulary = {"character": 100, "word": 10_000}.get(kind, 0)  # or near enough
    if kind == "bytepair":
        # no more: in an hour, the rare pieces of a larger one are hardly met
        size = 2000 if facts.pairs < 8_000 else 4000 if facts.pairs < 20_000 else 8000
        vocabulary = choose("data.tokenizer.size", size, f"{facts.pairs:,} pairs")
        choose(
            "data.tokenizer.shared",
            facts.common > 0.3,
            f"{100 * facts.common:.0f} % of the letters occur on both sides",
        )
    model = recipe.model.name
    met = _choose_sizes(model, kind, facts, vocabulary or 8000, choose)
    _choose_training(model, kind, facts, met, choose)
    return set_paths(recipe, {choice.path: choice.value for choice in choices}), choices


def _choose_sizes(model: str, kind: str, facts: Facts, vocabulary: int, choose: Any) -> float:
    """The model's sizes, and about how many weights a target token meets."""
    why = f"{facts.pairs:,} pairs"
    letters = kind == "character"
    if model == "transformer":
        # nothing wider: of so many pairs an hour sees a part, and of a wider model less
        width = choose("model.width", 128 if letters or facts.pairs < 50_000 else 256, why)
        depth = 2 if letters or facts.pairs < 8_000 else 4
        depth = choose("model.depth", depth, "letters" if letters else why)
        # other widths than ours must be divisible too
        heads = next(h for h in (max(1, width // 32), 4, 2, 1) if width % h == 0)
        choose("model.heads", heads, f"a width of {width}")
        hidden = 4 * width
        if not letters:
            why_hidden = "twice the width, as is usual for small corpora"
            hidden = choose("model.hidden", 2 * width, why_hidden) or hidden
        met = depth * (12 * width**2 + 4 * width * hidden) + width * vocabulary
    else:
        width = choose("model.width", 128 if letters or facts.pairs < 20_000 else 256, why)
        met = 32 * width**2 + width * vocabulary
    small = facts.pairs < 50_000 and not letters
    choose("model.dropout", 0.3 if small else 0.1, why)
    return float(met)


def _choose_training(model: str, kind: str, facts: Facts, met: float, choose: Any) -> None:
    letters = kind == "character"
    per_token = 1.0 if letters else LETTERS_IN_A_PIECE
    longer = max(facts.source_letters, facts.target_letters) / per_token + 1
    # fewer where there are few pairs, so that an epoch has at least 50 steps
    most = 128.0 if letters else MOST_TOKENS / longer
    rows = min(most, max(16, facts.pairs // 50))
    budget = int(np.clip(rows * longer + 1e-6, 256, MOST_TOKENS))  # 4095.999… is 4096
    budget = choose("train.batch_tokens", budget, f"about {rows:.0f} pairs of {longer:.0f} tokens")
    epoch = max(1.0, facts.pairs * longer / budget)
    steps = _choose_steps(letters, facts, epoch, 6 * met * budget * FULL / RATE, choose)
    choose(
        "train.warmup", max(20, min(steps // 10, 1000)), f"a tenth of {steps:,} steps, up to 1000"
    )
    choose("train.evaluate_every", max(50, steps // 20), f"twenty times in {steps:,} steps")
    if not letters:
        choose("train.patience", 8, "the rate falls to the end, and the scores rise as it does")
    rate = 2e-3 if model != "transformer" else 1e-3
    choose("train.learning_rate", rate, f"usual for {model} of this size")
    choose(
        "train.smoothing",
        0.0 if letters else 0.1,
        f"tokens are {'letters' if letters else 'pieces of words'}",
    )


def _choose_steps(letters: bool, facts: Facts, epoch: float, seconds: float, choose: Any) -> int:
    """So many that the pairs are learned; of sentences, at most what an hour allows."""
    if letters:  # learned in fewer passes than words: each is seen far more often
        epochs = float(np.clip(150_000 / facts.pairs, 3, 40))
        steps = int(np.clip(epochs * epoch, 400, 100_000))
        why = ""
    else:
        epochs = float(np.clip(2_000_000 / facts.pairs, 3, 60))
        steps = int(np.clip(min(epochs * epoch, HOUR / seconds), 400, 100_000))
        why = f", about {max(1, round(steps * seconds / 60))} min on two cores"
    times = f"{steps / epoch:.1f} times through {facts.pairs:,} pairs"
    return int(choose("train.steps", steps, times + why))
