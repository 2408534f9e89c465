"""Our own decoding of a run's model; also scores the outputs of the peers."""

from typing import Any

import torch
from peers.answer import MAX_NEW_TOKENS, Ids, answer_until_closed
from peers.pipe import THREADS, Pipe
from torch import Tensor

from saccade.config import override_settings
from saccade.data.special_tokens import BOS, EOS, PAD
from saccade.decoding import DecodingConfig
from saccade.runs.run import load_run
from saccade.tasks.base import PredictContext
from saccade.tasks.translation.predict import TranslationPredictor
from saccade.training.device import tune_malloc


def padded(sources: Ids) -> tuple[Tensor, Tensor | None]:
    """Return the padded sources with end-of-sequence, and their lengths unless all are equal."""
    lengths = [len(ids) + 1 for ids in sources]
    max_length = max(lengths)
    rows = [[*ids, EOS] + [PAD] * (max_length - 1 - len(ids)) for ids in sources]
    return torch.tensor(rows), None if min(lengths) == max_length else torch.tensor(lengths)


class Judge:
    """Scores outputs with our model, one at a time."""

    def __init__(self, model: Any):
        self.model = model

    def __call__(self, command: dict[str, Any]) -> dict[str, Any]:
        """Return log-probabilities, or the gap between two outputs where they diverge."""
        if command["do"] == "score":
            pairs = zip(command["sources"], command["answers"], strict=True)
            return {"scores": [self.score(source, answer) for source, answer in pairs]}
        several = zip(command["sources"], command["answers"], command["others"], strict=True)
        return {"gaps": [self.gap(*one) for one in several]}

    def score(self, source: list[int], answer: list[int]) -> float:
        """Return the log-probability of an output, with end-of-sequence unless truncated."""
        written = answer if len(answer) >= MAX_NEW_TOKENS else [*answer, EOS]
        log_probs = self.log_probs(source, [BOS, *written[:-1]])
        return float(log_probs.gather(1, torch.tensor(written)[:, None]).double().sum())

    def gap(self, source: list[int], answer: list[int], other: list[int]) -> float | None:
        """Return the log-probability gap at the first different token; None if there is none."""
        mine, theirs = [*answer, EOS], [*other, EOS]
        differ = (n for n, pair in enumerate(zip(mine, theirs, strict=False)) if len(set(pair)) > 1)
        first = next(differ, None)
        if first is None or first >= MAX_NEW_TOKENS - 1:
            return None
        row = self.log_probs(source, [BOS, *mine[:first]])[-1]
        return float((row[mine[first]] - row[theirs[first]]).abs())

    @torch.no_grad()
    def log_probs(self, source: list[int], target: list[int]) -> Tensor:
        """Return the log-probabilities (T, V) after each token of a target."""
        state = self.model.init_state(self.model.encode(*padded([source])))
        return self.model.step(torch.tensor([target]), state)[0][0].log_softmax(dim=-1)


def compete(pipe: Pipe, run: str) -> None:
    """Translate until the pipe is closed."""
    torch.set_num_threads(THREADS)
    tune_malloc()
    ours = load_run(run)
    model = ours.model.eval()
    # the same length limit as the others
    recipe: Any = override_settings(ours.recipe, {"data.max_new_tokens": MAX_NEW_TOKENS})
    predictor = TranslationPredictor(recipe, model, ours.preprocessor)

    def translate(sources: Ids, beam: int) -> Ids:
        options = DecodingConfig(beam=beam, length_penalty=0.0)
        found = predictor.decode(sources, options, PredictContext())
        return [several[0].ids for several in found]

    parameters = sum(parameter.numel() for parameter in model.parameters())
    answer_until_closed(pipe, translate, {"parameters": parameters}, Judge(model))
