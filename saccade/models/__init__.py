"""Parts wired into named networks, one file a family: settings, then model."""

from saccade.models.bahdanau import Bahdanau, BahdanauConfig
from saccade.models.conv_seq2seq import ConvSeq2Seq, ConvSeq2SeqConfig
from saccade.models.forecasting import (
    FORECASTERS,
    AutoregressiveForecaster,
    AutoregressiveForecasterConfig,
    RecurrentForecaster,
    RecurrentForecasterConfig,
)
from saccade.models.kernel_attention import (
    KernelAttention,
    KernelAttentionConfig,
    KernelRegressionConfig,
)
from saccade.models.luong import Luong, LuongConfig
from saccade.models.seq2seq import Seq2Seq, Seq2SeqConfig
from saccade.models.transformer import Transformer, TransformerConfig

__all__ = [
    "AutoregressiveForecaster",
    "AutoregressiveForecasterConfig",
    "Bahdanau",
    "BahdanauConfig",
    "ConvSeq2Seq",
    "ConvSeq2SeqConfig",
    "ENCODER_DECODERS",
    "FORECASTERS",
    "KernelAttention",
    "KernelAttentionConfig",
    "KernelRegressionConfig",
    "Luong",
    "LuongConfig",
    "RecurrentForecaster",
    "RecurrentForecasterConfig",
    "Seq2Seq",
    "Seq2SeqConfig",
    "Transformer",
    "TransformerConfig",
]

ENCODER_DECODERS = {
    "bahdanau": Bahdanau,
    "conv_seq2seq": ConvSeq2Seq,
    "luong": Luong,
    "seq2seq": Seq2Seq,
    "transformer": Transformer,
}
