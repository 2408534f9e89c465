"""NumPy array types by element type. Does not import torch."""

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Float32Array = NDArray[np.float32]
Int32Array = NDArray[np.int32]
ByteArray = NDArray[np.uint8]
BoolArray = NDArray[np.bool_]
