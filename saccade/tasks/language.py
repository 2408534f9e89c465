"""Language: what a batch, a loss and a law mean for a model that goes on with a text."""

from collections.abc import Iterator
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn

from saccade.data.corpus import (
    Segments,
    batches_in_epoch,
    rows_of,
    sequential_segments,
    training_segments,
)
from saccade.data.sources import TEXTS
from saccade.data.tokenizers import Tokenizer, from_json
from saccade.data.vocabulary import END
from saccade.errors import ConfigError
from saccade.fitted.ngram import NGram
from saccade.look import laws
from saccade.look.draw import save_maps
from saccade.look.finding import Finding
from saccade.look.laws import Example
from saccade.look.terminal import Map
from saccade.look.watch import watch
from saccade.models.gpt import GPT
from saccade.models.language import (
    ConvolutionLanguage,
    NGramConfig,
    RecurrentLanguage,
    RecurrentLanguageConfig,
)
from saccade.models.nnlm import NNLM
from saccade.models.speaking import LanguageModel
from saccade.models.transformer_xl import TransformerXL
from saccade.models.two_way import TwoWay
from saccade.models.writing import writer
from saccade.nn.truncation import (
    Step,
    full,
    gradients_by_distance,
    randomly_truncated,
    truncated,
    unroll,
)
from saccade.nn.words import Judged, word_loss
from saccade.seeding import generator
from saccade.tasks.gaps import Gaps
from saccade.tasks.network import Network
from saccade.tasks.reading import MARKS, OnText, Reading, Tell
from saccade.tasks.task import Fitted, Fitting, Kind
from saccade.tasks.text import MADE, LanguageRecipe, Text, prepare, real
from saccade.training.loop import Loss
from saccade.types import Ids, State, select

ROWS = 16  # stretches that are read side by side when a text is scored
DRAWN = 32  # tokens of a picture of attention
LOOKED_AT = 4096  # tokens among which a line is looked for, to be drawn
LEAST_PART = 256  # tokens that are worth a core of their own
LANGUAGE_MODELS: dict[str, Any] = {
    "convolution": ConvolutionLanguage,
    "gpt1": GPT,
    "gpt2": GPT,
    "gpt3": GPT,
    "gru": RecurrentLanguage,
    "gru_reset_first": RecurrentLanguage,
    "lstm": RecurrentLanguage,
    "ngram": NGram,
    "nnlm": NNLM,
    "rnn": RecurrentLanguage,
    "transformer_xl": TransformerXL,
    "two_way": TwoWay,
}


