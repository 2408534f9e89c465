"""n-gram language models as estimators."""

from collections.abc import Mapping

import torch
from torch import Tensor

from saccade.data.text.token_store import TokenCorpus
from saccade.data.tokenizers import Tokenizer
from saccade.estimators.ngram.config import NGramConfig
from saccade.estimators.ngram.model import NGram
from saccade.tasks.language_modeling.config import LanguageRecipe
from saccade.training.estimator import FitContext


class NGramModel:
    """An n-gram model whose state is tensors."""

    def __init__(self, recipe: LanguageRecipe, tokenizer: Tokenizer):
        config = recipe.model
        assert isinstance(config, NGramConfig)
        self.ngram = NGram(
            config.order,
            config.vocab_size,
            config.smoothing,
            min_count=config.min_count,
            min_count_order=config.min_count_order,
        )

    def state_dict(self) -> dict[str, Tensor]:
        """Return the counts and what is derived from them."""
        return {name: torch.from_numpy(array) for name, array in self.ngram.to_arrays().items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore the counts."""
        self.ngram = NGram.from_arrays({name: tensor.numpy() for name, tensor in state.items()})


class NGramFit:
    """Estimator: counts n-grams."""

    is_resumable = False

    def __init__(
        self,
        recipe: LanguageRecipe,
        model: NGramModel,
        tokenizer: Tokenizer,
        splits: Mapping[str, TokenCorpus],
    ):
        self.model, self.corpus = model, splits["train"]

    def fit(self, context: FitContext) -> None:
        """Count the n-grams of the training text."""
        context.on_progress("counting n-grams", 0, None)
        self.model.ngram.fit(self.corpus.ids)
