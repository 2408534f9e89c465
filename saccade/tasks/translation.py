"""Translation: what a batch, a loss, a score and an answer mean for pairs of texts."""

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn

from saccade.data.batching import Encoded, Plan, encode_pairs, rows_of, training_batches
from saccade.data.grouping import groups_of_like_length
from saccade.data.pairs import Pairs
from saccade.data.parallel import Tokenizers, learn_tokenizers, load_splits, within
from saccade.data.shortening import shortened
from saccade.data.sources import PAIRS
from saccade.data.synthetic import SYNTHETIC
from saccade.data.text import read_pairs
from saccade.data.vocabulary import BEGIN, END, PAD, UNKNOWN, unknown_note
from saccade.decoding import Answer, Marks
from saccade.errors import ConfigError, DataError
from saccade.look.draw import save_maps
from saccade.look.finding import Finding
from saccade.look.laws import Example, all_of, same
from saccade.look.terminal import Map
from saccade.look.watch import Watched, watch
from saccade.metrics.rouge import rouge
from saccade.metrics.translation import bleu, chrf, exact, taught_bleu_corpus
from saccade.models import TRANSLATORS, writer
from saccade.nn.words import word_loss
from saccade.predictions import Prediction
from saccade.tasks.network import Network
from saccade.tasks.recipe import TranslationRecipe
from saccade.tasks.searching import Search, search, search_from
from saccade.tasks.sizing import choose_model, facts_of, size_up
from saccade.tasks.task import Choice, Kind, Progress, Scored, anywhere, print_of
from saccade.training.loop import Loss
from saccade.training.workers import each_apart
from saccade.types import Batch

MODELS: dict[str, Callable[[Any], nn.Module]] = dict(TRANSLATORS)
MARKS = Marks(BEGIN, END, (PAD, BEGIN, UNKNOWN))
LEAST_PART = 128  # tokens; for fewer a thread of their own is not worth it
ANSWER_TOKENS = 8192  # source tokens, padding included, that are answered at once
LEAST_GROUP = 64  # sources that are worth a thread of their own; fewer are shared by all
ANSWER_ROWS = 512  # hypotheses at once: of short sources there would be thousands


@dataclass
class PreparedPairs:
    """The pairs of a recipe, ready for training, and how the settings came about."""

    recipe: TranslationRecipe
    vocabulary: Tokenizers
    pairs: dict[str, Pairs]
    encoded: dict[str, Encoded]
    choices: list[Choice] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def print(self) -> str:
        """A short hash of the training ids."""
        train = self.encoded["train"]
        sides = (train.source, train.target)
        return print_of(*(array for side in sides for array in (side.ids, side.offsets)))


def prepare(
    recipe: TranslationRecipe,
    tell: Progress,
    tokenizers: Tokenizers | None = None,
    name_model: bool = False,
) -> PreparedPairs:
    """Read the data, choose what the recipe leaves open, learn the vocabularies, encode.

    With `tokenizers` those of another run are used; with `name_model` the model, too, is open.
    """
    splits = load_splits(recipe.data, lambda done, total: tell("reading the data", done, total))
    facts = facts_of(splits.pairs["train"])
    if name_model:
        recipe = recipe.with_values(model={"name": choose_model(facts)})
    recipe, choices = size_up(recipe, facts)
    others = tokenizers is not None
    if tokenizers is None:
        tell("learning the vocabulary", 0, 0)
        tokenizers = learn_tokenizers(
            recipe.data.tokenizer, splits.pairs["train"], recipe.data.spaces
        )
    notes = list(splits.notes)
    encoded = {}
    done, total = 0, 2 * sum(map(len, splits.pairs.values()))

    def more(texts: int) -> None:
        nonlocal done
        done += texts
        tell("encoding", done, total)

    for split, pairs in splits.pairs.items():
        whole = encode_pairs(pairs, tokenizers.source, tokenizers.target, more)
        encoded[split], left_out = within(whole, recipe.data)
        splits.pairs[split] = _same(pairs, encoded[split], recipe)
        notes += left_out
    if others:
        train = encoded["train"]
        notes += unknown_note(train.name, train.source.ids, train.target.ids)
    data = recipe.data.model_dump(exclude_unset=True)
    if "longest_answer" not in data:
        data["longest_answer"] = 10 + int(1.2 * encoded["train"].target.lengths.max())
    sizes = {
        "source_vocab": tokenizers.source.vocab_size,
        "target_vocab": tokenizers.target.vocab_size,
    }
    if recipe.model.name == "transformer":
        sizes["shared_vocab"] = tokenizers.shared
    model = recipe.model.model_dump(exclude_unset=True) | sizes
    recipe = recipe.with_values(data=data, model=model)
    return PreparedPairs(recipe, tokenizers, splits.pairs, encoded, choices, notes)


