"""Workflows over several runs or the whole machine: compare, mix, prune, doctor, fine-tune."""

from saccade.workflows.compare import Comparison, compare_models
from saccade.workflows.doctor import Diagnosis, compare_tables
from saccade.workflows.layer_benchmark import LayerComparison, compare_layers
from saccade.workflows.mixture import evaluate_mixture
from saccade.workflows.prune import PruneResult, prune
from saccade.workflows.text_scores import score_texts_with_run

__all__ = [
    "Comparison",
    "Diagnosis",
    "LayerComparison",
    "PruneResult",
    "compare_layers",
    "compare_models",
    "compare_tables",
    "evaluate_mixture",
    "prune",
    "score_texts_with_run",
]
