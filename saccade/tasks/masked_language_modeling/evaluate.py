"""Accuracy and perplexity of masked tokens, and accuracy of next-sentence prediction."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from saccade.data.samplers import evenly_spaced_rows
from saccade.data.text.packing import TokenStream
from saccade.data.wordpiece import SEP, WordPieceTokenizer
from saccade.models.bert_pretraining import BertPretraining
from saccade.tasks.base import Evaluator
from saccade.tasks.masked_language_modeling.config import BertRecipe
from saccade.tasks.masked_language_modeling.objective import (
    NOT_NEXT,
    MaskedBatch,
    SequenceMaker,
    pretraining_losses,
)
from saccade.tasks.masked_language_modeling.predict import refuse_without_heads
from saccade.types.progress import Progress, ProgressCounter, ignore_progress
from saccade.types.results import Evaluation

MAX_SEQUENCES = 1024  # evenly spaced; 20,000 targets of sequences of 128 tokens
EVAL_BATCH_TOKENS = 8192
SEED = 0  # of the masks of an evaluation, whatever the seed of training


class MaskedLMEvaluator(Evaluator[TokenStream]):
    """Metrics on masked sequences, which are the same at every evaluation of a text."""

    headline = ("mask_accuracy", "perplexity", "next_sentence_accuracy")

    def __init__(self, recipe: BertRecipe, model: BertPretraining, tokenizer: WordPieceTokenizer):
        self.data, self.model, self.vocab_size = recipe.data, model, tokenizer.vocab_size

    def _batches(self, split: TokenStream, limit: int | None) -> list[MaskedBatch]:
        """Return the masked sequences of a text."""
        maker = SequenceMaker(split, self.data, self.vocab_size)
        count = maker.packing.count
        windows = evenly_spaced_rows(count, min(limit or MAX_SEQUENCES, MAX_SEQUENCES))
        size = max(1, EVAL_BATCH_TOKENS // self.data.sequence_length)
        return [
            maker.batch(windows[start : start + size], SEED, epoch=0)
            for start in range(0, len(windows), size)
        ]

    @torch.no_grad()
    def evaluate(
        self,
        split: TokenStream,
        *,
        limit: int | None = None,
        options: Mapping[str, Any] | None = None,
        on_progress: Progress = ignore_progress,
    ) -> Evaluation:
        """Score a text, or `limit` of its sequences."""
        self.refuse_options(options, "masked tokens are scored one by one")
        refuse_without_heads(self.model, "score masked tokens")
        self.model.eval()
        batches = self._batches(split, limit)
        counter = ProgressCounter(on_progress, "evaluating", sum(len(b.ids) for b in batches))
        total, sequences = np.zeros(2), np.zeros(2)  # summed loss and correct answers
        for batch in batches:
            tokens, pairs = pretraining_losses(self.model, batch)
            total += [float(tokens.total), float(tokens.correct)]
            if pairs is not None:
                sequences += [float(pairs.total), float(pairs.correct)]
            counter.advance(len(batch.ids))
        targets, count = sum(batch.tokens for batch in batches), sum(len(b.ids) for b in batches)
        loss = total[0] / targets
        metrics = {
            "loss": float(loss),
            "mask_accuracy": float(total[1] / targets),
            "perplexity": math.exp(min(loss, 700.0)),
        }
        conventions = self._conventions(targets, count)
        omitted = {}
        if self.data.pairs:
            metrics["next_sentence_loss"] = float(sequences[0] / count)
            metrics["next_sentence_accuracy"] = float(sequences[1] / count)
        else:
            reason = "the sequences have one segment (data.pairs=false)"
            omitted = {"next_sentence_loss": reason, "next_sentence_accuracy": reason}
        metrics["targets"] = float(targets)
        return Evaluation(metrics, conventions, omitted=omitted)

    def _conventions(self, targets: int, count: int) -> dict[str, str]:
        data = self.data
        unit = "words" if data.whole_words else "tokens"
        how = (
            f"{targets:,} targets, {data.mask_share:.0%} of {count:,} sequences of "
            f"{data.sequence_length} tokens, by {unit}: 80 % masked, 10 % random, 10 % unchanged"
        )
        found = {
            "loss": f"cross-entropy per target; {how}",
            "mask_accuracy": "share of the targets whose most probable token is right",
            "perplexity": "e to the loss",
        }
        if data.pairs:
            found["next_sentence_accuracy"] = "share of the pairs whose label is predicted"
        return found

    def floors(self, train: TokenStream, split: TokenStream) -> dict[str, dict[str, float]]:
        """Return the metrics of token frequencies, and of the more frequent label of pairs."""
        batches = self._batches(split, None)
        targets = np.concatenate([batch.targets.numpy() for batch in batches])
        counts = np.bincount(train.ids, minlength=self.vocab_size)
        counts[SEP] = 0  # never a target
        log_probabilities = np.log((counts + 1) / (counts.sum() + self.vocab_size))
        loss = -float(log_probabilities[targets].mean())
        unigram = {
            "loss": loss,
            "mask_accuracy": float((targets == counts.argmax()).mean()),
            "perplexity": math.exp(loss),
        }
        if not self.data.pairs:
            return {"token frequencies": unigram}
        labels = np.concatenate([b.labels.numpy() for b in batches if b.labels is not None])
        share = float((labels == NOT_NEXT).mean())
        return {
            "token frequencies": unigram,
            "majority class": {"next_sentence_accuracy": max(share, 1 - share)},
        }
