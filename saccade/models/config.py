"""Settings of the networks. Does not import torch.

They are separate from the networks so that settings can be read, checked and listed before torch
is loaded. `name` is the name in the registry; it distinguishes the settings of one task's models.
"""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, field_validator

from saccade.config import Config
from saccade.types.limits import MAX_DEPTH, MAX_LENGTH, MAX_VALUE, MAX_VOCABULARY, MAX_WIDTH
from saccade.types.names import ACTIVATIONS_WITH_ALPHA, Activation, CellName, NormName, ScoreName


def _check_alpha(alpha: float | None, info: Any) -> float | None:
    activation = info.data.get("activation")
    if alpha is not None and activation is not None and activation not in ACTIVATIONS_WITH_ALPHA:
        raise ValueError(
            f"{activation} has no α; set model.activation to {' or '.join(ACTIVATIONS_WITH_ALPHA)}"
        )
    return alpha


Alpha = Annotated[float | None, Field(ge=0, le=MAX_VALUE), AfterValidator(_check_alpha)]
GradientEstimator = Literal["straight_through", "score_function"]
MAX_SAMPLES = 1000  # of attention paths; each is decoded on its own
Size = Annotated[int, Field(le=MAX_WIDTH)]  # of a list of sizes, whose own check is below
PrunedHeads = dict[str, list[Annotated[int, Field(ge=0, lt=MAX_WIDTH)]]]

# --- translators ----------------------------------------------------------------------------------


class TranslatorConfig(Config):
    """Settings that all encoder-decoders have."""

    name: str
    source_vocab_size: int = Field(0, ge=0, le=MAX_VOCABULARY)
    """Size of the source vocabulary; set from the data."""
    target_vocab_size: int = Field(0, ge=0, le=MAX_VOCABULARY)
    """Size of the target vocabulary; set from the data."""
    width: int = Field(128, ge=1, le=MAX_WIDTH)
    """Width of embeddings and hidden states."""
    depth: int = Field(1, ge=1, le=MAX_DEPTH)
    """Number of layers of the encoder, and of the decoder."""


class Seq2SeqConfig(TranslatorConfig):
    """Settings of the recurrent encoder-decoder with one fixed context."""

    name: Literal["seq2seq"] = "seq2seq"
    cell: CellName = "gru"
    """Recurrent cell."""
    context: Literal["last", "mean", "concatenation"] = "last"
    """Context vector: the encoder's last state, the mean of all, or a projection of the first
    `context_positions` concatenated."""
    context_positions: int = Field(32, ge=1, le=MAX_LENGTH)
    """Context `concatenation`: number of states; later ones are not in the context."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Dropout probability."""


class BahdanauConfig(TranslatorConfig):
    """Settings of the recurrent encoder-decoder with additive attention."""

    name: Literal["bahdanau"] = "bahdanau"
    cell: CellName = "gru"
    """Recurrent cell."""
    score: ScoreName = "additive"
    """Attention score function."""
    attention: Literal["global", "hard"] = "global"
    """Source positions attended to: all, or one sampled position."""
    temperature: float = Field(1.0, gt=0, le=MAX_VALUE)
    """Hard attention, straight through: temperature of the softmax whose gradient is used."""
    estimator: GradientEstimator = "straight_through"
    """Hard attention: gradient of the sampled positions, straight through a softmax (biased), or
    by the score function (REINFORCE) with the log-likelihood of sampled paths as their reward."""
    samples: int = Field(4, ge=2, le=MAX_SAMPLES)
    """Hard attention, score function: paths sampled of each sentence; the mean reward of the others
    is the baseline of each."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Dropout probability."""


