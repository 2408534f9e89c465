"""What needs several runs or the whole machine."""

from saccade.verbs.compare import Comparison, compare
from saccade.verbs.doctor import Diagnosis, compare_tables
from saccade.verbs.layers import Layers, compare_layers
from saccade.verbs.prune import Pruned, prune

__all__ = [
    "Comparison",
    "Diagnosis",
    "Layers",
    "Pruned",
    "compare",
    "compare_layers",
    "compare_tables",
    "prune",
]
