"""Mathematics on tensors that two families share: tensors in, tensors out."""

from saccade.nn.activations import ACTIVATIONS
from saccade.nn.attention import (
    Attention,
    AttentionLayer,
    MultiHeadAttention,
    attend_shared_memory,
    attention_weights,
)
from saccade.nn.attention_scores import (
    ATTENTION_SCORES,
    AdditiveScore,
    ConcatScore,
    CosineScore,
    DotScore,
    GaussianScore,
    GeneralScore,
    ScaledDotScore,
    Score,
    make_score,
)
from saccade.nn.dropout import Dropout
from saccade.nn.embedding import Embedding
from saccade.nn.feedforward import FeedForward
from saccade.nn.init import INITS, init_weight
from saccade.nn.kernels.linear_cross_entropy import OutputLayer, TokenLoss, linear_cross_entropy
from saccade.nn.kv_cache import KVCache, extend_cache
from saccade.nn.losses import cross_entropy
from saccade.nn.masks import Mask
from saccade.nn.norm import NORMS, BatchNorm, LayerNorm, RMSNorm
from saccade.nn.positional_encoding import (
    POSITIONS,
    AttentionPositions,
    LearnedPositions,
    RelativePositions,
    RotaryPositions,
    SinusoidalPositions,
)
from saccade.nn.rnn import CELLS, RNN, RNNCell, RNNOutput
from saccade.nn.transformer import BlockOutput, DecoderBlock, EncoderBlock, Residual

__all__ = [
    "ACTIVATIONS",
    "ATTENTION_SCORES",
    "AdditiveScore",
    "Attention",
    "AttentionLayer",
    "AttentionPositions",
    "BatchNorm",
    "BlockOutput",
    "CELLS",
    "ConcatScore",
    "CosineScore",
    "DecoderBlock",
    "DotScore",
    "Dropout",
    "Embedding",
    "EncoderBlock",
    "FeedForward",
    "GaussianScore",
    "GeneralScore",
    "INITS",
    "KVCache",
    "LayerNorm",
    "LearnedPositions",
    "Mask",
    "MultiHeadAttention",
    "NORMS",
    "OutputLayer",
    "POSITIONS",
    "RMSNorm",
    "RNN",
    "RNNCell",
    "RNNOutput",
    "RelativePositions",
    "Residual",
    "RotaryPositions",
    "ScaledDotScore",
    "Score",
    "SinusoidalPositions",
    "TokenLoss",
    "attend_shared_memory",
    "attention_weights",
    "cross_entropy",
    "extend_cache",
    "init_weight",
    "linear_cross_entropy",
    "make_score",
]
