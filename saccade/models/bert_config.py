"""Settings of the BERT encoder. Does not import torch."""

from typing import Annotated, Any, Literal

from pydantic import Field

from saccade.config import Config
from saccade.models.config import Alpha
from saccade.types.limits import MAX_DEPTH, MAX_LENGTH, MAX_VOCABULARY, MAX_WIDTH
from saccade.types.names import Activation

PSEUDO_TOKEN = "[P]"  # of a template


class BertConfig(Config):
    """Settings of the BERT encoder: bidirectional Transformer layers, norm after each sublayer."""

    name: Literal["bert"] = "bert"
    vocab_size: int = Field(0, ge=0, le=MAX_VOCABULARY)
    """Size of the vocabulary; set from the data."""
    width: int = Field(128, ge=1, le=MAX_WIDTH)
    """Width of embeddings and hidden vectors."""
    depth: int = Field(2, ge=1, le=MAX_DEPTH)
    """Number of layers."""
    heads: int = Field(2, ge=1, le=MAX_WIDTH)
    """Number of attention heads; it divides the width."""
    hidden: int | None = Field(None, ge=1, le=MAX_WIDTH)
    """Width of the feed-forward; 4 · width if not set."""
    max_length: int = Field(512, ge=3, le=MAX_LENGTH)
    """Number of learned positions: tokens of the longest input, special tokens included."""
    segments: int = Field(2, ge=1, le=MAX_WIDTH)
    """Number of segment embeddings: 2 for pairs of texts, 1 for a model without them."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Dropout probability."""
    attention_dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout probability of the attention weights; above 0, training has no fused attention."""
    activation: Activation = "gelu_exact"
    """Activation of the feed-forward."""
    activation_alpha: Alpha = None
    """α of elu (1 if not set) or leaky_relu (0.01)."""
    norm_eps: float = Field(1e-12, gt=0, le=1)
    """ε of the layer norms."""
    pooler: bool = True
    """Have the linear layer with tanh on the vector of [CLS]."""
    pretraining_heads: bool = True
    """Have the heads of pretraining; an imported encoder may have none."""
    pooling: Literal["cls", "mean"] = "cls"
    """Vector of a whole text: that of [CLS], or the mean over its tokens, which models of sentence
    vectors were trained with."""


class BertClassifierConfig(BertConfig):
    """BERT with a linear layer on the vector of [CLS] or on the mean of the tokens."""

    outputs: int = Field(0, ge=0, le=MAX_VOCABULARY)
    """Number of labels; from the data."""


class PromptClassifierConfig(BertConfig):
    """Masked language model that classifies by the words it predicts in a template."""

    name: Literal["prompt"] = "prompt"  # type: ignore[assignment]
    outputs: int = Field(0, ge=0, le=MAX_VOCABULARY)
    """Number of labels; from the data."""
    template: str = "{text} It was [MASK]."
    """Template with `{text}`, one `[MASK]`, and any number of pseudo-tokens `[P]`, whose vectors
    are learned (P-tuning)."""
    words: str = ""
    """Words of each label, each of one token: `positive=good,great;negative=bad,poor`; the label
    itself if not set."""
    is_frozen: bool = False
    """Leave the pretrained weights as they are; only the pseudo-tokens are learned."""
    word_ids: tuple[Annotated[int, Field(ge=0, lt=MAX_VOCABULARY)], ...] = ()
    """Ids of the words, by label; from the tokenizer."""
    word_counts: tuple[Annotated[int, Field(ge=1, lt=MAX_VOCABULARY)], ...] = ()
    """Number of words of each label; from `words`."""
    mask_position: int = Field(1, ge=-MAX_LENGTH, le=MAX_LENGTH)
    """Position of [MASK] from the start, or negative from the end; from the template."""

    @property
    def num_pseudo_tokens(self) -> int:
        """Number of pseudo-tokens of the template."""
        return self.template.count(PSEUDO_TOKEN)


BERT_SIZES: dict[str, dict[str, Any]] = {  # tiny and mini: Turc et al. 2019; others: Devlin et al.
    "tiny": {"width": 128, "depth": 2, "heads": 2},
    "mini": {"width": 256, "depth": 4, "heads": 4},
    "base": {"width": 768, "depth": 12, "heads": 12},
    "large": {"width": 1024, "depth": 24, "heads": 16},
}
