r"""Zero- and few-shot classification by a language model: which candidate continues the text best.

The prompt is the examples, one "text candidate" per line, and the text itself. The score of a
candidate c is \(\log p(c \mid \text{prompt})\) over its tokens, and \(p(c)\) is the softmax of the
scores (Brown et al. 2020). With calibration (Zhao et al. 2021) each probability is divided by
the mean probability of the candidate after texts without content, which removes the preference for
frequent words and for the labels of the last examples.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from saccade.data.special_tokens import EOS
from saccade.data.tokenizers import Tokenizer
from saccade.decoding import AutoregressiveModel, GenerationConfig, score_continuations
from saccade.types.arrays import FloatArray
from saccade.types.results import Prediction

CONTENT_FREE_TEXTS = ("N/A", "", "[MASK]")  # as in Zhao et al.


class ChoiceScorer:
    """Scores the candidates of `options.choices` as continuations of texts."""

    def __init__(self, model: AutoregressiveModel, tokenizer: Tokenizer, options: GenerationConfig):
        self.model, self.tokenizer = model, tokenizer
        self.choices = options.choices
        lines = [_join(text, label) for text, label in options.examples]
        self.context = [EOS, *(id for ids in tokenizer.encode_many(lines) for id in (*ids, EOS))]
        self.prior: FloatArray | float = 1.0
        if options.calibrate:
            tables = [self.probabilities(text) for text in CONTENT_FREE_TEXTS]
            self.prior = np.mean(tables, axis=0)

    def probabilities(self, text: str) -> FloatArray:
        """Return the probability of each candidate after a text, before calibration."""
        before, *whole = self.tokenizer.encode_many(
            [text, *(_join(text, choice) for choice in self.choices)]
        )
        # a token may span the end of the text: all candidates are scored from the same token on
        shared = min(_common_prefix(before, ids) for ids in whole)
        shared = min(shared, *(len(ids) - 1 for ids in whole))
        prompt = torch.tensor([[*self.context, *whole[0][:shared]]])
        scores = score_continuations(self.model, prompt, [ids[shared:] for ids in whole])
        return np.asarray(scores.softmax(0).cpu().numpy())

    def predict(self, text: str) -> Prediction:
        """Return the most probable candidate, with the probability of each."""
        shares = self.probabilities(text) / self.prior
        shares = shares / shares.sum()
        found = dict(zip(self.choices, shares.tolist(), strict=True))
        best = max(found, key=found.__getitem__)
        log_probability = float(np.log(found[best]))
        return Prediction(best, log_probability, log_probability, True, probabilities=found)


def predict_choices(
    model: AutoregressiveModel,
    tokenizer: Tokenizer,
    options: GenerationConfig,
    inputs: Sequence[str],
    advance: Callable[[int], None],
) -> list[Prediction]:
    """Return the choice for each text."""
    scorer = ChoiceScorer(model, tokenizer, options)
    found = []
    for text in inputs:
        found.append(scorer.predict(text))
        advance(1)
    return found


def _join(text: str, choice: str) -> str:
    """Return the text continued by a candidate, with one space between them."""
    return f"{text} {choice}" if text and not text[-1].isspace() else f"{text}{choice}"


def _common_prefix(one: Sequence[int], other: Sequence[int]) -> int:
    pairs = zip(one, other, strict=False)
    return next((index for index, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
