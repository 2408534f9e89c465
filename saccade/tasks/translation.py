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

from saccade.data.batching import (
    BatchPlan,
    EncodedPairs,
    encode_pairs,
    slice_batch,
    training_batches,
)
from saccade.data.datasets import PAIR_DATASETS
from saccade.data.length_bucketing import group_by_length
from saccade.data.parallel.load import (
    TokenizerPair,
    drop_too_long,
    load_pair_splits,
    train_tokenizers,
)
from saccade.data.parallel.pairs import SentencePairs
from saccade.data.parallel.readers import read_pairs
from saccade.data.synthetic.sequences import SYNTHETIC_PAIRS
from saccade.data.truncation import truncate_text
from saccade.data.vocabulary import BOS, EOS, PAD, UNK, unknown_token_note
from saccade.decoding import Hypothesis, SpecialTokens
from saccade.errors import ConfigError, DataError
from saccade.inference.fused import fused_decoder
from saccade.inspection.attention import AttentionRecorder, capture_attention
from saccade.inspection.checks import CheckResult
from saccade.inspection.invariants import CheckExample, check_all, same_outputs
from saccade.metrics.rouge import rouge
from saccade.metrics.translation import bleu, chrf, exact_match, textbook_corpus_bleu
from saccade.models import ENCODER_DECODERS
from saccade.nn.kernels.linear_cross_entropy import linear_cross_entropy
from saccade.plots.attention import save_attention_maps
from saccade.plots.terminal import AttentionMap
from saccade.tasks.network import TrainableTask
from saccade.tasks.recipe import TranslationRecipe
from saccade.tasks.searching import DecodingConfig, parse_decoding, run_decoding
from saccade.tasks.sizing import auto_configure, choose_model, pair_stats
from saccade.tasks.task import (
    Choice,
    Evaluation,
    Progress,
    TaskSpec,
    fingerprint_arrays,
    ignore_scratch_dir,
)
from saccade.training.loop import Loss
from saccade.training.thread_parallel import thread_map
from saccade.types.results import Prediction
from saccade.types.shapes import Batch

TRANSLATION_MODELS: dict[str, Callable[[Any], nn.Module]] = dict(ENCODER_DECODERS)
TRANSLATION_SPECIAL_TOKENS = SpecialTokens(BOS, EOS, (PAD, BOS, UNK))
MIN_TRANSLATION_PART_TOKENS = 128  # tokens; for fewer a thread of their own is not worth it
DECODE_BATCH_TOKENS = 8192  # source tokens, padding included, that are answered at once
MIN_DECODE_GROUP = 64  # sources that are worth a thread of their own; fewer are shared by all
DECODE_BATCH_ROWS = 512  # hypotheses at once: of short sources there would be thousands


@dataclass
class PreparedPairs:
    """The pairs of a recipe, ready for training, and how the settings came about."""

    recipe: TranslationRecipe
    vocabulary: TokenizerPair
    pairs: dict[str, SentencePairs]
    encoded: dict[str, EncodedPairs]
    choices: list[Choice] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def fingerprint(self) -> str:
        """A short hash of the training ids."""
        train = self.encoded["train"]
        sides = (train.source, train.target)
        return fingerprint_arrays(*(array for side in sides for array in (side.ids, side.offsets)))


