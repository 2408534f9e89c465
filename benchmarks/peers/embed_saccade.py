"""Benchmark process: vectors of sentences by Saccade."""

import time
from pathlib import Path

import numpy as np
import torch
from peers.pipe import THREADS, Pipe

from saccade.runs.run import load_run
from saccade.training.device import set_num_threads, tune_malloc


def compete(pipe: Pipe, run: str, sentences: str, expected: str) -> None:
    """Save the vectors of some sentences; then embed all of them at each command."""
    tune_malloc()
    set_num_threads(THREADS)
    predictor = load_run(run).predictor
    texts = Path(sentences).read_text().splitlines()
    np.save(expected, predictor.vectors(texts[:256]))
    pipe.send(threads=torch.get_num_threads())
    while True:
        count = pipe.receive()["count"]
        start = time.perf_counter()
        predictor.vectors(texts[:count])
        pipe.send(seconds=time.perf_counter() - start)
