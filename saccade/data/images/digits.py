"""The 1,797 handwritten digits of scikit-learn, 8 × 8 pixels (UCI, Alpaydin 1998)."""

from functools import cache
from typing import NamedTuple

import numpy as np

from saccade.errors import MissingPackageError
from saccade.types.arrays import ByteArray, IntArray

DIGIT_LEVELS = 16  # of scikit-learn's digits


class Digits(NamedTuple):
    """Pixels (N, 8, 8) and classes of digits."""

    pixels: ByteArray
    classes: IntArray


@cache
def load_digits() -> Digits:
    """Return all digits; MissingPackageError if scikit-learn is not installed."""
    try:
        from sklearn import datasets
    except ImportError:
        raise MissingPackageError(
            "digits is a dataset of scikit-learn, which is not installed: pip install "
            "'saccade[tables]'. Images of your own do not need it: saccade train image --data "
            "FOLDER"
        ) from None
    found = datasets.load_digits()
    pixels = np.floor(found.images * (255 / DIGIT_LEVELS) + 0.5).astype(np.uint8)
    return Digits(pixels, found.target.astype(np.int64))
