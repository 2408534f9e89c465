"""No model at all: the machine's own rate of matrix products, measured in turns with the others."""

import torch
from peers.pipe import THREADS, Pipe
from timing import matrix_rate


def compete(pipe: Pipe, *rest: str) -> None:
    """GFLOP/s of a square product, each time it is asked for."""
    torch.set_num_threads(THREADS)
    pipe.say(about="square matrix product, 1024")
    while pipe.hear():
        pipe.say(rate=matrix_rate(1024, 1024, 1024).middle)