class LuongConfig(TranslatorConfig):
    """Settings of the recurrent encoder-decoder that attends from its current state."""

    name: Literal["luong"] = "luong"
    cell: CellName = "gru"
    """Recurrent cell."""
    score: ScoreName = "scaled_general"
    """Attention score function; `general` is the paper's, which saturates early."""
    attention: Literal["global", "local_monotonic", "local_predictive", "hard"] = "global"
    """Source positions attended to: all, a window around a centre, or one sampled position."""
    window: int = Field(10, ge=1, le=MAX_LENGTH)
    """Local attention: number of positions to each side of the centre."""
    temperature: float = Field(1.0, gt=0, le=MAX_VALUE)
    """Hard attention, straight through: temperature of the softmax whose gradient is used."""
    estimator: GradientEstimator = "straight_through"
    """Hard attention: gradient of the sampled positions, straight through a softmax (biased), or
    by the score function (REINFORCE) with the log-likelihood of sampled paths as their reward."""
    samples: int = Field(4, ge=2, le=MAX_SAMPLES)
    """Hard attention, score function: paths sampled of each sentence; the mean reward of the others
    is the baseline of each."""
    input_feeding: bool = False
    """Feed the attentional vector of a step to the next step."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Dropout probability."""


class ConvSeq2SeqConfig(TranslatorConfig):
    """Settings of the convolutional encoder-decoder with attention in every layer."""

    name: Literal["conv_seq2seq"] = "conv_seq2seq"
    depth: int = Field(3, ge=1, le=MAX_DEPTH)
    """Number of layers of the encoder, and of the decoder."""
    kernel_size: int = Field(3, ge=1, le=MAX_WIDTH)
    """Number of positions that a convolution covers."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Dropout probability."""
    positions: Literal["sinusoidal", "learned"] = "sinusoidal"
    """Positional encoding."""
    max_positions: int = Field(512, ge=1, le=MAX_LENGTH)
    """Size of the table of learned positions."""


class TransformerConfig(TranslatorConfig):
    """Settings of the encoder-decoder Transformer."""

    name: Literal["transformer"] = "transformer"
    depth: int = Field(2, ge=1, le=MAX_DEPTH)
    """Number of layers of the encoder, and of the decoder."""
    heads: int = Field(4, ge=1, le=MAX_WIDTH)
    """Number of attention heads; it divides the width."""
    hidden: int | None = Field(None, ge=1, le=MAX_WIDTH)
    """Width of the feed-forward; 4 · width if not set."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Dropout probability."""
    attention_dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout probability of the attention weights; above 0, training has no fused attention."""
    norm_first: bool = True
    """Normalise before each sublayer (pre-norm) instead of after it (post-norm)."""
    norm: Literal["layer", "batch", "rms"] = "layer"
    """Normalisation; `batch` over all real positions of a batch, to see why not."""
    activation: Activation = "relu"
    """Activation of the feed-forward."""
    activation_alpha: Alpha = None
    """α of elu (1 if not set) or leaky_relu (0.01)."""
    kv_heads: int | None = Field(None, ge=1, le=MAX_WIDTH)
    """Number of key and value heads (grouped-query attention); as many as heads if not set."""
    positions: Literal["sinusoidal", "learned", "rotary", "relative", "none"] = "sinusoidal"
    """Positional encoding."""
    max_positions: int = Field(512, ge=1, le=MAX_LENGTH)
    """Size of the table of learned positions."""
    window: int | None = Field(None, ge=1, le=MAX_LENGTH)
    """Self-attention: positions to each side (in the decoder, to the left); all if not set."""
    score: ScoreName = "scaled_dot"
    """Attention score function."""
    shared_vocab: bool = False
    """Use one embedding table for source and target."""
    pruned_heads: PrunedHeads = {}
    """Heads removed by `saccade prune`, counted from 0, by the name of the attention."""


# --- language models ------------------------------------------------------------------------------


class LanguageModelConfig(Config):
    """Settings that all neural language models have."""

    name: str
    vocab_size: int = Field(0, ge=0, le=MAX_VOCABULARY)
    """Size of the vocabulary; set from the data."""


class NNLMConfig(LanguageModelConfig):
    """Settings of the feed-forward language model."""

    name: Literal["nnlm"] = "nnlm"
    order: int = Field(5, ge=2, le=MAX_LENGTH)
    """n: a token is predicted from the n - 1 tokens before it."""
    width: int = Field(128, ge=1, le=MAX_WIDTH)
    """Width of an embedding."""
    hidden: int = Field(256, ge=1, le=MAX_WIDTH)
    """Width of the hidden layer."""
    activation: Activation = "tanh"
    """Activation of the hidden layer."""
    activation_alpha: Alpha = None
    """α of elu (1 if not set) or leaky_relu (0.01)."""
    direct_connections: bool = False
    """Connect the embeddings to the logits as well."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Dropout probability."""


