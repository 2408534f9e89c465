"""Our BERT: the objective, optimiser and loop of `saccade train`."""

from peers.bert_text import masked_objective
from peers.gate import Gate
from peers.pipe import Pipe
from peers.train_saccade import train_ours


def compete(pipe: Pipe, size: str) -> None:
    """Train until the pipe is closed, one measurement window at a time."""
    train_ours(Gate(pipe), masked_objective(size))
