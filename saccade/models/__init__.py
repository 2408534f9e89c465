"""Named networks, one file per family: settings, then the `nn.Module` with its `forward`.

`saccade.models.registry` lists them by name.
"""

from saccade.models.bahdanau import (
    Bahdanau,
    BahdanauConfig,
)
from saccade.models.base import (
    CausalLM,
    CellName,
    EncoderDecoder,
    LanguageModelConfig,
    ScoreName,
    TokenModel,
    TranslatorConfig,
)
from saccade.models.bidirectional_lm import (
    BidirectionalLM,
    BidirectionalLMConfig,
)
from saccade.models.choice import (
    ModelChoice,
)
from saccade.models.conv_lm import (
    ConvLM,
    ConvLMConfig,
)
from saccade.models.conv_seq2seq import (
    ConvSeq2Seq,
    ConvSeq2SeqConfig,
)
from saccade.models.forecasting import (
    AutoregressiveForecaster,
    AutoregressiveForecasterConfig,
    Forecaster,
    RecurrentForecaster,
    RecurrentForecasterConfig,
)
from saccade.models.gpt import (
    GPT,
    GPTConfig,
)
from saccade.models.kernel_attention import (
    KernelAttention,
    KernelAttentionConfig,
    KernelRegressionConfig,
)
from saccade.models.luong import (
    Luong,
    LuongConfig,
)
from saccade.models.nnlm import (
    NNLM,
    NNLMConfig,
)
from saccade.models.registry import (
    FORECASTING_MODELS,
    KERNEL_MODELS,
    LANGUAGE_MODELS,
    TABULAR_MODELS,
    TRANSLATION_MODELS,
    ModelEntry,
    model_classes,
)
from saccade.models.rnn_lm import (
    RecurrentLM,
    RecurrentLMConfig,
)
from saccade.models.seq2seq import (
    Seq2Seq,
    Seq2SeqConfig,
)
from saccade.models.tabular import (
    MLP,
    LinearRegression,
    LinearRegressionConfig,
    MLPConfig,
    SoftmaxRegression,
    SoftmaxRegressionConfig,
)
from saccade.models.transformer import (
    Transformer,
    TransformerConfig,
)
from saccade.models.transformer_xl import (
    TransformerXL,
    TransformerXLConfig,
)

__all__ = [
    "AutoregressiveForecaster",
    "AutoregressiveForecasterConfig",
    "Bahdanau",
    "BahdanauConfig",
    "BidirectionalLM",
    "BidirectionalLMConfig",
    "CausalLM",
    "CellName",
    "ConvLM",
    "ConvLMConfig",
    "ConvSeq2Seq",
    "ConvSeq2SeqConfig",
    "EncoderDecoder",
    "FORECASTING_MODELS",
    "Forecaster",
    "GPT",
    "GPTConfig",
    "KERNEL_MODELS",
    "KernelAttention",
    "KernelAttentionConfig",
    "KernelRegressionConfig",
    "LANGUAGE_MODELS",
    "LanguageModelConfig",
    "LinearRegression",
    "LinearRegressionConfig",
    "Luong",
    "LuongConfig",
    "MLP",
    "MLPConfig",
    "ModelChoice",
    "ModelEntry",
    "NNLM",
    "NNLMConfig",
    "RecurrentForecaster",
    "RecurrentForecasterConfig",
    "RecurrentLM",
    "RecurrentLMConfig",
    "ScoreName",
    "Seq2Seq",
    "Seq2SeqConfig",
    "SoftmaxRegression",
    "SoftmaxRegressionConfig",
    "TABULAR_MODELS",
    "TRANSLATION_MODELS",
    "TokenModel",
    "Transformer",
    "TransformerConfig",
    "TransformerXL",
    "TransformerXLConfig",
    "TranslatorConfig",
    "model_classes",
]