def prepare_pairs(
    recipe: TranslationRecipe,
    on_progress: Progress,
    tokenizers: TokenizerPair | None = None,
    auto_model: bool = False,
) -> PreparedPairs:
    """Read the data, choose what the recipe leaves open, learn the vocabularies, encode.

    With `tokenizers` those of another run are used; with `name_model` the model, too, is open.
    """
    splits = load_pair_splits(
        recipe.data, lambda done, total: on_progress("reading the data", done, total)
    )
    facts = pair_stats(splits.pairs["train"])
    if auto_model:
        recipe = recipe.with_values(model={"name": choose_model(facts)})
    recipe, choices = auto_configure(recipe, facts)
    others = tokenizers is not None
    if tokenizers is None:
        on_progress("learning the vocabulary", 0, 0)
        tokenizers = train_tokenizers(
            recipe.data.tokenizer, splits.pairs["train"], recipe.data.whitespace
        )
    notes = list(splits.notes)
    encoded = {}
    done, total = 0, 2 * sum(map(len, splits.pairs.values()))

    def more(texts: int) -> None:
        nonlocal done
        done += texts
        on_progress("encoding", done, total)

    for split, pairs in splits.pairs.items():
        whole = encode_pairs(pairs, tokenizers.source, tokenizers.target, more)
        encoded[split], left_out = drop_too_long(whole, recipe.data)
        splits.pairs[split] = _same(pairs, encoded[split], recipe)
        notes += left_out
    if others:
        train = encoded["train"]
        notes += unknown_token_note(train.name, train.source.ids, train.target.ids)
    data = recipe.data.model_dump(exclude_unset=True)
    if "max_new_tokens" not in data:
        data["max_new_tokens"] = 10 + int(1.2 * encoded["train"].target.lengths.max())
    sizes = {
        "source_vocab_size": tokenizers.source.vocab_size,
        "target_vocab_size": tokenizers.target.vocab_size,
    }
    if recipe.model.name == "transformer":
        sizes["shared_vocab"] = tokenizers.shared
    model = recipe.model.model_dump(exclude_unset=True) | sizes
    recipe = recipe.with_values(data=data, model=model)
    return PreparedPairs(recipe, tokenizers, splits.pairs, encoded, choices, notes)


def _same(pairs: SentencePairs, encoded: EncodedPairs, recipe: TranslationRecipe) -> SentencePairs:
    """The pairs that are left once those that are too long are left out."""
    if not len(encoded):
        raise DataError(
            f"{pairs.name}: each of its {len(pairs)} pairs has a side of more than "
            f"{recipe.data.max_length} tokens, so none is left. Raise data.max_length."
        )
    if len(encoded) == len(pairs):
        return pairs
    return pairs.take(np.flatnonzero(np.isin(pairs.lines, encoded.lines)))