def _same(pairs: Pairs, encoded: Encoded, recipe: TranslationRecipe) -> Pairs:
    """The pairs that are left once those that are too long are left out."""
    if not len(encoded):
        raise DataError(
            f"{pairs.name}: each of its {len(pairs)} pairs has a side of more than "
            f"{recipe.data.longest} tokens, so none is left. Raise data.longest."
        )
    if len(encoded) == len(pairs):
        return pairs
    return pairs.take(np.flatnonzero(np.isin(pairs.lines, encoded.lines)))


class Translation(Network):
    """A model, its vocabularies and, where they are needed, its pairs."""

    def __init__(self, recipe: TranslationRecipe, tokenizers: Tokenizers):
        super().__init__(recipe, lambda: MODELS[recipe.model.name](recipe.model))
        self.tokenizers = tokenizers
        self.pairs: dict[str, Pairs] = {}
        self.encoded: dict[str, Encoded] = {}
        self._steps: Any = None  # what the last search took its steps with

    def give(self, prepared: PreparedPairs) -> None:
        """Hand over the data that training and evaluating need."""
        self.pairs, self.encoded = dict(prepared.pairs), dict(prepared.encoded)

    def add_split(self, name: str, pairs: Pairs) -> None:
        """More pairs, under a name of their own."""
        whole = encode_pairs(
            pairs, self.tokenizers.source, self.tokenizers.target, lambda more: None
        )
        self.encoded[name], _ = within(whole, self.recipe.data)
        self.pairs[name] = _same(pairs, self.encoded[name], self.recipe)

    def add_file(self, path: str | Path) -> str:
        """A file of pairs as a split; its name is returned."""
        self.add_split("given", read_pairs(path))
        return "given"

    def vocabulary_json(self) -> dict[str, Any]:
        """Both tokenizers."""
        return self.tokenizers.to_json()

    # --- training --------------------------------------------------------------------------

    def batches(self, split: str, start: int = 0) -> Iterator[Batch]:
        """For "train" without end, in an order that depends on the seed; others once."""
        if split == "train":
            encoded = self.encoded[split]
            plan = Plan(encoded, self.recipe.train.batch_tokens)
            yield from training_batches(encoded, plan, self.recipe.train.seed, start)
        else:
            yield from islice(self._once(split), start, None)

    def batches_in_epoch(self) -> int:
        """How many batches have all the training pairs once."""
        return len(Plan(self.encoded["train"], self.recipe.train.batch_tokens))

    def _once(self, split: str) -> Iterator[Batch]:
        """Every pair of a split once, the training pairs too."""
        encoded = self.encoded[split]
        plan = Plan(encoded, self.recipe.train.batch_tokens)
        for index in range(len(plan)):
            yield encoded.batch(plan.rows(index))

    def loss(self, batch: Batch) -> Loss:
        """Summed over the real target tokens; padding never reaches the output projection."""
        self._steps = None  # the weights are about to change
        return self._loss(batch, self.recipe.train.smoothing)

    def _loss(self, batch: Batch, smoothing: float) -> Loss:
        batch = _moved(batch, self.device)
        model: Any = self.model
        hidden = self.hidden(batch)
        return Loss(*word_loss(hidden, model.words, batch.target_out, smoothing, batch.weights))

    def parts(self, batch: Batch, most: int) -> list[Batch]:
        """The rows in as many parts as have something to do."""
        count = max(1, min(most, batch.tokens // LEAST_PART, len(batch.lines)))
        cuts = [len(batch.lines) * place // count for place in range(count + 1)]
        return [rows_of(batch, *ends) for ends in pairwise(cuts)] if count > 1 else [batch]

    def compile(self) -> None:
        """Let torch.compile make kernels for this model, for batches of any shape."""
        self.hidden = torch.compile(self.hidden, dynamic=True)  # type: ignore[method-assign]

    def hidden(self, batch: Batch) -> Float[Tensor, "N D"]:
        """What stands before the words at the real target places, each after those before it."""
        model: Any = self.model
        state = model.start(model.encode(batch.source, batch.source_lengths))
        hidden, _ = model.read(batch.target_in, state)
        hidden = hidden.flatten(0, 1)
        if batch.real is not None:
            hidden = hidden.index_select(0, batch.real)
        return model.finish(hidden)

    def where(self, batch: Batch) -> str:
        """The lines a batch came from."""
        shown = ", ".join(map(str, batch.lines[:5]))
        more = f" and {len(batch.lines) - 5} more" if len(batch.lines) > 5 else ""
        return f"{self.encoded['train'].name}, lines {shown}{more}"

    # --- scores ----------------------------------------------------------------------------

    def scored(
        self,
        split: str,
        most: int | None = None,
        tell: Callable[[int], None] = lambda more: None,
        *,
        beam: int = 1,
    ) -> Scored:
        """Loss and scores of the answers to at most so many of the sources.

        The sources that are answered are spread evenly over the split; the loss is of all of it.
        """
        pairs = self.pairs[split]
        count = len(pairs) if most is None else min(most, len(pairs))
        rows = np.unique(np.linspace(0, len(pairs) - 1, count).astype(np.int64))
        answers = self.predict(list(pairs.sources(rows)), beam=beam, tell=tell)
        texts, references = [a.text for a in answers], list(pairs.targets(rows))
        figures, conventions = score_answers(texts, references, lower=most is None)
        # of single words ROUGE says what exact says; it takes too long to be a figure of training
        if most is None and max(len(text.split()) for text in references) > 1:
            shared = rouge(texts, references, str.split)
            figures |= {name: value.f for name, value in shared.items()}
            conventions |= dict.fromkeys(shared, "F, words between spaces, no stemming, mean")
        return self.mean_loss(split) | figures, {
            "loss": PER_TOKEN,
            "perplexity": PER_TOKEN,
        } | conventions

    @torch.no_grad()
    def mean_loss(self, split: str) -> dict[str, float]:
        """Cross-entropy per target token, and e to the power of it."""
        self.model.eval()
        total, tokens = 0.0, 0
        for batch in self._once(split):
            total += float(self._loss(batch, smoothing=0.0).total)
            tokens += batch.tokens
        loss = total / tokens
        return {"loss": loss, "perplexity": math.exp(min(loss, 700.0))}

    def goodness(self, scores: dict[str, float]) -> float:
        """chrF decides which weights are best; among equals, the lower loss."""
        return scores["chrf"] - 1e-3 * scores["loss"]

    # --- answers ---------------------------------------------------------------------------

    def predict(
        self,
        sources: Sequence[str],
        *,
        first: int = 1,
        tell: Callable[[int], None] = lambda more: None,
        **how: Any,
    ) -> list[Prediction]:
        """An answer to each source, in order. An empty source has an empty answer.

        `how` is that of `searching.Search`. A message about the sources counts them from `first`.
        """
        wanted = search_from(how, Search)
        self.model.eval()
        encoded = self.tokenizers.source.encode_many(list(sources))
        self._check_lengths(encoded, first)
        found: list[Prediction] = [Prediction("", 0.0, 0.0, True)] * len(encoded)
        asked = [row for row, ids in enumerate(encoded) if ids]
        tell(len(encoded) - len(asked))
        for row, several in self._answers(asked, encoded, wanted, first):
            best, *others = [self._prediction(answer) for answer in several]
            found[row] = best._replace(others=tuple(others))
            tell(1)
        return found

    def answers(self, sources: list[list[int]], how: Search) -> list[list[Answer]]:
        """What a search finds for each source that is given as ids, in order."""
        rows = list(range(len(sources)))
        found = dict(self._answers(rows, sources, how, first=1))
        return [found[row] for row in rows]

    def _answers(
        self, rows: list[int], encoded: list[list[int]], how: Search, first: int
    ) -> Iterator[tuple[int, list[Answer]]]:
        """Rows with their answers, in no order; groups of like length side by side."""
        most = max(1, ANSWER_ROWS // how.beam)
        # for a group each, cores need not wait for one another
        for_each = math.ceil(len(rows) / torch.get_num_threads())
        if LEAST_GROUP <= for_each < most:
            most = for_each
        groups = list(groups_of_like_length(rows, encoded, ANSWER_TOKENS, most))
        with torch.inference_mode():  # made once, and not by each of those side by side
            steps = self._steps = writer(self.model, self._steps)

        def answered(group: list[int]) -> list[list[Answer]]:
            sources = [encoded[row] for row in group]
            return self._search(steps, sources, how, [first + row for row in group])

        # coverage looks at the model's attention, which two cannot do at once
        each = map(answered, groups) if how.coverage else each_apart(answered, groups)
        for group, answers in zip(groups, each, strict=True):
            yield from zip(group, answers, strict=True)

    @property
    def longest(self) -> int:
        """The most tokens of a source; after learned positions there is none for the end mark."""
        return min(self.recipe.data.longest, self._places - 1)

    @property
    def _places(self) -> int:
        """How many the model can tell apart."""
        model = self.recipe.model
        is_learned = getattr(model, "positions", None) == "learned"
        return int(model.longest) if is_learned else sys.maxsize

    def shortened(self, source: str) -> str:
        """The source, or the longest beginning of it that the model takes."""
        return shortened(source, self.tokenizers.source, self.longest)

    def _check_lengths(self, encoded: list[list[int]], first: int = 1) -> None:
        longest = self.longest
        over = [
            f"{number} ({len(ids):,} tokens)"
            for number, ids in enumerate(encoded, first)
            if len(ids) > longest
        ]
        if over:
            raise DataError(
                f"input {', '.join(over[:5])}{' …' if len(over) > 5 else ''} is longer than the "
                f"{longest} tokens this model takes. Cut it into sentences, or train with a larger "
                "data.longest."
            )

    def _search(
        self, steps: Any, sources: list[list[int]], how: Search, numbers: list[int]
    ) -> list[list[Answer]]:
        ids, lengths = self._padded(sources)
        # read again, an answer stands behind the begin mark
        limit = max(1, min(self.recipe.data.longest_answer, self._places - 1))
        limits = torch.full((len(sources),), limit, device=self.device)
        with torch.inference_mode():  # which is less work than no_grad for every small operation
            return search(
                steps,
                lambda: steps.encode(ids, lengths),
                how,
                marks=MARKS,
                limits=limits,
                numbers=numbers,
                weights=lambda row, answer: self._looked(sources[row], answer),
            )

    def _looked(self, source: list[int], answer: Answer) -> Tensor:
        """The attention to the source as an answer is written, the mean of all layers and heads."""
        ids, _ = self._padded([source])
        written = [*answer.ids, END] if answer.finished else answer.ids
        seen = self._watched(ids, [BEGIN, *written[:-1]])
        tables = [
            seen.map(n)[0].mean(0) for n in seen.names() if kind_of_attention(n)[0] == "cross"
        ]
        if not tables:
            raise ConfigError(
                f"{self.recipe.model.name} has no attention, so there is no coverage to judge by."
            )
        return torch.stack(tables).mean(0)

    def _watched(self, source: Tensor, target: list[int]) -> Watched:
        """What is seen of the attention as a target is read in one eager pass."""
        model: Any = self.model
        with torch.no_grad(), watch(self.model) as seen:
            model.read(
                torch.tensor([target], device=self.device), model.start(model.encode(source, None))
            )
        return seen

    def _padded(self, sources: list[list[int]]) -> tuple[Tensor, Tensor | None]:
        lengths = [len(ids) + 1 for ids in sources]
        table = torch.full((len(sources), max(lengths)), PAD)
        for row, ids in enumerate(sources):
            table[row, : lengths[row]] = torch.tensor([*ids, END])
        if min(lengths) == max(lengths):
            return table.to(self.device), None
        return table.to(self.device), torch.tensor(lengths, device=self.device)

    def _prediction(self, answer: Answer) -> Prediction:
        text = self.tokenizers.target.decode(answer.ids)
        return Prediction(text, answer.score, answer.log_probability, answer.finished)

    # --- laws ------------------------------------------------------------------------------

    def check(self, split: str, count: int) -> Iterator[Finding]:
        """Try every law on this very model, with pairs spread evenly over a split."""
        self.model.eval()
        pairs = self.encoded[split]
        rows = np.unique(np.linspace(0, len(pairs) - 1, count).astype(np.int64))
        example = self.example(split, rows)
        limit = min(self.recipe.data.longest_answer, example.target.shape[1] + 5)
        vocab_size = self.tokenizers.target.vocab_size
        yield from all_of(self.model, example, MARKS, vocab_size, limit, writer(self.model))

    def again(self, other: Any, split: str, count: int) -> Finding:
        """Whether the same task, saved and reopened, gives the same logits."""
        example = self.example(split, np.arange(min(count, len(self.encoded[split]))))
        return same("saved and reopened agree", self.model, other.model, example)

    def example(self, split: str, rows: NDArray[np.int64]) -> Example:
        """Some pairs as the laws take them."""
        encoded = self.encoded[split]
        batch = _moved(encoded.batch(rows), self.device)
        lengths = torch.from_numpy(encoded.source.lengths_of(rows) + 1).to(self.device)
        return Example(batch.source, lengths, batch.target_in)

    # --- maps ------------------------------------------------------------------------------

    def maps(self, source: str, answer: str | None = None) -> dict[tuple[str, int, int], Map]:
        """The attention maps of one answer, by (kind, layer, head), both counted from 1.

        The answer, the model's own unless one is given, is read in one eager pass. A row of a map
        is the token being written, so the last one is the end mark.
        """
        self.model.eval()
        ids = self.tokenizers.source.encode(source)
        self._check_lengths([ids])
        if answer is None:
            written = self.answers([ids], Search())[0][0].ids
        else:
            written = self.tokenizers.target.encode(answer)
        if len(written) >= self._places:
            raise DataError(
                f"the answer has {len(written)} tokens; the learned positions of this model end "
                f"at {self._places - 1}. Give a shorter one."
            )
        table, _ = self._padded([ids])
        seen = self._watched(table, [BEGIN, *written])
        looked_at = self.tokenizers.source.pieces([*ids, END])
        being_written = self.tokenizers.target.pieces([*written, END])
        read = self.tokenizers.target.pieces([BEGIN, *written])
        sides = {
            "cross": (being_written, looked_at),
            "encoder": (looked_at, looked_at),
            "decoder": (being_written, read),
        }
        maps = {}
        for name in seen.names():
            kind, layer = kind_of_attention(name)
            rows, columns = sides[kind]
            for head, weights in enumerate(seen.map(name)[0].float().cpu().numpy(), start=1):
                title = f"{kind} attention, layer {layer}, head {head}"
                maps[kind, layer, head] = Map(weights, list(rows), list(columns), title)
        return maps

    def first_input(self) -> str:
        """A held-out source, to show how a run is asked."""
        return next(iter(self.pairs["test"].sources()))

    def pictures(self, folder: Path) -> list[str]:
        """The attention of one held-out answer, if the model has any."""
        maps = [
            map_ for (kind, _, _), map_ in self.maps(self.first_input()).items() if kind == "cross"
        ]
        return save_maps(maps, folder / "attention.png") if maps else []


def kind_of_attention(name: str) -> tuple[str, int]:
    """What an attention of a translator is for, and its layer, from where it is in the model."""
    layer = next((int(part) + 1 for part in name.split(".") if part.isdigit()), 1)
    if name.startswith("encoder"):
        return "encoder", layer
    return ("decoder" if "self_attention" in name else "cross"), layer


PER_TOKEN = "per target token of this run's vocabulary, end mark included, no smoothing"


def score_answers(
    answers: list[str], references: list[str], lower: bool = False
) -> tuple[dict[str, float], dict[str, str]]:
    """exact and the taught BLEU from 0 to 1, BLEU and chrF from 0 to 100; and their conventions.

    With `lower` BLEU and chrF are given in lower case too.
    """
    words = [text.split() for text in answers], [text.split() for text in references]
    scored = {"bleu": bleu(answers, references)}
    if lower:
        scored["bleu_lower"] = bleu(answers, references, lower=True)
    scored["chrf"] = chrf(answers, references)
    if lower:
        scored["chrf_lower"] = chrf(answers, references, lower=True)
    figures = {
        "exact": exact(answers, references),
        **{name: score.value for name, score in scored.items()},
        "taught_bleu": taught_bleu_corpus(*words),
        "examples": float(len(answers)),
    }
    if max(map(len, words[1])) < 4:
        note = "; no reference has four words in a row, so this is 0 whatever the answers"
    else:
        note = ""
    conventions = {
        "exact": "share of answers equal to the reference (NFC, ends stripped)",
        **{
            name: score.signature + (note if name.startswith("bleu") else "")
            for name, score in scored.items()
        },
        "taught_bleu": "weights 1/2^n, n ≤ 4, words between spaces, mean over sentences",
    }
    return figures, conventions


def _moved(batch: Batch, device: torch.device) -> Batch:
    if device.type == "cpu":
        return batch
    parts: list[Any] = [p.to(device) if isinstance(p, Tensor) else p for p in batch]
    return Batch(*parts)


TRANSLATE = Kind(
    TranslationRecipe,
    MODELS,
    SYNTHETIC,
    PAIRS,
    anywhere(prepare),
    Translation,
    Tokenizers.from_json,
    kept=("tokenizer",),
)
