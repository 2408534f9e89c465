"""Settings of the networks that tag tokens. Does not import torch."""

from typing import Literal

from pydantic import Field

from saccade.config import Config
from saccade.models.bert_config import BertConfig
from saccade.models.elmo_config import ElmoConfig
from saccade.types.limits import MAX_DEPTH, MAX_LENGTH, MAX_VOCABULARY, MAX_WIDTH


class TaggerConfig(Config):
    """Settings that every tagger has."""

    name: str
    outputs: int = Field(0, ge=0, le=MAX_VOCABULARY)
    """Number of tags; from the data."""
    output: Literal["crf", "linear"] = "crf"
    """`crf`: scores of moves between tags, of which impossible ones are forbidden; `linear`: each
    tag by itself."""


class WordTaggerConfig(TaggerConfig):
    """Settings of taggers that read a vector for each word and its characters."""

    vocab_size: int = Field(0, ge=0, le=MAX_VOCABULARY)
    """Number of word ids, padding and unknown words included; from the data."""
    word_width: int = Field(100, ge=1, le=MAX_WIDTH)
    """Width of the word vectors; that of `vectors`, if given."""
    vectors: str | None = None
    """File of word vectors in text format (word2vec, GloVe, fastText) that the words start from."""
    frozen_vectors: bool = False
    """Leave the word vectors as they are in the file."""
    character_width: int = Field(16, ge=1, le=MAX_WIDTH)
    """Width of the vector of a byte."""
    character_filters: int = Field(64, ge=1, le=MAX_WIDTH)
    """Number of filters over three bytes, each reduced to its maximum over the word."""
    word_dropout: float = Field(0.1, ge=0, lt=1)
    """Probability of a word to be read as an unknown one while training."""
    dropout: float = Field(0.4, ge=0, lt=1)
    """Dropout of the word vectors and of the vectors before the output layer."""


class BertTaggerConfig(TaggerConfig, BertConfig):
    """BERT with scores of the tags on the first piece of each word (Devlin et al. 2019)."""

    name: Literal["bert"] = "bert"
    output: Literal["crf", "linear"] = "linear"
    """`crf`: scores of moves between tags, of which impossible ones are forbidden; `linear`: each
    tag by itself."""


class BiLSTMTaggerConfig(WordTaggerConfig):
    """Bidirectional LSTM over words and characters, with a CRF (Lample et al. 2016)."""

    name: Literal["bilstm_tagger"] = "bilstm_tagger"
    hidden: int = Field(128, ge=1, le=MAX_WIDTH)
    """Width of the state of each direction."""
    depth: int = Field(1, ge=1, le=MAX_DEPTH)
    """Number of layers."""


class ElmoTaggerConfig(WordTaggerConfig, ElmoConfig):
    """Bidirectional LSTM over words and the frozen layers of an ELMo (Peters et al. 2018)."""

    name: Literal["elmo"] = "elmo"
    vocab_size: int = Field(0, ge=0, le=MAX_VOCABULARY)
    """Number of word ids, padding and unknown words included; from the data."""
    dropout: float = Field(0.4, ge=0, lt=1)
    """Dropout of the word vectors and of the vectors before the output layer."""
    hidden: int = Field(128, ge=1, le=MAX_WIDTH)
    """Width of the state of each direction of the LSTM over the layers."""
    is_frozen: bool = True
    """Leave the layers of the ELMo as they are; only their mixture is learned."""


class CNNTaggerConfig(WordTaggerConfig):
    """Dilated convolutions over words and characters (Strubell et al. 2017)."""

    name: Literal["cnn_tagger"] = "cnn_tagger"
    hidden: int = Field(192, ge=1, le=MAX_WIDTH)
    """Width of the layers."""
    depth: int = Field(3, ge=1, le=16)
    """Number of layers; the dilation doubles from layer to layer."""
    kernel_size: int = Field(3, ge=1, le=MAX_LENGTH)
    """Words under a kernel."""
