"""Scores of translations: loss, exact match, BLEU, chrF, ROUGE, and baselines."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from saccade.data.samplers import evenly_spaced_rows
from saccade.estimators.baselines import copy_source
from saccade.metrics.rouge import rouge
from saccade.metrics.translation import (
    bleu,
    chrf,
    exact_match,
    max_bleu_tokens,
    normalize_for_match,
    textbook_corpus_bleu,
)
from saccade.models.base import EncoderDecoder
from saccade.nn.kernels.linear_cross_entropy import linear_cross_entropy
from saccade.tasks.base import Evaluator, PredictContext
from saccade.tasks.neural import device_of
from saccade.tasks.translation.config import TranslationRecipe
from saccade.tasks.translation.data import PairSplit, TokenizerPair
from saccade.tasks.translation.objective import batch_to, batches_once, target_hidden
from saccade.tasks.translation.predict import TranslationPredictor
from saccade.types.progress import Progress, ProgressCounter, ignore_progress
from saccade.types.results import ComparisonMetric, Evaluation, Prediction

BLEU_ORDER = 4  # the longest n-grams that BLEU counts
DEV_METRICS = ("bleu", "d2l_bleu")  # of those that may be left out, the ones logged in training
STOPPABLE_GROUP = 64  # translations of an evaluation during training that are made together
PER_TOKEN = "per target token of this run's vocabulary, eos included, no label smoothing"


class TranslationEvaluator(Evaluator[PairSplit]):
    """Loss of the references, and scores of the translations against them."""

    def __init__(self, recipe: TranslationRecipe, model: EncoderDecoder, tokenizers: TokenizerPair):
        self.recipe, self.model = recipe, model
        self.predictor = TranslationPredictor(recipe, model, tokenizers)
        by_character = recipe.data.tokenizer.kind == "character"  # answers are words or numbers
        self.metric = (
            ComparisonMetric("exact", True, 100.0)
            if by_character
            else ComparisonMetric("chrf", True)
        )
        self.headline = ("exact",) if by_character else ("chrf", "bleu")

    def evaluate(
        self,
        split: PairSplit,
        *,
        limit: int | None = None,
        options: Mapping[str, Any] | None = None,
        on_progress: Progress = ignore_progress,
    ) -> Evaluation:
        """Score at most `limit` translations, evenly spread; the loss is of the whole split."""
        pairs = split.pairs
        count = len(pairs) if limit is None else min(limit, len(pairs))
        rows = evenly_spaced_rows(len(pairs), count)
        predictions = self.predictor.predict(
            list(pairs.sources(rows)),
            self.predictor.parse_options(options or {}),
            # during training in small groups, between which it can be stopped
            PredictContext(on_progress=on_progress, max_group=limit and STOPPABLE_GROUP),
        )
        texts = [prediction.text for prediction in predictions]
        references = list(pairs.targets(rows))
        scores = score_translations(texts, references, full=limit is None)
        loss = {"loss": PER_TOKEN, "perplexity": PER_TOKEN}
        metrics = self.mean_loss(split, on_progress) | scores.metrics
        return replace(scores, metrics=metrics, conventions=loss | scores.conventions)

    @torch.no_grad()
    def mean_loss(
        self, split: PairSplit, on_progress: Progress = ignore_progress
    ) -> dict[str, float]:
        """Return the cross-entropy per target token, and the perplexity."""
        self.model.eval()
        device = device_of(self.model)
        total, tokens = 0.0, 0
        counter = ProgressCounter(on_progress, "scoring the references", len(split.encoded))
        for batch in batches_once(split.encoded, self.recipe.train.batch_tokens):
            counter.advance(len(batch.lines))
            batch = batch_to(batch, device)
            hidden = target_hidden(self.model, batch)
            layer = self.model.output_layer
            loss, _ = linear_cross_entropy(hidden, layer, batch.target_out, 0.0, batch.weights)
            total += float(loss)
            tokens += batch.tokens
        loss_per_token = total / tokens
        return {"loss": loss_per_token, "perplexity": math.exp(min(loss_per_token, 700.0))}

    def selection_score(self, metrics: Mapping[str, float]) -> float:
        """Return chrF; among equals, the lower loss is better."""
        return metrics["chrf"] - 1e-3 * metrics["loss"]

    def floors(self, train: PairSplit, split: PairSplit) -> dict[str, dict[str, float]]:
        """Return the scores of copying the source, which any translator should beat."""
        copied = copy_source(list(split.pairs.sources()), list(split.pairs.targets()))
        return {"copied source": copied.metrics}

    def inputs(self, split: PairSplit) -> list[str]:
        """Return the sources of a split."""
        return list(split.pairs.sources())

    def score_each(
        self, split: PairSplit, predictions: Sequence[Prediction]
    ) -> NDArray[np.float64]:
        """Return the comparison metric of each translation."""
        texts = [prediction.text for prediction in predictions]
        pairs = zip(texts, split.pairs.targets(), strict=True)
        if self.metric.name == "exact":
            each = [float(normalize_for_match(a) == normalize_for_match(b)) for a, b in pairs]
        else:
            each = [chrf([text], [reference]).value for text, reference in pairs]
        return self.metric.factor * np.array(each, np.float64)


def score_translations(
    translations: list[str], references: list[str], full: bool = True
) -> Evaluation:
    """Return exact match and d2l's BLEU from 0 to 1, BLEU and chrF from 0 to 100.

    With `full`, also BLEU and chrF in lower case, and ROUGE where references have several words;
    these take too long for the evaluations during training. A metric that the references give no
    meaning to is left out, with the reason in `omitted`.
    """
    omitted = undefined_metrics(references)
    scored = {
        "bleu": lambda: bleu(translations, references),
        "bleu_lower": lambda: bleu(translations, references, lower=True),
        "chrf": lambda: chrf(translations, references),
        "chrf_lower": lambda: chrf(translations, references, lower=True),
    }
    metrics = {"exact": exact_match(translations, references)}
    conventions = {"exact": "share of translations equal to the reference (NFC, ends stripped)"}
    for name, score in scored.items():
        if name not in omitted and (full or not name.endswith("_lower")):
            metrics[name], conventions[name] = score()
    if "d2l_bleu" not in omitted:
        words = [text.split() for text in translations], [text.split() for text in references]
        metrics["d2l_bleu"] = textbook_corpus_bleu(*words)
        conventions["d2l_bleu"] = (
            "BLEU as in d2l: weights 1/2^n, n ≤ 4, words between spaces, mean over sentences"
        )
    metrics["examples"] = float(len(translations))
    if full and "rouge1" not in omitted:
        shared = rouge(translations, references, str.split)
        metrics |= {name: value.f1 for name, value in shared.items()}
        conventions |= dict.fromkeys(shared, "F, words between spaces, no stemming, mean")
    if not full:
        omitted = {name: reason for name, reason in omitted.items() if name in DEV_METRICS}
    return Evaluation(metrics, conventions, omitted=omitted)


def undefined_metrics(references: Sequence[str]) -> dict[str, str]:
    """Return the metrics that these references give no meaning to, and why."""
    omitted: dict[str, str] = {}
    longest, tokenizer = max_bleu_tokens(references)
    if longest < BLEU_ORDER:
        reason = f"no reference has {BLEU_ORDER} tokens (sacreBLEU's {tokenizer})"
        omitted |= {"bleu": reason, "bleu_lower": reason}
    if max(len(text.split()) for text in references) < 2:
        reason = "no reference has two words between spaces"
        omitted |= dict.fromkeys(("d2l_bleu", "rouge1", "rouge2", "rougeL"), reason)
    return omitted
