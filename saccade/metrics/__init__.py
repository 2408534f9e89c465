"""Metrics, each with its convention and the tool that it agrees with."""

from saccade.metrics.bert_score import (
    BertScore,
    TokenVectors,
    TokenWeights,
    bert_score,
)
from saccade.metrics.calibration import (
    ReliabilityBins,
    expected_calibration_error,
    reliability,
)
from saccade.metrics.classification import (
    ClassReport,
    accuracy,
    class_report,
    confusion_matrix,
    f1_scores,
    macro_f1,
    micro_f1,
)
from saccade.metrics.correlation import pearson, spearman
from saccade.metrics.language_modeling import (
    LanguageMetric,
    bits_per_character,
    bits_per_word,
    distribution_cross_entropy,
    entropy,
    kl_divergence,
    perplexity,
    text_cross_entropy,
)
from saccade.metrics.regression import mae, r_squared, rmse
from saccade.metrics.rouge import RougeScore, rouge, rouge_l, rouge_n, rouge_tokenize
from saccade.metrics.seeds import SeedInterval, interquartile_mean, stratified_bootstrap
from saccade.metrics.significance import PairedBootstrapResult, paired_bootstrap
from saccade.metrics.translation import (
    SacreBleuScore,
    bleu,
    bleu_from_statistics,
    bleu_statistics,
    chrf,
    exact_match,
    textbook_bleu,
    textbook_corpus_bleu,
)

__all__ = [
    "BertScore",
    "ClassReport",
    "LanguageMetric",
    "PairedBootstrapResult",
    "ReliabilityBins",
    "RougeScore",
    "SacreBleuScore",
    "SeedInterval",
    "TokenVectors",
    "TokenWeights",
    "accuracy",
    "bert_score",
    "bits_per_character",
    "bits_per_word",
    "bleu",
    "bleu_from_statistics",
    "bleu_statistics",
    "chrf",
    "class_report",
    "confusion_matrix",
    "distribution_cross_entropy",
    "entropy",
    "exact_match",
    "expected_calibration_error",
    "f1_scores",
    "interquartile_mean",
    "kl_divergence",
    "macro_f1",
    "mae",
    "micro_f1",
    "paired_bootstrap",
    "pearson",
    "perplexity",
    "r_squared",
    "reliability",
    "rmse",
    "rouge",
    "rouge_l",
    "rouge_n",
    "rouge_tokenize",
    "spearman",
    "stratified_bootstrap",
    "text_cross_entropy",
    "textbook_bleu",
    "textbook_corpus_bleu",
]
