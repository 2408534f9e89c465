"""Loss, perplexity and bits per character of language models."""

import math
import sys
from collections.abc import Mapping
from typing import Any

from saccade.data.text.token_store import TokenCorpus
from saccade.data.tokenizers import Tokenizer
from saccade.data.word_splitting import is_unspaced
from saccade.estimators.baselines import trigram, unigram_entropy
from saccade.models.base import CausalLM
from saccade.tasks.base import Evaluator
from saccade.tasks.language_modeling.config import LanguageRecipe
from saccade.tasks.language_modeling.data import leading_ids, text_sample
from saccade.tasks.language_modeling.ngram import NGramModel
from saccade.tasks.language_modeling.score import scorer_of
from saccade.types.progress import Progress, ignore_progress
from saccade.types.results import Evaluation


class LanguageEvaluator(Evaluator[TokenCorpus]):
    """Metrics per token, per word and per character: models with other tokens are comparable."""

    headline = ("perplexity", "bits_per_character")

    def __init__(self, recipe: LanguageRecipe, model: CausalLM | NGramModel, tokenizer: Tokenizer):
        self.recipe, self.model, self.tokenizer = recipe, model, tokenizer
        self.vocab_size = tokenizer.vocab_size

    def evaluate(
        self,
        split: TokenCorpus,
        *,
        limit: int | None = None,
        options: Mapping[str, Any] | None = None,
        on_progress: Progress = ignore_progress,
    ) -> Evaluation:
        """Score a text, or its first `limit` segments."""
        self.refuse_options(options, "a text is scored token by token")
        length = self.recipe.data.segment_length
        ids = leading_ids(split, limit, length)
        scorer = scorer_of(self.model, length)
        total = scorer.log_likelihood(ids, on_progress)
        return self.evaluation(split, total, len(ids))

    def evaluation(
        self, split: TokenCorpus, log_likelihood: float, length: int | None = None
    ) -> Evaluation:
        """Return the metrics for the log-likelihood of a text, or of its first `length` tokens."""
        ids = split.ids[:length]
        share = (len(ids) - 1) / max(1, len(split.ids) - 1)  # of the text, if a part is scored
        metrics = perplexities(
            log_likelihood, len(ids) - 1, share * split.words, share * split.characters
        )
        context = scorer_of(self.model, self.recipe.data.segment_length).context_description
        conventions = {
            "loss": f"per token, line ends included; {context}",
            "perplexity": "e to the loss",
            "word_perplexity": "per word between spaces and line end, whatever the tokens",
            "bits_per_character": "per character and line end, whatever the tokens",
        }
        omitted = {}
        if is_unspaced(text_sample(self.tokenizer, ids)):
            del metrics["word_perplexity"], conventions["word_perplexity"]
            omitted["word_perplexity"] = "the text has no spaces between words"
        return Evaluation(metrics, conventions, omitted=omitted)

    def floors(self, train: TokenCorpus, split: TokenCorpus) -> dict[str, dict[str, float]]:
        """Return loss and perplexity of a unigram and a trigram model of the training text.

        They are scored on the same tokens as the model (of a long text the trigram model on the
        first ones), and left out for an n-gram model of no higher order.
        """
        order = self.model.ngram.order if isinstance(self.model, NGramModel) else sys.maxsize
        data = (train.ids, split.ids, self.vocab_size)
        floors = {}
        if order > 1:
            floors["unigram"] = unigram_entropy(*data, start=1).metrics
        if order > 3:
            floors["trigram"] = trigram(*data, start=1).metrics
        return floors


def perplexities(
    log_likelihood: float, tokens: int, words: float, characters: float
) -> dict[str, float]:
    """Return loss, perplexity, word perplexity and bits per character of a log-likelihood."""
    loss = -log_likelihood / tokens
    return {
        "loss": loss,
        "perplexity": math.exp(min(loss, 700.0)),
        "word_perplexity": math.exp(min(-log_likelihood / max(words, 1.0), 700.0)),
        "bits_per_character": -log_likelihood / math.log(2) / max(characters, 1.0),
        "tokens": float(tokens),
    }
