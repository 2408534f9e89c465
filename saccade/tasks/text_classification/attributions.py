r"""Contribution of each word of a text to its label. Does not import torch.

The value that is explained is the difference of the calibrated logits of the label and of the
runner-up, v = (z_a - z_b) / T = log p_a / p_b; of independent labels it is z / T = log p / (1 - p).

    contributions          a linear model: the sum of the terms of the word's n-grams, exact
    occlusion              v(x) - v(x without the word), of any model
    gradient               ∂v/∂x_t · (x_t - x̄), with x_t the vector of the word, x̄ the mean
    integrated_gradients   the same with the mean gradient on the path from x̄ to x_t
    attention              the attention weight of the word
"""

from collections.abc import Sequence

import numpy as np

from saccade.data.word_splitting import SPAN_SPLITTERS
from saccade.errors import ConfigError
from saccade.inspection.attribution import Attribution
from saccade.registry import lookup
from saccade.tasks.text_classification.scorer import LabelPair, LabelScorer, WordScores
from saccade.types.arrays import FloatArray

MAX_OCCLUSIONS = 400  # parts of a text that are left out; longer texts in runs of words


def label_pair(scorer: LabelScorer, logits: FloatArray, output: str | None) -> LabelPair:
    """Return the predicted or given label, and the best of the others."""
    order = np.argsort(-logits, kind="stable").tolist()
    chosen = order[0]
    if output is not None:
        chosen = lookup(scorer.vocabulary.label_ids, output, "label")
    if scorer.multi_label:
        return LabelPair(chosen, None)
    return LabelPair(chosen, next(label for label in order if label != chosen))


def attribute_text(
    scorer: LabelScorer, text: str, method: str | None = None, output: str | None = None
) -> Attribution:
    """Return the contribution of each word of a text to the predicted label, or to another one."""
    method = method or scorer.methods[0]
    spans = SPAN_SPLITTERS[scorer.recipe.data.split](text)
    if not spans:
        raise ConfigError(f"got the text {text!r} without words; expected one with words.")
    logits = scorer.logits([text])[0]
    pair = label_pair(scorer, logits, output)
    temperature = scorer.calibration.temperature
    if method == "occlusion":
        scores = occlude(scorer, text, spans, pair)
        found = WordScores(scores, baseline="the text without the word")
    else:
        found = scorer.word_scores(text, len(spans), method, pair)
    labels = scorer.vocabulary.labels
    return Attribution(
        parts=[text[start:end] for start, end in spans],
        scores=found.scores,
        output=labels[pair.chosen],
        method=method,
        value=float(pair.value(logits)) / temperature,
        base=found.base,
        unit=found.unit,
        against="" if pair.other is None else labels[pair.other],
        probability=float(scorer.probabilities(logits[None])[0, pair.chosen]),
        text=text,
        spans=spans,
        baseline=found.baseline,
    )


def occlude(
    scorer: LabelScorer, text: str, spans: Sequence[tuple[int, int]], pair: LabelPair
) -> FloatArray:
    """Return how much the value falls if a word is left out; long texts in runs of words."""
    size = -(-len(spans) // MAX_OCCLUSIONS)
    runs = [range(start, min(start + size, len(spans))) for start in range(0, len(spans), size)]
    texts = [f"{text[: spans[run[0]][0]]} {text[spans[run[-1]][1] :]}" for run in runs]
    values = pair.value(scorer.logits([text, *texts])) / scorer.calibration.temperature
    return np.concatenate(
        [
            np.full(len(run), (values[0] - value) / len(run))
            for run, value in zip(runs, values[1:], strict=True)
        ]
    )
