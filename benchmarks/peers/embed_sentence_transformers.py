"""Benchmark process: vectors of sentences by sentence-transformers, with its defaults."""

import time
from pathlib import Path

import numpy as np
import torch
from peers.pipe import THREADS, Pipe
from sentence_transformers import SentenceTransformer


def compete(pipe: Pipe, folder: str, sentences: str, expected: str) -> None:
    """Compare the vectors of some sentences; then embed all of them at each command."""
    torch.set_num_threads(THREADS)
    model = SentenceTransformer(folder, device="cpu")
    texts = Path(sentences).read_text().splitlines()
    known = np.load(expected)
    found = model.encode(texts[: len(known)], normalize_embeddings=True)
    pipe.send(difference=float(np.abs(found - known).max()))
    while True:
        count = pipe.receive()["count"]
        start = time.perf_counter()
        model.encode(texts[:count], normalize_embeddings=True, show_progress_bar=False)
        pipe.send(seconds=time.perf_counter() - start)
