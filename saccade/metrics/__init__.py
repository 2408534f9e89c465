"""Answers and references in, figures for people out."""

from saccade.metrics.translation import (
    Scored,
    bleu,
    chrf,
    exact,
    taught_bleu,
    taught_bleu_corpus,
)

__all__ = [
    "Scored",
    "bleu",
    "chrf",
    "exact",
    "taught_bleu",
    "taught_bleu_corpus",
]
