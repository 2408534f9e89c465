"""Settings of ELMo. Does not import torch."""

from typing import Literal

from pydantic import Field

from saccade.models.config import LanguageModelConfig
from saccade.types.limits import MAX_DEPTH, MAX_WIDTH

ELMO_KERNELS = (2, 3, 4, 5)  # bytes


class ElmoConfig(LanguageModelConfig):
    """Language models in both directions over words as characters (Peters et al. 2018)."""

    name: Literal["elmo"] = "elmo"
    width: int = Field(256, ge=1, le=MAX_WIDTH)
    """Width of the word vectors and of the states of each direction."""
    depth: int = Field(2, ge=1, le=MAX_DEPTH)
    """Number of LSTM layers in each direction."""
    byte_width: int = Field(16, ge=1, le=MAX_WIDTH)
    """Width of the vector of a byte."""
    filters: int = Field(64, ge=1, le=MAX_WIDTH)
    """Number of filters of each kernel size, 2 to 5 bytes."""
    highway: int = Field(1, ge=0, le=MAX_DEPTH)
    """Number of highway layers after the convolutions."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Dropout probability."""