class TranslationTask(TrainableTask):
    """A model, its vocabularies and, where they are needed, its pairs."""

    def __init__(self, recipe: TranslationRecipe, tokenizers: TokenizerPair):
        super().__init__(recipe, lambda: TRANSLATION_MODELS[recipe.model.name](recipe.model))
        self.tokenizers = tokenizers
        self.pairs: dict[str, SentencePairs] = {}
        self.encoded: dict[str, EncodedPairs] = {}
        self._steps: Any = None  # what the last search took its steps with

    def attach_data(self, prepared: PreparedPairs) -> None:
        """Hand over the data that training and evaluating need."""
        self.pairs, self.encoded = dict(prepared.pairs), dict(prepared.encoded)

    def add_split(self, name: str, pairs: SentencePairs) -> None:
        """More pairs, under a name of their own."""
        whole = encode_pairs(
            pairs, self.tokenizers.source, self.tokenizers.target, lambda more: None
        )
        self.encoded[name], _ = drop_too_long(whole, self.recipe.data)
        self.pairs[name] = _same(pairs, self.encoded[name], self.recipe)

    def load_split(self, path: str | Path) -> str:
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
            plan = BatchPlan(encoded, self.recipe.train.batch_tokens)
            yield from training_batches(encoded, plan, self.recipe.train.seed, start)
        else:
            yield from islice(self._once(split), start, None)

    def batches_in_epoch(self) -> int:
        """How many batches have all the training pairs once."""
        return len(BatchPlan(self.encoded["train"], self.recipe.train.batch_tokens))

    def _once(self, split: str) -> Iterator[Batch]:
        """Every pair of a split once, the training pairs too."""
        encoded = self.encoded[split]
        plan = BatchPlan(encoded, self.recipe.train.batch_tokens)
        for index in range(len(plan)):
            yield encoded.batch(plan.rows(index))

    def loss(self, batch: Batch) -> Loss:
        """Summed over the real target tokens; padding never reaches the output projection."""
        self._steps = None  # the weights are about to change
        return self._loss(batch, self.recipe.train.label_smoothing)

    def _loss(self, batch: Batch, label_smoothing: float) -> Loss:
        batch = _moved(batch, self.device)
        model: Any = self.model
        hidden = self.hidden(batch)
        return Loss(
            *linear_cross_entropy(
                hidden, model.output_layer, batch.target_out, label_smoothing, batch.weights
            )
        )

    def split_batch(self, batch: Batch, limit: int) -> list[Batch]:
        """The rows in as many parts as have something to do."""
        count = max(1, min(limit, batch.tokens // MIN_TRANSLATION_PART_TOKENS, len(batch.lines)))
        cuts = [len(batch.lines) * position // count for position in range(count + 1)]
        return [slice_batch(batch, *ends) for ends in pairwise(cuts)] if count > 1 else [batch]

    def compile(self) -> None:
        """Let torch.compile make kernels for this model, for batches of any shape."""
        self.hidden = torch.compile(self.hidden, dynamic=True)  # type: ignore[method-assign]

    def hidden(self, batch: Batch) -> Float[Tensor, "N D"]:
        """What stands before the words at the real target places, each after those before it."""
        model: Any = self.model
        state = model.init_state(model.encode(batch.source, batch.source_lengths))
        hidden, _ = model.decode_hidden(batch.target_in, state)
        hidden = hidden.flatten(0, 1)
        if batch.target_positions is not None:
            hidden = hidden.index_select(0, batch.target_positions)
        return model.pre_logits(hidden)

    def describe_batch(self, batch: Batch) -> str:
        """The lines a batch came from."""
        shown = ", ".join(map(str, batch.lines[:5]))
        more = f" and {len(batch.lines) - 5} more" if len(batch.lines) > 5 else ""
        return f"{self.encoded['train'].name}, lines {shown}{more}"

    # --- scores ----------------------------------------------------------------------------

    def evaluate_with_conventions(
        self,
        split: str,
        limit: int | None = None,
        on_progress: Callable[[int], None] = lambda more: None,
        *,
        beam: int = 1,
    ) -> Evaluation:
        """Loss and scores of the answers to at most so many of the sources.

        The sources that are answered are spread evenly over the split; the loss is of all of it.
        """
        pairs = self.pairs[split]
        count = len(pairs) if limit is None else min(limit, len(pairs))
        rows = np.unique(np.linspace(0, len(pairs) - 1, count).astype(np.int64))
        answers = self.predict(list(pairs.sources(rows)), beam=beam, on_progress=on_progress)
        texts, references = [a.text for a in answers], list(pairs.targets(rows))
        figures, conventions = score_translations(texts, references, lower=limit is None)
        # of single words ROUGE says what exact says; it takes too long to be a figure of training
        if limit is None and max(len(text.split()) for text in references) > 1:
            shared = rouge(texts, references, str.split)
            figures |= {name: value.f1 for name, value in shared.items()}
            conventions |= dict.fromkeys(shared, "F, words between spaces, no stemming, mean")
        return self.mean_loss(split) | figures, {
            "loss": LOSS_CONVENTION,
            "perplexity": LOSS_CONVENTION,
        } | conventions

    @torch.no_grad()
    def mean_loss(self, split: str) -> dict[str, float]:
        """Cross-entropy per target token, and e to the power of it."""
        self.model.eval()
        total, tokens = 0.0, 0
        for batch in self._once(split):
            total += float(self._loss(batch, label_smoothing=0.0).total)
            tokens += batch.tokens
        loss = total / tokens
        return {"loss": loss, "perplexity": math.exp(min(loss, 700.0))}

    def selection_score(self, scores: dict[str, float]) -> float:
        """chrF decides which weights are best; among equals, the lower loss."""
        return scores["chrf"] - 1e-3 * scores["loss"]

    # --- answers ---------------------------------------------------------------------------

    def predict(
        self,
        sources: Sequence[str],
        *,
        first: int = 1,
        on_progress: Callable[[int], None] = lambda more: None,
        **how: Any,
    ) -> list[Prediction]:
        """An answer to each source, in order. An empty source has an empty answer.

        `how` is that of `searching.Search`. A message about the sources counts them from `first`.
        """
        wanted = parse_decoding(how, DecodingConfig)
        self.model.eval()
        encoded = self.tokenizers.source.encode_many(list(sources))
        self._check_lengths(encoded, first)
        found: list[Prediction] = [Prediction("", 0.0, 0.0, True)] * len(encoded)
        asked = [row for row, ids in enumerate(encoded) if ids]
        on_progress(len(encoded) - len(asked))
        for row, several in self._answers(asked, encoded, wanted, first):
            best, *alternatives = [self._prediction(answer) for answer in several]
            found[row] = best._replace(alternatives=tuple(alternatives))
            on_progress(1)
        return found

    def answers(self, sources: list[list[int]], how: DecodingConfig) -> list[list[Hypothesis]]:
        """What a search finds for each source that is given as ids, in order."""
        rows = list(range(len(sources)))
        found = dict(self._answers(rows, sources, how, first=1))
        return [found[row] for row in rows]

    def _answers(
        self, rows: list[int], encoded: list[list[int]], how: DecodingConfig, first: int
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Rows with their answers, in no order; groups of like length side by side."""
        limit = max(1, DECODE_BATCH_ROWS // how.beam)
        # for a group each, cores need not wait for one another
        for_each = math.ceil(len(rows) / torch.get_num_threads())
        if MIN_DECODE_GROUP <= for_each < limit:
            limit = for_each
        groups = list(group_by_length(rows, encoded, DECODE_BATCH_TOKENS, limit))
        with torch.inference_mode():  # made once, and not by each of those side by side
            steps = self._steps = fused_decoder(self.model, self._steps)

        def answered(group: list[int]) -> list[list[Hypothesis]]:
            sources = [encoded[row] for row in group]
            return self._search(steps, sources, how, [first + row for row in group])

        # coverage looks at the model's attention, which two cannot do at once
        each = map(answered, groups) if how.coverage else thread_map(answered, groups)
        for group, answers in zip(groups, each, strict=True):
            yield from zip(group, answers, strict=True)

    @property
    def max_length(self) -> int:
        """The most tokens of a source; after learned positions there is none for the end mark."""
        return min(self.recipe.data.max_length, self._places - 1)

    @property
    def _places(self) -> int:
        """How many the model can tell apart."""
        model = self.recipe.model
        is_learned = getattr(model, "positions", None) == "learned"
        return int(model.max_positions) if is_learned else sys.maxsize

    def truncate(self, source: str) -> str:
        """The source, or the longest beginning of it that the model takes."""
        return truncate_text(source, self.tokenizers.source, self.max_length)

    def _check_lengths(self, encoded: list[list[int]], first: int = 1) -> None:
        max_length = self.max_length
        over = [
            f"{number} ({len(ids):,} tokens)"
            for number, ids in enumerate(encoded, first)
            if len(ids) > max_length
        ]
        if over:
            raise DataError(
                f"input {', '.join(over[:5])}{' …' if len(over) > 5 else ''} is longer than the "
                f"{max_length} tokens this model takes. Cut it into sentences, or train with a larger "
                "data.max_length."
            )

    def _search(
        self, steps: Any, sources: list[list[int]], how: DecodingConfig, numbers: list[int]
    ) -> list[list[Hypothesis]]:
        ids, lengths = self._padded(sources)
        # read again, an answer stands behind the begin mark
        limit = max(1, min(self.recipe.data.max_new_tokens, self._places - 1))
        max_lengths = torch.full((len(sources),), limit, device=self.device)
        with torch.inference_mode():  # which is less work than no_grad for every small operation
            return run_decoding(
                steps,
                lambda: steps.encode(ids, lengths),
                how,
                special_tokens=TRANSLATION_SPECIAL_TOKENS,
                max_lengths=max_lengths,
                numbers=numbers,
                weights=lambda row, answer: self._looked(sources[row], answer),
            )

    def _looked(self, source: list[int], answer: Hypothesis) -> Tensor:
        """The attention to the source as an answer is written, the mean of all layers and heads."""
        ids, _ = self._padded([source])
        written = [*answer.ids, EOS] if answer.finished else answer.ids
        seen = self._watched(ids, [BOS, *written[:-1]])
        tables = [
            seen.weights(n)[0].mean(0)
            for n in seen.names()
            if parse_attention_name(n)[0] == "cross"
        ]
        if not tables:
            raise ConfigError(
                f"{self.recipe.model.name} has no attention, so there is no coverage to judge by."
            )
        return torch.stack(tables).mean(0)

    def _watched(self, source: Tensor, target: list[int]) -> AttentionRecorder:
        """What is seen of the attention as a target is read in one eager pass."""
        model: Any = self.model
        with torch.no_grad(), capture_attention(self.model) as seen:
            model.decode_hidden(
                torch.tensor([target], device=self.device),
                model.init_state(model.encode(source, None)),
            )
        return seen

    def _padded(self, sources: list[list[int]]) -> tuple[Tensor, Tensor | None]:
        lengths = [len(ids) + 1 for ids in sources]
        table = torch.full((len(sources), max(lengths)), PAD)
        for row, ids in enumerate(sources):
            table[row, : lengths[row]] = torch.tensor([*ids, EOS])
        if min(lengths) == max(lengths):
            return table.to(self.device), None
        return table.to(self.device), torch.tensor(lengths, device=self.device)

    def _prediction(self, answer: Hypothesis) -> Prediction:
        text = self.tokenizers.target.decode(answer.ids)
        return Prediction(text, answer.score, answer.log_probability, answer.finished)

    # --- laws ------------------------------------------------------------------------------

    def check(self, split: str, count: int) -> Iterator[CheckResult]:
        """Try every law on this very model, with pairs spread evenly over a split."""
        self.model.eval()
        pairs = self.encoded[split]
        rows = np.unique(np.linspace(0, len(pairs) - 1, count).astype(np.int64))
        example = self.example(split, rows)
        limit = min(self.recipe.data.max_new_tokens, example.target.shape[1] + 5)
        vocab_size = self.tokenizers.target.vocab_size
        yield from check_all(
            self.model,
            example,
            TRANSLATION_SPECIAL_TOKENS,
            vocab_size,
            limit,
            fused_decoder(self.model),
        )

    def compare_reloaded(self, other: Any, split: str, count: int) -> CheckResult:
        """Whether the same task, saved and reopened, gives the same logits."""
        example = self.example(split, np.arange(min(count, len(self.encoded[split]))))
        return same_outputs("saved and reopened agree", self.model, other.model, example)

    def example(self, split: str, rows: NDArray[np.int64]) -> CheckExample:
        """Some pairs as the laws take them."""
        encoded = self.encoded[split]
        batch = _moved(encoded.batch(rows), self.device)
        lengths = torch.from_numpy(encoded.source.lengths_of(rows) + 1).to(self.device)
        return CheckExample(batch.source, lengths, batch.target_in)

    # --- maps ------------------------------------------------------------------------------

    def attention_maps(
        self, source: str, answer: str | None = None
    ) -> dict[tuple[str, int, int], AttentionMap]:
        """The attention maps of one answer, by (kind, layer, head), both counted from 1.

        The answer, the model's own unless one is given, is read in one eager pass. A row of a map
        is the token being written, so the last one is the end mark.
        """
        self.model.eval()
        ids = self.tokenizers.source.encode(source)
        self._check_lengths([ids])
        if answer is None:
            written = self.answers([ids], DecodingConfig())[0][0].ids
        else:
            written = self.tokenizers.target.encode(answer)
        if len(written) >= self._places:
            raise DataError(
                f"the answer has {len(written)} tokens; the learned positions of this model end "
                f"at {self._places - 1}. Give a shorter one."
            )
        table, _ = self._padded([ids])
        seen = self._watched(table, [BOS, *written])
        looked_at = self.tokenizers.source.display_tokens([*ids, EOS])
        being_written = self.tokenizers.target.display_tokens([*written, EOS])
        read = self.tokenizers.target.display_tokens([BOS, *written])
        sides = {
            "cross": (being_written, looked_at),
            "encoder": (looked_at, looked_at),
            "decoder": (being_written, read),
        }
        attention_maps = {}
        for name in seen.names():
            kind, layer = parse_attention_name(name)
            rows, columns = sides[kind]
            for head, weights in enumerate(seen.weights(name)[0].float().cpu().numpy(), start=1):
                title = f"{kind} attention, layer {layer}, head {head}"
                attention_maps[kind, layer, head] = AttentionMap(
                    weights, list(rows), list(columns), title
                )
        return attention_maps

    def example_input(self) -> str:
        """A held-out source, to show how a run is asked."""
        return next(iter(self.pairs["test"].sources()))

    def save_plots(self, folder: Path) -> list[str]:
        """The attention of one held-out answer, if the model has any."""
        attention_maps = [
            map_
            for (kind, _, _), map_ in self.attention_maps(self.example_input()).items()
            if kind == "cross"
        ]
        return (
            save_attention_maps(attention_maps, folder / "attention.png") if attention_maps else []
        )


def parse_attention_name(name: str) -> tuple[str, int]:
    """What an attention of a translator is for, and its layer, from where it is in the model."""
    layer = next((int(part) + 1 for part in name.split(".") if part.isdigit()), 1)
    if name.startswith("encoder"):
        return "encoder", layer
    return ("decoder" if "self_attention" in name else "cross"), layer


LOSS_CONVENTION = "per target token of this run's vocabulary, end mark included, no smoothing"


def score_translations(
    answers: list[str], references: list[str], lower: bool = False
) -> tuple[dict[str, float], dict[str, str]]:
    """exact and the taught BLEU from 0 to 1, BLEU and chrF from 0 to 100; and their conventions.

    With `lower` BLEU and chrF are given in lower case too.
    """
    words = [text.split() for text in answers], [text.split() for text in references]
    evaluate_with_conventions = {"bleu": bleu(answers, references)}
    if lower:
        evaluate_with_conventions["bleu_lower"] = bleu(answers, references, lower=True)
    evaluate_with_conventions["chrf"] = chrf(answers, references)
    if lower:
        evaluate_with_conventions["chrf_lower"] = chrf(answers, references, lower=True)
    figures = {
        "exact": exact_match(answers, references),
        **{name: score.value for name, score in evaluate_with_conventions.items()},
        "taught_bleu": textbook_corpus_bleu(*words),
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
            for name, score in evaluate_with_conventions.items()
        },
        "taught_bleu": "weights 1/2^n, n ≤ 4, words between spaces, mean over sentences",
    }
    return figures, conventions


def _moved(batch: Batch, device: torch.device) -> Batch:
    if device.type == "cpu":
        return batch
    split_batch: list[Any] = [p.to(device) if isinstance(p, Tensor) else p for p in batch]
    return Batch(*split_batch)


TRANSLATE = TaskSpec(
    TranslationRecipe,
    TRANSLATION_MODELS,
    SYNTHETIC_PAIRS,
    PAIR_DATASETS,
    ignore_scratch_dir(prepare_pairs),
    TranslationTask,
    TokenizerPair.from_json,
    transferable_data_settings=("tokenizer",),
)