class NetworkLanguage(Reading, Network):
    """A network of text, trained by the loop."""

    model: LanguageModel

    def __init__(self, recipe: LanguageRecipe, tokenizer: Tokenizer):
        super().__init__(
            recipe, tokenizer, lambda: LANGUAGE_MODELS[recipe.model.name](recipe.model)
        )
        self.segment: Step = self.model.segment
        self._writing: Any = None

    @property
    def stepper(self) -> nn.Module:
        """The model itself."""
        self.model.eval()
        return self.model

    @property
    def writing(self) -> Any:
        """With as few calls as can be, where there is such a way."""
        self._writing = writer(self.stepper, self._writing)
        return self._writing

    # --- training --------------------------------------------------------------------------

    def batches(self, split: str, start: int = 0) -> Iterator[Text]:
        """For "train" without end; others once, from their beginning."""
        data, seed = self.recipe.data, self.recipe.train.seed
        ids = self.corpora[split].ids
        if split == "train":
            segments = training_segments(
                ids, data.reading, self._batch_rows, data.steps, seed, start
            )
        else:
            every = sequential_segments(ids, ROWS, data.steps, seed=0, epoch=0)
            segments = islice(every, start, None)
        yield from map(Text, segments)

    def batches_in_epoch(self) -> int:
        """How many batches have all the training text once, cut up as each epoch does it anew."""
        ids, data = self.corpora["train"].ids, self.recipe.data
        return batches_in_epoch(ids, data.reading, self._batch_rows, data.steps)

    @property
    def _batch_rows(self) -> int:
        """Of a batch."""
        return max(1, self.recipe.train.batch_tokens // self.recipe.data.steps)

    def compile(self) -> None:
        """Let torch.compile make kernels for what a segment is read by."""
        self.segment = torch.compile(self.model.segment, dynamic=False)

    def parts(self, batch: Text, most: int) -> list[Text]:
        """Some rows for each part, with what they go on from."""
        count = max(1, min(most, batch.tokens // LEAST_PART, len(batch.segments.inputs)))
        carried = self._carried(batch.segments)
        cuts = [len(batch.segments.inputs) * place // count for place in range(count + 1)]
        return [
            Text(
                rows_of(batch.segments, *ends),
                place,
                tuple(one[slice(*ends)] for one in carried) if self.model.carries else None,
            )
            for place, ends in enumerate(pairwise(cuts))
        ]

    def loss(self, batch: Text) -> Loss:
        """Summed over the tokens; what is left after the last is kept for the batch that follows.

        It is kept without its gradient: backpropagation goes no farther than the segment.
        """
        self._writing = None  # the weights are about to change
        segments = batch.segments
        carried = self._carried(segments) if batch.carried is None else batch.carried
        smoothing = self.recipe.train.smoothing
        judged, after = self._judged(segments, self.segment, carried, smoothing)
        if self.model.carries:
            for place, left in enumerate(after):
                self.carried[f"{place}.{batch.part}"] = left.detach()
        return Loss(*judged)

    def _carried(self, segments: Segments) -> Any:
        """What a batch goes on from: nothing, or what the parts of the last one left, joined."""
        model: Any = self.model
        rows = len(segments.inputs)
        before = model.carried(rows)
        if segments.fresh or not model.carries:
            self.carried = {}
            return before
        joined = []
        for place in range(len(before)):
            names = sorted((n for n in self.carried if n.startswith(f"{place}.")), key=_part_of)
            joined.append(torch.cat([self.carried[name] for name in names])[:rows])
        self.carried = {}
        return tuple(joined)

    def _judged(
        self, segments: Segments, read: Step, before: Any, smoothing: float
    ) -> tuple[Judged, Any]:
        """The tokens that count."""
        model: Any = self.model
        inputs = segments.inputs.to(self.device)
        hidden, after = unroll(read, before, inputs, self._borders(inputs.shape[1]))
        hidden = model.finish(real(hidden.flatten(0, 1), segments))
        targets = real(segments.targets.flatten(), segments).to(self.device)
        return word_loss(hidden, model.words, targets, smoothing), after

    def _borders(self, steps: int) -> tuple[float, ...]:
        config = self.recipe.model
        if not self.model.training or not isinstance(config, RecurrentLanguageConfig):
            return full(steps)
        if config.truncation == "window":
            return truncated(steps, config.window)
        if config.truncation == "random":
            # the loop has seeded torch's generator by the step, so this, too, follows from it
            seed = int(torch.randint(2**62, ()))
            return randomly_truncated(steps, config.keep, generator(seed, "borders"))
        return full(steps)

    # --- scores ----------------------------------------------------------------------------

    @torch.no_grad()
    def total(self, ids: NDArray[Any], tell: Tell = lambda more: None) -> float:
        """Read in stretches side by side, each going on from what it has read."""
        model: Any = self.stepper
        past: Any = None
        total = 0.0
        steps = model.stride or self.recipe.data.steps
        for segments in sequential_segments(ids, ROWS, steps, seed=0, epoch=0):
            rows = len(segments.inputs)
            if segments.fresh:
                past, before = model.past(rows), rows
            elif rows < before:
                past, before = select(past, torch.arange(rows, device=self.device)), rows
            judged, past = self._judged(segments, model.read, past, smoothing=0.0)
            total -= float(judged.total)
            tell(Text(segments).tokens)
        return total

    def seen(self) -> str:
        """What a token sees."""
        model: Any = self.model
        return f"of one of {ROWS} stretches of the text a token sees {model.sees}"

    def gradients(self, split: str = "test", count: int = 16) -> Float[Tensor, "B T"]:
        """How much of the last loss reaches the state 1, 2, … steps before, for some segments."""
        if not isinstance(self.model, RecurrentLanguage):
            raise ConfigError(
                f"{self.recipe.model.name} has no state that a gradient goes back through; "
                "rnn, gru and lstm have one."
            )
        steps = self.recipe.data.steps
        ids = self.corpora[split].ids
        most = min(steps, len(ids) - 1)
        starts = np.unique(np.linspace(0, len(ids) - most - 1, count).astype(np.int64))
        rows = torch.from_numpy(np.stack([ids[a : a + most + 1] for a in starts]).astype(np.int64))
        model: Any = self.stepper

        def surprise(hidden: Tensor) -> Tensor:
            return nn.functional.cross_entropy(
                model.project(hidden), rows[:, -1].to(self.device), reduction="none"
            )

        inputs = rows[:, :-1].to(self.device)
        return gradients_by_distance(model.read, model.past(len(rows)), inputs, surprise).detach()

    # --- looking ---------------------------------------------------------------------------

    @torch.no_grad()
    def maps(self, text: str, answer: str | None = None) -> dict[tuple[str, int, int], Map]:
        """Where the model looks as it reads a text and its own continuation, or the one given.

        A row is the token being written, a column one that is looked at: as many of the last as
        the model sees at one sight.
        """
        model: Any = self.stepper
        if model.sight is None:
            return {}
        if answer is None:
            answer = self.predict([text])[0].text
        lines = [self.tokenizer.encode(line) for line in (text + answer).split("\n")]
        ids = [END, *lines[0], *(id for line in lines[1:] for id in (END, *line))]
        ids = ids[-model.sight - 1 :]
        read = ids[:-1] or ids
        with watch(model) as seen:
            model.read(torch.tensor([read], device=self.device), model.past(1))
        written, looked_at = (self.tokenizer.pieces(some) for some in (ids[1:] or ids, read))
        maps = {}
        for layer, name in enumerate(seen.names(), start=1):
            for head, weights in enumerate(seen.map(name)[0].float().cpu().numpy(), start=1):
                title = f"self-attention, layer {layer}, head {head}"
                sides = ("text (looked at)", "text (written)")
                maps["self", layer, head] = Map(weights, written, looked_at, title, *sides)
        return maps

    def pictures(self, folder: Path) -> list[str]:
        """Where the last layer looks in one line that it has not seen, if it has attention."""
        if self.stepper.sight is None:
            return []
        begun, rest = cut_in_two(self.tokenizer, self.corpora["test"].ids)
        every = self.maps(begun, rest)
        last = max(layer for _, layer, _ in every)
        maps = [map_ for (_, layer, _), map_ in every.items() if layer == last]
        return save_maps(maps, folder / "attention.png")

    # --- laws ------------------------------------------------------------------------------

    def check(self, split: str, count: int) -> Iterator[Finding]:
        """The laws of a model that has no source."""
        model, example = self._example(split, count)
        vocab, limit = self.tokenizer.vocab_size, example.target.shape[1]
        yield laws.neighbours(model, example)
        yield laws.stepwise(model, example, Alone(self.writing))
        yield laws.future(model, example, vocab)
        yield laws.beam_of_one(model, example, MARKS, limit)
        yield laws.best_of_many(model, example, MARKS, limit)
        yield laws.rereading(model, example, MARKS, limit)
        yield laws.threads(model, example)
        yield laws.compiled(model, example)

    def again(self, other: "NetworkLanguage", split: str, count: int) -> Finding:
        """Saved and reopened."""
        model, example = self._example(split, count)
        return laws.same("saved and reopened agree", model, Alone(other.stepper), example)

    def _example(self, split: str, count: int) -> tuple["Alone", Example]:
        ids = self.corpora[split].ids
        steps = min(16, len(ids) - 1)
        starts = np.unique(np.linspace(0, len(ids) - steps, count).astype(np.int64))
        rows = np.stack([ids[at : at + steps] for at in starts]).astype(np.int64)
        nothing = torch.zeros(len(rows), 1, dtype=torch.long)
        lengths = torch.ones(len(rows), dtype=torch.long)
        return Alone(self.stepper), Example(nothing, lengths, torch.from_numpy(rows))


class Alone(nn.Module):
    """A model without a source, for laws that speak of one."""

    def __init__(self, model: Any):
        super().__init__()
        self.model = model

    def encode(self, source: Ids, lengths: Tensor | None) -> Ids:
        """The source says only how many rows there are."""
        return source

    def start(self, memory: Any) -> State:
        """Nothing read yet."""
        return self.model.start(memory)

    def step(self, ids: Ids, state: State) -> tuple[Tensor, State]:
        """The model's."""
        return self.model.step(ids, state)


class CountedLanguage(Reading, Fitted):
    """n-grams: fitted by counting."""

    def __init__(self, recipe: LanguageRecipe, tokenizer: Tokenizer):
        super().__init__(recipe, tokenizer)
        config = recipe.model
        assert isinstance(config, NGramConfig)
        self.ngram = NGram(config.order, config.vocab_size, config.smoothing)

    @property
    def stepper(self) -> NGram:
        """The counts."""
        return self.ngram

    def fit(self, around: Fitting) -> None:
        """Count."""
        around.tell("counting", 0, 0)
        self.ngram.fit(self.corpora["train"].ids)

    def weights(self) -> dict[str, Tensor]:
        """The counts and what follows from them."""
        return {name: torch.from_numpy(a) for name, a in self.ngram.to_arrays().items()}

    def load(self, weights: dict[str, Tensor]) -> None:
        """Take up counts."""
        self.ngram = NGram.from_arrays({name: t.numpy() for name, t in weights.items()})

    def total(self, ids: NDArray[Any], tell: Tell = lambda more: None) -> float:
        """All tokens but the first, each after those before it."""
        return float(self.ngram.log_probabilities(ids)[1:].sum())

    def seen(self) -> str:
        """What a token sees."""
        return f"a token sees the {self.ngram.order - 1} before it"

    def again(self, other: "CountedLanguage", split: str, count: int) -> Finding:
        """Saved and reopened."""
        ids = self.corpora[split].ids[: 64 * count]
        one, two = (task.ngram.log_probabilities(ids) for task in (self, other))
        # of a token that no count allows both say minus infinity
        apart = np.abs(np.where(one == two, 0.0, one - two)).max()
        return Finding("saved and reopened agree", count, float(apart), 1e-9)


def language_task(recipe: LanguageRecipe, tokenizer: Tokenizer) -> OnText:
    """The task of a recipe: a network, or counts."""
    if recipe.model.name == "ngram":
        return CountedLanguage(recipe, tokenizer)
    if recipe.model.name == "two_way":
        return Gaps(recipe, tokenizer)
    return NetworkLanguage(recipe, tokenizer)


def cut_in_two(tokenizer: Tokenizer, ids: NDArray[Any]) -> tuple[str, str]:
    """The first line of some length, as far as a picture has room for it, in two halves."""
    lines = (
        line[line != END]
        for line in np.split(ids[:LOOKED_AT], np.flatnonzero(ids[:LOOKED_AT] == END))
    )
    line = max(lines, key=lambda line: min(len(line), DRAWN))[:DRAWN].tolist()
    half = len(line) // 2
    return tokenizer.decode(line[:half]), tokenizer.decode(line[half:])


def _part_of(name: str) -> int:
    return int(name.split(".")[1])


LANGUAGE = Kind(
    LanguageRecipe,
    LANGUAGE_MODELS,
    MADE,
    TEXTS,
    prepare,
    language_task,
    from_json,
    kept=("tokenizer",),
)
