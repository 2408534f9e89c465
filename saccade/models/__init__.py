"""Parts wired into named networks, one file a family: settings, then model."""

from saccade.models.bahdanau import Bahdanau, BahdanauConfig
from saccade.models.seq2seq import Seq2Seq, Seq2SeqConfig
from saccade.models.transformer import Transformer, TransformerConfig

__all__ = [
    "Bahdanau",
    "BahdanauConfig",
    "Seq2Seq",
    "Seq2SeqConfig",
    "TRANSLATORS",
    "Transformer",
    "TransformerConfig",
]

TRANSLATORS = {"bahdanau": Bahdanau, "seq2seq": Seq2Seq, "transformer": Transformer}
