"""What needs several runs or the whole machine."""

from saccade.workflows.compare import Comparison, compare
from saccade.workflows.doctor import Diagnosis, compare_tables
from saccade.workflows.layer_benchmark import LayerComparison, compare_layers
from saccade.workflows.prune import PruneResult, prune

__all__ = [
    "Comparison",
    "Diagnosis",
    "LayerComparison",
    "PruneResult",
    "compare",
    "compare_layers",
    "compare_tables",
    "prune",
]
