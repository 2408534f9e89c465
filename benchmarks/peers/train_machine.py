"""The machine's own matrix-product rate, measured in alternation with the models."""

import torch
from peers.pipe import THREADS, Pipe
from timing import matrix_rate


def compete(pipe: Pipe, *rest: str) -> None:
    """Report the GFLOP/s of a square product on every command."""
    torch.set_num_threads(THREADS)
    pipe.send(about="square matrix product, 1024")
    while pipe.receive():
        pipe.send(rate=matrix_rate(1024, 1024, 1024).middle)