class RecurrentLMConfig(LanguageModelConfig):
    """Settings of a recurrent language model; the name is that of its cell."""

    name: Literal["rnn", "gru", "gru_reset_first", "lstm"] = "gru"
    width: int = Field(256, ge=1, le=MAX_WIDTH)
    """Width of embeddings and hidden states."""
    depth: int = Field(1, ge=1, le=MAX_DEPTH)
    """Number of recurrent layers."""
    input: Literal["embedding", "one_hot"] = "embedding"
    """Input of the first layer: the token's embedding, or a one-hot vector."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Dropout probability."""
    embedding_std: float | None = Field(None, gt=0, le=MAX_VALUE)
    """Standard deviation of the initial embeddings; width^-½ if not set."""
    truncation: Literal["segment", "window", "random"] = "segment"
    """Backpropagation through time is cut at segments, every `window` steps, or at random."""
    window: int = Field(16, ge=1, le=MAX_LENGTH)
    """Truncation `window`: steps between two cuts."""
    keep_probability: float = Field(0.9, gt=0, le=1)
    """Truncation `random`: probability that a step is not a cut."""


class BidirectionalLMConfig(LanguageModelConfig):
    """Settings of the bidirectional recurrent language model."""

    name: Literal["bidirectional"] = "bidirectional"
    cell: Literal["rnn", "gru", "lstm"] = "gru"
    """Recurrent cell."""
    width: int = Field(256, ge=1, le=MAX_WIDTH)
    """Width of embeddings and hidden states."""
    depth: int = Field(1, ge=1, le=MAX_DEPTH)
    """Number of recurrent layers in each direction."""
    input: Literal["embedding", "one_hot"] = "embedding"
    """Input of the first layer: the token's embedding, or a one-hot vector."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Dropout probability."""


class ConvLMConfig(LanguageModelConfig):
    """Settings of a causal convolutional language model."""

    name: Literal["conv_lm"] = "conv_lm"
    width: int = Field(256, ge=1, le=MAX_WIDTH)
    """Width of embeddings and hidden vectors."""
    depth: int = Field(4, ge=1, le=MAX_DEPTH)
    """Number of convolutional layers."""
    kernel_size: int = Field(3, ge=1, le=MAX_WIDTH)
    """Number of positions that a convolution covers."""
    dilation_growth: int = Field(2, ge=1, le=10)
    """Factor of the dilation from layer to layer."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Dropout probability."""


