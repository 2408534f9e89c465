"""Comparison of models, or of the values of one setting, on equal terms."""

from saccade.workflows.compare.compare import Comparison, compare_models

__all__ = [
    "Comparison",
    "compare_models",
]
