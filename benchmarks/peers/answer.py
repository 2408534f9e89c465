"""Translate the batches that arrive on the pipe, and report the time."""

import time
from collections.abc import Callable
from typing import Any

from peers.pipe import Pipe

MAX_NEW_TOKENS = 60  # including end-of-sequence
Ids = list[list[int]]
Translate = Callable[[Ids, int], Ids]  # sources (without end-of-sequence) and beam size to outputs


def answer_until_closed(
    pipe: Pipe,
    translate: Translate,
    facts: dict[str, Any],
    judge: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
) -> None:
    """Translate batches; pass any other command to `judge`.

    All batches are translated `repeats` times, so that a window is long enough to be measured.
    """
    pipe.send(**facts)
    while command := pipe.receive():
        if command["do"] != "answer":
            assert judge is not None
            pipe.send(**judge(command))
            continue
        start = time.perf_counter()
        for _ in range(command["repeats"]):
            answers = [
                answer
                for batch in command["batches"]
                for answer in translate(batch, command["beam"])
            ]
        pipe.send(answers=answers, seconds=time.perf_counter() - start)
