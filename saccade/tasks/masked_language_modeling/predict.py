"""Predictions for masked tokens: the tokens at each [MASK] of a text."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from saccade.config import Config, build_config
from saccade.data.wordpiece import (
    BERT_SPECIAL_TOKENS,
    CLS,
    CONTINUATION,
    MASK,
    SEP,
    WordPieceTokenizer,
)
from saccade.errors import ConfigError, DataError
from saccade.models.bert_config import BertConfig
from saccade.models.bert_pretraining import BertPretraining
from saccade.tasks.base import PredictContext, TextPredictor
from saccade.tasks.language_modeling.masked import FillOptions
from saccade.tasks.masked_language_modeling.config import BertRecipe
from saccade.tasks.neural import device_of
from saccade.types.progress import ProgressCounter
from saccade.types.results import Prediction

MASK_PATTERN = re.compile(r"\[MASK\]")


def refuse_without_heads(model: BertPretraining, purpose: str) -> None:
    """Raise a ConfigError if a model is an encoder alone."""
    if not model.has_heads:
        raise ConfigError(
            f"got an encoder without the head for masked tokens; expected one to {purpose}; try "
            "it as the start of another task: saccade train classify --data FILE --init-from RUN."
        )


class FilledMasks(NamedTuple):
    """The tokens for the masks of a text, in order, and their log-probability."""

    tokens: tuple[int, ...]
    log_probability: float


class MaskFiller(TextPredictor):
    """Replaces each [MASK] of a text by one token, from left to right.

    A beam of `n_best` hypotheses: the log-probability of a hypothesis is the sum over its tokens,
    each given the text and the tokens at the masks before it.
    """

    options = FillOptions

    def __init__(self, recipe: BertRecipe, model: BertPretraining, tokenizer: WordPieceTokenizer):
        self.model, self.tokenizer = model, tokenizer
        config = recipe.model
        assert isinstance(config, BertConfig)
        self.max_length = config.max_length

    def parse_options(self, options: Mapping[str, object]) -> FillOptions:
        """Validate options; those of text generation are refused."""
        given = {name: value for name, value in options.items() if (name, value) != ("beam", 1)}
        if other := sorted(given.keys() - {"n_best"}):
            raise ConfigError(
                f"got {', '.join(other)}; expected n_best alone: BERT predicts the tokens at "
                "[MASK] and cannot continue a text."
            )
        return build_config(FillOptions, given, "the options")

    def parse(self, raw: object, number: int) -> str:
        """Return a text with a mask that fits into the model."""
        refuse_without_heads(self.model, "predict tokens")
        text = super().parse(raw, number)
        if not MASK_PATTERN.search(text):
            raise ConfigError(
                f"input {number}: got a text without [MASK]; expected one or more, each in place "
                'of one token; try "the [MASK] sat on the mat".'
            )
        length = len(self.encode(text))
        if length > self.max_length:
            raise DataError(
                f"input {number}: got {length:,} tokens; expected {self.max_length:,} at most, "
                "the positions of the model; try the part of the text around [MASK]."
            )
        return text

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text with [CLS], [SEP] and its masks."""
        first, *others = self.tokenizer.encode_many(MASK_PATTERN.split(text))
        return [CLS, *first, *(id for part in others for id in (MASK, *part)), SEP]

    @torch.no_grad()
    def predict(
        self, inputs: Sequence[str], options: Config, context: PredictContext
    ) -> list[Prediction]:
        """Return each text with its masks replaced."""
        assert isinstance(options, FillOptions)
        self.model.eval()
        counter = ProgressCounter(context.on_progress, "predicting", len(inputs))
        predictions = []
        for text in inputs:
            found = self.fill(self.encode(text), options.n_best)
            best, *others = (
                Prediction(self._text(text, one.tokens), one.log_probability, *one[1:], True)
                for one in found
            )
            predictions.append(best._replace(alternatives=tuple(others)))
            counter.advance(1)
        return predictions

    @torch.no_grad()
    def fill(self, ids: list[int], n_best: int) -> list[FilledMasks]:
        """Return the most probable tokens for the masks, best first."""
        masks = [at for at, id in enumerate(ids) if id == MASK]
        rows = torch.tensor([ids], device=device_of(self.model))
        scores = torch.zeros(1, device=rows.device)
        for mask in masks:
            each = scores[:, None] + self._log_probabilities(rows, mask)
            scores, best = each.flatten().topk(min(n_best, int(each.isfinite().sum())))
            rows = rows[best // each.shape[1]]
            rows[:, mask] = best % each.shape[1]
        tokens = rows[:, masks].tolist()
        return [
            FilledMasks(tuple(row), score)
            for row, score in zip(tokens, scores.tolist(), strict=True)
        ]

    def _log_probabilities(self, rows: Tensor, position: int) -> Tensor:
        """Return those of the tokens at a position (B, V); special tokens have probability 0."""
        hidden = self.model.encoder(rows)[:, position]
        logits = self.model.compute_logits(hidden)
        logits[:, : len(BERT_SPECIAL_TOKENS)] = -torch.inf
        return logits.log_softmax(dim=-1)

    def _text(self, text: str, tokens: Sequence[int]) -> str:
        """Return the text with tokens for its masks; a "##piece" continues the word before it."""
        first, *others = MASK_PATTERN.split(text)
        filled = first
        for id, part in zip(tokens, others, strict=True):
            token = self.tokenizer.token_of(id)
            if self.tokenizer.is_continuation[id]:
                filled = filled.rstrip(" ") + token.removeprefix(CONTINUATION)
            else:
                filled += token
            filled += part
        return filled
