"""What a process that answers does: translate the batches it is sent, and say how long it took."""

import time
from collections.abc import Callable
from typing import Any

from peers.pipe import Pipe

LONGEST = 60  # tokens of an answer, the end mark included
Ids = list[list[int]]
Translate = Callable[[Ids, int], Ids]  # sources (no end mark) and a beam's width to answers


def answer_for_ever(
    pipe: Pipe,
    translate: Translate,
    facts: dict[str, Any],
    judge: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
) -> None:
    """Wait for batches; anything else that is asked is for the judge.

    `repeats` times all batches are answered, so that a turn is not too short to be measured.
    """
    pipe.say(**facts)
    while command := pipe.hear():
        if command["do"] != "answer":
            assert judge is not None
            pipe.say(**judge(command))
            continue
        began = time.perf_counter()
        for _ in range(command["repeats"]):
            answers = [
                answer
                for batch in command["batches"]
                for answer in translate(batch, command["beam"])
            ]
        pipe.say(answers=answers, seconds=time.perf_counter() - began)
