"""Classification by a prompt: the capabilities of a masked language model with a template."""

from collections.abc import Sequence

from torch import Tensor

from saccade.data.wordpiece import MASK
from saccade.models.bert_config import PSEUDO_TOKEN
from saccade.models.prompt_classifier import PromptClassifier, copy_language_model
from saccade.tasks.text_classification.bert import BertLabelScorer
from saccade.tasks.text_classification.components import make_components
from saccade.tasks.text_classification.neural import (
    TextObjective,
    build_text_network,
    set_calibration,
)
from saccade.tasks.text_classification.templates import TemplateEncoder
from saccade.types.shapes import TokenIds


class PromptLabelScorer(BertLabelScorer):
    """Scores of the words of each label at [MASK]; the template takes no part of a label."""

    model: PromptClassifier  # type: ignore[assignment]
    encoder: TemplateEncoder

    def read_tokens(self, text: str, words: Sequence[str]) -> list[str]:
        """Return the tokens of a text in the template, for plots."""
        tokenizer = self.encoder.tokenizer
        size = tokenizer.vocab_size
        return [
            f"{PSEUDO_TOKEN[:-1]}{id - size + 1}]"
            if id >= size
            else tokenizer.display_tokens([id])[0]
            for id in self.encoder.encode_spans(text).ids
        ]

    def _embed_with_baseline(self, ids: TokenIds) -> tuple[Tensor, Tensor]:
        before, after = len(self.encoder.template.before), len(self.encoder.template.after)
        masked = ids.clone()
        masked[:, before : ids.shape[1] - after] = MASK
        return self.model.embed(ids)[0], self.model.embed(masked)[0]


PROMPT_CLASSIFIER = make_components(
    PromptLabelScorer,
    set_calibration,
    build_model=build_text_network,
    objective=TextObjective,
    transfer_weights=copy_language_model,
)
