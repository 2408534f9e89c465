"""What needs several runs or the whole machine."""

from saccade.verbs.compare import Comparison, compare
from saccade.verbs.layers import Layers, compare_layers
from saccade.verbs.prune import Pruned, prune

__all__ = ["Comparison", "Layers", "Pruned", "compare", "compare_layers", "prune"]