class GPTConfig(LanguageModelConfig):
    """Settings of a GPT."""

    name: Literal["gpt1", "gpt2", "gpt3"] = "gpt2"
    width: int = Field(256, ge=1, le=MAX_WIDTH)
    """Width of embeddings and hidden vectors."""
    depth: int = Field(4, ge=1, le=MAX_DEPTH)
    """Number of layers."""
    heads: int = Field(4, ge=1, le=MAX_WIDTH)
    """Number of attention heads; it divides the width."""
    hidden: int | None = Field(None, ge=1, le=MAX_WIDTH)
    """Width of the feed-forward; 4 · width if not set."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Dropout probability."""
    attention_dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout probability of the attention weights; above 0, training has no fused attention."""
    activation: Activation = "gelu"
    """Activation of the feed-forward."""
    activation_alpha: Alpha = None
    """α of elu (1 if not set) or leaky_relu (0.01)."""
    context_length: int = Field(0, ge=0, le=MAX_LENGTH)
    """Number of positions that can be attended to; `data.segment_length` if not set."""
    positions: Literal["learned", "rotary"] = "learned"
    """Positional encoding."""
    band_width: int = Field(32, ge=1, le=MAX_WIDTH)
    """`gpt3`: positions that every other layer attends back."""
    missing_tokens: list[Annotated[int, Field(ge=0, le=MAX_VOCABULARY)]] = []
    """Token ids that imported weights do not have."""
    pruned_heads: PrunedHeads = {}
    """Heads removed by `saccade prune`, counted from 0, by the name of the attention."""


class TransformerXLConfig(LanguageModelConfig):
    """Settings of a Transformer-XL."""

    name: Literal["transformer_xl"] = "transformer_xl"
    width: int = Field(256, ge=1, le=MAX_WIDTH)
    """Width of embeddings and hidden vectors."""
    depth: int = Field(4, ge=1, le=MAX_DEPTH)
    """Number of layers."""
    heads: int = Field(4, ge=1, le=MAX_WIDTH)
    """Number of attention heads; it divides the width."""
    hidden: int | None = Field(None, ge=1, le=MAX_WIDTH)
    """Width of the feed-forward; 4 · width if not set."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Dropout probability."""
    attention_dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout probability of the attention weights; above 0, training has no fused attention."""
    norm_first: bool = True
    """Normalise before each sublayer (pre-norm) instead of after it (post-norm)."""
    activation: Activation = "relu"
    """Activation of the feed-forward."""
    activation_alpha: Alpha = None
    """α of elu (1 if not set) or leaky_relu (0.01)."""
    segment_length: int = Field(0, ge=0, le=MAX_LENGTH)
    """Tokens of a segment; `data.segment_length` if not set."""
    memory_length: int | None = Field(None, ge=0, le=MAX_LENGTH)
    """Positions of the preceding segments that are attended to; segment_length if not set."""


# --- forecasters ----------------------------------------------------------------------------------


class AutoregressiveForecasterConfig(Config):
    """Settings of the autoregressive forecaster."""

    name: Literal["autoregressive"] = "autoregressive"
    lags: int = Field(4, ge=1, le=MAX_LENGTH)
    """Number of past values that a prediction depends on; set from data.lags."""
    hidden: int | None = Field(None, ge=1, le=MAX_WIDTH)
    """Width of the hidden layer; a linear model if not set."""
    activation: Activation = "tanh"
    """Activation of the hidden layer."""
    activation_alpha: Alpha = None
    """α of elu (1 if not set) or leaky_relu (0.01)."""

    @field_validator("activation")
    @classmethod
    def _needs_hidden_layer(cls, activation: Activation, info: Any) -> Activation:
        if activation != "tanh" and info.data.get("hidden") is None:
            raise ValueError("the model has no hidden layer to apply it in; set model.hidden too")
        return activation


class RecurrentForecasterConfig(Config):
    """Settings of the recurrent forecaster."""

    name: Literal["recurrent"] = "recurrent"
    cell: CellName = "gru"
    """Recurrent cell."""
    hidden: int = Field(32, ge=1, le=MAX_WIDTH)
    """Width of the hidden state."""
    depth: int = Field(1, ge=1, le=MAX_DEPTH)
    """Number of recurrent layers."""
    window: int = Field(64, ge=1, le=MAX_LENGTH)
    """Length of a training row, read from a state of zeros."""


# --- tables and curves ----------------------------------------------------------------------------


class LinearRegressionConfig(Config):
    """Settings of linear regression."""

    name: Literal["linear"] = "linear"
    inputs: int = Field(0, ge=0, le=MAX_VOCABULARY)
    """Number of features; set from the data."""


class SoftmaxRegressionConfig(Config):
    """Settings of softmax regression."""

    name: Literal["softmax"] = "softmax"
    inputs: int = Field(0, ge=0, le=MAX_VOCABULARY)
    """Number of features; set from the data."""
    outputs: int = Field(0, ge=0, le=MAX_VOCABULARY)
    """Number of classes; set from the data."""


class MLPConfig(Config):
    """Settings of the multilayer perceptron."""

    name: Literal["mlp"] = "mlp"
    inputs: int = Field(0, ge=0, le=MAX_VOCABULARY)
    """Number of features; set from the data."""
    outputs: int = Field(0, ge=0, le=MAX_VOCABULARY)
    """Number of classes, or 1 for a number; set from the data."""
    hidden: tuple[Size, ...] = Field((32,), max_length=MAX_DEPTH)
    """Widths of the hidden layers, such as 64 or 64,32."""
    activation: Activation = "relu"
    """Activation of the hidden layers."""
    activation_alpha: Alpha = None
    """α of elu (1 if not set) or leaky_relu (0.01)."""
    norm: NormName = "none"
    """Normalisation of the hidden layers."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout probability of the hidden layers."""

    @field_validator("hidden", mode="before")
    @classmethod
    def _parse_hidden(cls, value: Any) -> Any:
        """Accept 64 and "64,32" as typed on a command line."""
        return _parse_sizes(value)

    @field_validator("hidden")
    @classmethod
    def _check_hidden(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if not value or min(value) < 1:
            raise ValueError(
                "expected one width or more, each 1 or more; for a model without hidden layers "
                "use linear or softmax"
            )
        return value


class KernelRegressionConfig(Config):
    """Settings of `estimators.kernel_regression`, which finds its bandwidth by itself."""

    name: Literal["kernel"] = "kernel"
    kernel: Literal["gaussian", "boxcar", "triangular", "epanechnikov"] = "gaussian"
    """Kernel function."""
    bandwidth: float | None = Field(None, gt=0, le=MAX_VALUE)
    """Bandwidth of the kernel; searched for if not set."""
    initial_bandwidth: float | None = Field(None, gt=0, le=MAX_VALUE)
    """A second bandwidth, which the plot of the fit shows for comparison."""


class KernelAttentionConfig(Config):
    """Settings of kernel regression as attention."""

    name: Literal["attention"] = "attention"
    initial_bandwidth: float | None = Field(None, gt=0, le=MAX_VALUE)
    """Initial bandwidth σ; a fifth of the range of x if not set."""


# --- text classifiers -----------------------------------------------------------------------------


class TextClassifierConfig(Config):
    """Settings that every network for text classification has."""

    name: str
    vocab_size: int = Field(0, ge=0, le=MAX_VOCABULARY)
    """Number of token ids, padding included; from the data."""
    outputs: int = Field(0, ge=0, le=MAX_VOCABULARY)
    """Number of labels; from the data."""
    width: int = Field(128, ge=1, le=MAX_WIDTH)
    """Width of the word vectors."""
    dropout: float = Field(0.5, ge=0, lt=1)
    """Dropout of the word vectors and of the pooled vector."""
    max_length: int = Field(400, ge=1, le=MAX_LENGTH)
    """Number of words after which a text is truncated."""


class TextCNNConfig(TextClassifierConfig):
    """Convolutions over the words, and the maximum over time (Kim 2014)."""

    name: Literal["cnn"] = "cnn"
    kernels: tuple[Size, ...] = Field((3, 4, 5), max_length=MAX_DEPTH)
    """Kernel sizes, in words."""
    filters: int = Field(100, ge=1, le=MAX_WIDTH)
    """Number of filters of each kernel size."""

    @field_validator("kernels", mode="before")
    @classmethod
    def _parse_kernels(cls, value: Any) -> Any:
        """Accept 3 and "3,4,5" as typed on a command line."""
        return _parse_sizes(value)

    @field_validator("kernels")
    @classmethod
    def _check_kernels(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if not value or min(value) < 1:
            raise ValueError("expected one kernel size or more, each 1 or more")
        return value


class BiLSTMConfig(TextClassifierConfig):
    """Bidirectional LSTM with attention pooling."""

    name: Literal["bilstm"] = "bilstm"
    hidden: int = Field(128, ge=1, le=MAX_WIDTH)
    """Width of the state of each direction."""
    depth: int = Field(1, ge=1, le=MAX_DEPTH)
    """Number of layers."""


class SetClassifierConfig(TextClassifierConfig):
    """Self-attention over the words as a set, pooled by attention from a learned query."""

    name: Literal["set"] = "set"
    score: ScoreName = "scaled_dot"
    """Attention score function."""


class TextTransformerConfig(TextClassifierConfig):
    """Transformer encoder with mean pooling."""

    name: Literal["transformer"] = "transformer"
    depth: int = Field(2, ge=1, le=MAX_DEPTH)
    """Number of layers."""
    heads: int = Field(4, ge=1, le=MAX_WIDTH)
    """Number of attention heads; must divide the width."""
    hidden: int = Field(256, ge=1, le=MAX_WIDTH)
    """Width of the feed-forward networks."""
    dropout: float = Field(0.3, ge=0, lt=1)
    """Dropout of the embeddings, the residual branches and the pooled vector."""


def _parse_sizes(value: Any) -> Any:
    """Return one size, or several with commas between, as a tuple."""
    if isinstance(value, int):
        return (value,)
    return tuple(value.split(",")) if isinstance(value, str) else value
