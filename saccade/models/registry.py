"""Registries of the networks: tables name → (config class, model class), one row per model.

A new model is one file in this package and one row here. Estimators that a task offers next to
its networks (n-grams, SVM, kernel regression) are added in the task: this package does not import
`estimators`.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from saccade.config import Config
from saccade.models.bahdanau import Bahdanau, BahdanauConfig
from saccade.models.bidirectional_lm import BidirectionalLM, BidirectionalLMConfig
from saccade.models.conv_lm import ConvLM, ConvLMConfig
from saccade.models.conv_seq2seq import ConvSeq2Seq, ConvSeq2SeqConfig
from saccade.models.forecasting import (
    AutoregressiveForecaster,
    AutoregressiveForecasterConfig,
    RecurrentForecaster,
    RecurrentForecasterConfig,
)
from saccade.models.gpt import GPT, GPTConfig
from saccade.models.kernel_attention import KernelAttention, KernelAttentionConfig
from saccade.models.luong import Luong, LuongConfig
from saccade.models.nnlm import NNLM, NNLMConfig
from saccade.models.rnn_lm import RecurrentLM, RecurrentLMConfig
from saccade.models.seq2seq import Seq2Seq, Seq2SeqConfig
from saccade.models.tabular import (
    MLP,
    LinearRegression,
    LinearRegressionConfig,
    MLPConfig,
    SoftmaxRegression,
    SoftmaxRegressionConfig,
)
from saccade.models.transformer import Transformer, TransformerConfig
from saccade.models.transformer_xl import TransformerXL, TransformerXLConfig


class ModelEntry(NamedTuple):
    """One row of a registry: the settings of a model, and the class that they configure.

    `model_class(config)` builds a network; `KernelAttention` also needs the data points. Tasks add
    rows of estimators, whose class is not a module.
    """

    config_class: type[Config]
    model_class: type[Any]


TRANSLATION_MODELS: dict[str, ModelEntry] = {
    "bahdanau": ModelEntry(BahdanauConfig, Bahdanau),
    "conv_seq2seq": ModelEntry(ConvSeq2SeqConfig, ConvSeq2Seq),
    "luong": ModelEntry(LuongConfig, Luong),
    "seq2seq": ModelEntry(Seq2SeqConfig, Seq2Seq),
    "transformer": ModelEntry(TransformerConfig, Transformer),
}

LANGUAGE_MODELS: dict[str, ModelEntry] = {
    "bidirectional": ModelEntry(BidirectionalLMConfig, BidirectionalLM),
    "conv_lm": ModelEntry(ConvLMConfig, ConvLM),
    "gpt1": ModelEntry(GPTConfig, GPT),
    "gpt2": ModelEntry(GPTConfig, GPT),
    "gpt3": ModelEntry(GPTConfig, GPT),
    "gru": ModelEntry(RecurrentLMConfig, RecurrentLM),
    "gru_reset_first": ModelEntry(RecurrentLMConfig, RecurrentLM),
    "lstm": ModelEntry(RecurrentLMConfig, RecurrentLM),
    "nnlm": ModelEntry(NNLMConfig, NNLM),
    "rnn": ModelEntry(RecurrentLMConfig, RecurrentLM),
    "transformer_xl": ModelEntry(TransformerXLConfig, TransformerXL),
}

FORECASTING_MODELS: dict[str, ModelEntry] = {
    "autoregressive": ModelEntry(AutoregressiveForecasterConfig, AutoregressiveForecaster),
    "recurrent": ModelEntry(RecurrentForecasterConfig, RecurrentForecaster),
}

TABULAR_MODELS: dict[str, ModelEntry] = {
    "linear": ModelEntry(LinearRegressionConfig, LinearRegression),
    "mlp": ModelEntry(MLPConfig, MLP),
    "softmax": ModelEntry(SoftmaxRegressionConfig, SoftmaxRegression),
}

KERNEL_MODELS: dict[str, ModelEntry] = {
    "attention": ModelEntry(KernelAttentionConfig, KernelAttention),
}


def model_classes(registry: Mapping[str, ModelEntry]) -> dict[str, type[Any]]:
    """Return the model classes of a registry by name."""
    return {name: entry.model_class for name, entry in registry.items()}
