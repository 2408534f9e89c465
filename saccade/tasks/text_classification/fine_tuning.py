"""Choice of the length, batch size and learning rate of training BERT on labelled texts.

With the weights of another run: a few epochs at a small learning rate, warm-up and linear decay, as
in Devlin et al. 2019, appendix A.3. Without them, a larger rate and more epochs.
"""

from collections.abc import Iterator

import numpy as np

from saccade.models.bert_config import PromptClassifierConfig
from saccade.tasks.base import Choice
from saccade.tasks.length import evaluation_choice, warmup_choice
from saccade.tasks.text_classification.config import ClassifyRecipe
from saccade.tasks.text_classification.pieces import PieceEncoder
from saccade.tasks.text_classification.texts import TextSplit

BATCH_TEXTS = 32
FINE_TUNING_TEXTS = 100_000  # texts seen in fine-tuning, unless that is very few or many epochs
MIN_FINE_TUNING_EPOCHS, MAX_FINE_TUNING_EPOCHS = 1.5, 10.0
SCRATCH_FACTOR = 3  # epochs without weights, as a multiple
RATE, RATE_WIDTH = 3e-5, 768  # of BERT base; narrower models take a larger one
SCRATCH_RATE = 5e-4
PROMPT_RATE = 1e-3  # of the pseudo-tokens alone, with frozen weights
MIN_PROMPT_STEPS = 100  # of few texts, whose epochs are few steps
MAX_TRUNCATED_SHARE = 0.02  # above which there is a note


def fine_tuning_choices(
    recipe: ClassifyRecipe, train: TextSplit, has_weights: bool
) -> Iterator[Choice]:
    """Yield the settings for training BERT on these texts."""
    lengths = np.diff(train.words.starts)
    mean = float(lengths.mean())
    settings, width = recipe.train.model_dump(), recipe.model.model_dump()["width"]
    rate = RATE * max(1.0, RATE_WIDTH / width) if has_weights else SCRATCH_RATE
    reason = f"usual for fine-tuning an encoder of width {width}" if has_weights else "no weights"
    config: object = recipe.model
    if isinstance(config, PromptClassifierConfig) and config.is_frozen:
        rate, reason = PROMPT_RATE, "only the pseudo-tokens are learned"
    yield Choice("train.learning_rate", float(f"{rate:.1g}"), reason)
    yield Choice("train.schedule", "linear", "usual for BERT")
    given = recipe.train.model_fields_set
    tokens = settings["batch_tokens"]
    if "batch_tokens" not in given:
        tokens = max(1, round(BATCH_TEXTS * mean))
        yield Choice("train.batch_tokens", tokens, f"{BATCH_TEXTS} texts of {mean:.0f} tokens")
    if settings["minutes"] is not None:
        return
    epochs = float(
        np.clip(FINE_TUNING_TEXTS / len(train), MIN_FINE_TUNING_EPOCHS, MAX_FINE_TUNING_EPOCHS)
    )
    epochs *= 1 if has_weights else SCRATCH_FACTOR
    rows = min(len(train), max(1, int(tokens // max(1.0, mean))))
    min_steps = MIN_PROMPT_STEPS if isinstance(config, PromptClassifierConfig) else 1
    steps = max(min_steps, round(epochs * len(train) / rows))
    epochs = steps * rows / len(train)
    yield Choice("train.steps", steps, f"{epochs:.1f} epochs of {len(train):,} texts")
    steps = settings["steps"] if "steps" in given else steps
    yield warmup_choice(steps)
    yield evaluation_choice(steps)


def truncation_notes(train: TextSplit) -> list[str]:
    """Return a note if many texts are longer than the encoder reads."""
    encoder = train.encoder
    assert isinstance(encoder, PieceEncoder)
    share = float((np.diff(train.words.starts) >= encoder.max_tokens).mean())
    if share <= MAX_TRUNCATED_SHARE:
        return []
    return [
        f"{share:.0%} of the texts have {encoder.max_tokens} tokens or more and are truncated; "
        "data.max_tokens sets the limit, up to the positions of the encoder."
    ]
