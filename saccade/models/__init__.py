"""Parts wired into named networks, one file a family: settings, then model."""

from saccade.models.bahdanau import Bahdanau, BahdanauConfig
from saccade.models.convolutional import Convolutional, ConvolutionalConfig
from saccade.models.forecasters import (
    FORECASTERS,
    Autoregressive,
    AutoregressiveConfig,
    Latent,
    LatentConfig,
)
from saccade.models.kernel import KernelAttention, KernelAttentionConfig, KernelConfig
from saccade.models.luong import Luong, LuongConfig
from saccade.models.seq2seq import Seq2Seq, Seq2SeqConfig
from saccade.models.transformer import Transformer, TransformerConfig
from saccade.models.writing import Writer, writer

__all__ = [
    "Autoregressive",
    "AutoregressiveConfig",
    "Bahdanau",
    "BahdanauConfig",
    "Convolutional",
    "ConvolutionalConfig",
    "FORECASTERS",
    "KernelAttention",
    "KernelAttentionConfig",
    "KernelConfig",
    "Latent",
    "LatentConfig",
    "Luong",
    "LuongConfig",
    "Seq2Seq",
    "Seq2SeqConfig",
    "TRANSLATORS",
    "Transformer",
    "TransformerConfig",
    "Writer",
    "writer",
]

TRANSLATORS = {
    "bahdanau": Bahdanau,
    "convolutional": Convolutional,
    "luong": Luong,
    "seq2seq": Seq2Seq,
    "transformer": Transformer,
}
