"""Answers and references in, figures for people out."""

from saccade.metrics.classification import accuracy, confusion, f1_scores, macro_f1
from saccade.metrics.language import (
    Measured,
    bits_per_character,
    bits_per_word,
    cross_entropy,
    entropy,
    kl_divergence,
    perplexity,
    text_cross_entropy,
)
from saccade.metrics.regression import mae, r_squared, rmse
from saccade.metrics.rouge import Rouge, rouge, rouge_l, rouge_n, rouge_words
from saccade.metrics.significance import Compared, paired_bootstrap
from saccade.metrics.translation import (
    Scored,
    bleu,
    bleu_from_statistics,
    bleu_statistics,
    chrf,
    exact,
    taught_bleu,
    taught_bleu_corpus,
)

__all__ = [
    "Compared",
    "Measured",
    "Rouge",
    "Scored",
    "accuracy",
    "bits_per_character",
    "bits_per_word",
    "bleu",
    "bleu_from_statistics",
    "bleu_statistics",
    "chrf",
    "confusion",
    "cross_entropy",
    "entropy",
    "exact",
    "f1_scores",
    "kl_divergence",
    "macro_f1",
    "mae",
    "paired_bootstrap",
    "perplexity",
    "r_squared",
    "rmse",
    "rouge",
    "rouge_l",
    "rouge_n",
    "rouge_words",
    "taught_bleu",
    "taught_bleu_corpus",
    "text_cross_entropy",
]
