"""Figures as JSON values for a browser. Imports neither torch nor matplotlib."""

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from saccade.inspection.figures import ActivationCurves, Figure, TrainingCurves, WordMap, ZipfCurves
from saccade.inspection.projection import project_pca
from saccade.inspection.zipf import fit_zipf_by_order
from saccade.types.arrays import FloatArray

MAX_ERROR_POINTS = 801  # of GELU's errors, which are measured at many more


def figure_to_json(figure: Figure) -> dict[str, Any]:
    """Return a figure as JSON values: its fields, and `kind`, the name of its class.

    Arrays become lists, and numbers that are not finite become null. Derived values that a browser
    would have to compute are added: the step that was kept, those at which the optimizer changed,
    principal components (in place of the vectors), fits of Zipf's law.
    """
    value = {"kind": type(figure).__name__, **_fields(figure)}
    if isinstance(figure, TrainingCurves):
        value["best_step"] = figure.best_step
        value["switches"] = _to_json(figure.switches)
    elif isinstance(figure, WordMap):
        del value["vectors"]
        value |= _to_json(project_pca(figure.vectors)._asdict())
        value["all_words"] = figure.all_words
    elif isinstance(figure, ZipfCurves):
        value["fits"] = _to_json(fit_zipf_by_order(figure.frequencies))
    elif isinstance(figure, ActivationCurves):
        value["errors"] = [
            {
                "name": error.name,
                "x": _to_json(_thin(error.x)),
                "error": _to_json(_thin(error.error)),
                "max_error": error.max_error,
                "max_error_x": error.max_error_x,
            }
            for error in figure.errors
        ]
    return value


def _fields(figure: Any) -> dict[str, Any]:
    return {field.name: _to_json(getattr(figure, field.name)) for field in fields(figure)}


def _thin(values: FloatArray) -> FloatArray:
    """Return at most `MAX_ERROR_POINTS` evenly spaced entries."""
    kept = np.linspace(0, len(values) - 1, min(len(values), MAX_ERROR_POINTS)).astype(np.int64)
    return values[kept]


def _to_json(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if is_dataclass(value):
        return _fields(value)
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {str(key): _to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_to_json(item) for item in value]
    return value
