"""Mathematics on tensors that two families share: tensors in, tensors out."""

from saccade.nn.activations import ACTIVATIONS
from saccade.nn.attention import (
    Attention,
    AttentionLayer,
    MultiHeadAttention,
    share_memory,
    weights,
)
from saccade.nn.dropout import Dropout
from saccade.nn.embedding import Embedding
from saccade.nn.feedforward import FeedForward
from saccade.nn.init import INITS, initialise
from saccade.nn.losses import cross_entropy
from saccade.nn.masks import Mask
from saccade.nn.norm import NORMS, BatchNorm, LayerNorm, RMSNorm
from saccade.nn.positions import POSITIONS, Learned, Places, Relative, Rotary, Sinusoidal
from saccade.nn.recurrent import CELLS, Cell, Read, Recurrent
from saccade.nn.scores import (
    SCORES,
    Additive,
    Concat,
    Cosine,
    Dot,
    Gaussian,
    General,
    ScaledDot,
    Score,
    score_named,
)
from saccade.nn.state import KeyValue, extend
from saccade.nn.transformer import Decoded, DecoderBlock, EncoderBlock, Residual
from saccade.nn.words import Judged, Words, word_loss

__all__ = [
    "ACTIVATIONS",
    "Additive",
    "Attention",
    "AttentionLayer",
    "BatchNorm",
    "CELLS",
    "Cell",
    "Concat",
    "Cosine",
    "Decoded",
    "DecoderBlock",
    "Dot",
    "Dropout",
    "Embedding",
    "EncoderBlock",
    "FeedForward",
    "Gaussian",
    "General",
    "INITS",
    "Judged",
    "KeyValue",
    "LayerNorm",
    "Learned",
    "Mask",
    "MultiHeadAttention",
    "NORMS",
    "POSITIONS",
    "Places",
    "RMSNorm",
    "Read",
    "Recurrent",
    "Relative",
    "Residual",
    "Rotary",
    "SCORES",
    "ScaledDot",
    "Score",
    "Sinusoidal",
    "Words",
    "cross_entropy",
    "extend",
    "initialise",
    "score_named",
    "share_memory",
    "weights",
    "word_loss",
]
