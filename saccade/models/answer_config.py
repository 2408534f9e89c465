"""Settings of the networks that find answers in a context. Does not import torch."""

from typing import Literal

from saccade.models.bert_config import BertConfig


class BertAnswererConfig(BertConfig):
    """BERT with scores of the first and the last token of an answer (Devlin et al. 2019)."""

    name: Literal["bert"] = "bert"
    pretraining_heads: bool = False
    """Has no effect: the heads of pretraining are left out."""
    pooler: bool = False
    """Has no effect: the linear layer on [CLS] is left out."""
