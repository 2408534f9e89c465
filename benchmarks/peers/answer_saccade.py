"""Our own search over a run's model; also the judge of what the others answered."""

from typing import Any

import torch
from peers.answer import LONGEST, Ids, answer_for_ever
from peers.pipe import THREADS, Pipe
from torch import Tensor

from saccade.config import override_settings
from saccade.data.vocabulary import BOS, EOS, PAD
from saccade.runs.run import load_run
from saccade.tasks.searching import DecodingConfig
from saccade.training.device import tune_malloc


def padded(sources: Ids) -> tuple[Tensor, Tensor | None]:
    """The sources with their end marks as one table, and their lengths unless all are alike."""
    lengths = [len(ids) + 1 for ids in sources]
    most = max(lengths)
    rows = [[*ids, EOS] + [PAD] * (most - 1 - len(ids)) for ids in sources]
    return torch.tensor(rows), None if min(lengths) == most else torch.tensor(lengths)


class Judge:
    """Reads answers with our model, one at a time, and says how likely each token was."""

    def __init__(self, model: Any):
        self.model = model

    def __call__(self, command: dict[str, Any]) -> dict[str, Any]:
        """Log-probabilities of answers, or how near the two likeliest were where answers part."""
        if command["do"] == "score":
            pairs = zip(command["sources"], command["answers"], strict=True)
            return {"scores": [self.score(source, answer) for source, answer in pairs]}
        several = zip(command["sources"], command["answers"], command["others"], strict=True)
        return {"gaps": [self.gap(*one) for one in several]}

    def score(self, source: list[int], answer: list[int]) -> float:
        """Of the whole answer, its end mark included unless it was cut off."""
        written = answer if len(answer) >= LONGEST else [*answer, EOS]
        table = self.table(source, [BOS, *written[:-1]])
        return float(table.gather(1, torch.tensor(written)[:, None]).double().sum())

    def gap(self, source: list[int], answer: list[int], other: list[int]) -> float | None:
        """Between the two tokens at the first place where they differ; None if there is none."""
        mine, theirs = [*answer, EOS], [*other, EOS]
        differ = (n for n, pair in enumerate(zip(mine, theirs, strict=False)) if len(set(pair)) > 1)
        first = next(differ, None)
        if first is None or first >= LONGEST - 1:
            return None
        row = self.table(source, [BOS, *mine[:first]])[-1]
        return float((row[mine[first]] - row[theirs[first]]).abs())

    @torch.no_grad()
    def table(self, source: list[int], target: list[int]) -> Tensor:
        """The log-probabilities (T, V) of what follows each token of a target."""
        state = self.model.init_state(self.model.encode(*padded([source])))
        return self.model.step(torch.tensor([target]), state)[0][0].log_softmax(dim=-1)


def compete(pipe: Pipe, run: str) -> None:
    """Answer for ever."""
    torch.set_num_threads(THREADS)
    tune_malloc()
    task: Any = load_run(run).task
    model = task.model.eval()
    task.recipe = override_settings(task.recipe, {"data.max_new_tokens": LONGEST})  # as the others

    def translate(sources: Ids, beam: int) -> Ids:
        found = task.answers(sources, DecodingConfig(beam=beam, length_penalty=0.0))
        return [several[0].ids for several in found]

    parameters = sum(parameter.numel() for parameter in model.parameters())
    answer_for_ever(pipe, translate, {"parameters": parameters}, Judge(model))
