"""Labelled texts: read, split by hash, and the settings that follow from them."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from saccade.config import override_settings
from saccade.data.source import SyntheticSource, resolve_source
from saccade.data.split_keys import (
    describe_division,
    dev_without_test,
    divide_rows,
    read_split_cells,
)
from saccade.data.splits import SPLIT_NAMES, check_shares, hash_texts, split_by_hash
from saccade.data.text.labelled import (
    LabelledText,
    LabelledTexts,
    check_known_labels,
    describe_several_labels,
    generate_dates_by_language,
    open_labelled_texts,
)
from saccade.data.word_splitting import SPLITTERS
from saccade.errors import DataError
from saccade.registry import import_when_called
from saccade.tasks.base import Choice, PrepareContext, PreparedData, role_choices
from saccade.tasks.text_classification.auto_config import choose_classifier_settings
from saccade.tasks.text_classification.config import PIECE_MODELS, ClassifyRecipe, LabelsConfig
from saccade.tasks.text_classification.texts import (
    LabelVocabulary,
    TextSplit,
    count_words,
    encode_split,
    make_text_encoder,
)

SYNTHETIC_LABELLED_TEXTS: dict[str, Callable[[], Iterator[LabelledText]]] = {
    "languages": generate_dates_by_language
}
CHECK_COVERAGE = import_when_called("saccade.tasks.text_classification.pieces:check_coverage")
RESOLVE_PROMPT = import_when_called("saccade.tasks.text_classification.templates:resolve_prompt")
FIT_WORDPIECE = import_when_called("saccade.data.wordpiece:WordPieceTokenizer.fit")
MIN_TEXTS_PER_LABEL = 2  # on average; with fewer, labels do not repeat
MAX_RARE_LABELS = 10  # labels that may be rarer
MAX_EXAMPLE_LABELS = 5  # that a message names


PreparedTexts = PreparedData[ClassifyRecipe, LabelVocabulary, TextSplit]


def prepare_labelled_texts(
    recipe: ClassifyRecipe, context: PrepareContext[LabelVocabulary]
) -> PreparedTexts:
    """Read the texts, hold some out, choose the open settings, build the vocabulary."""
    context.on_progress("reading the texts", 0, None)
    opened = _read(recipe.data)
    recipe = recipe.with_values(data=recipe.data.model_dump(exclude_unset=True) | opened.columns)
    choices, read = role_choices(opened.choices), list(opened)
    is_fitted = context.preprocessor is not None and bool(context.preprocessor.labels)
    if not is_fitted and "multi_label" not in recipe.data.model_fields_set:
        if reason := describe_several_labels(read):
            choices.append(Choice("data.multi_label", True, reason))
            recipe = override_settings(recipe, {"data.multi_label": True})
            read = list(_read(recipe.data))
    texts, notes = _divide(opened, read, recipe.data)
    if not texts["train"]:
        raise DataError(
            f"got {sum(map(len, texts.values())):,} texts, which are all held out; expected texts "
            "to train on, with different words; try --text COLUMN --label COLUMN if the columns "
            "are exchanged, or more texts."
        )
    pieces = {} if context.preprocessor is None else context.preprocessor.pieces
    vocabulary = context.preprocessor if is_fitted else None
    if vocabulary is None:
        vocabulary = LabelVocabulary([], *count_labels(texts["train"]), pieces)
    if recipe.model_name in PIECE_MODELS and not pieces:
        vocabulary = vocabulary._replace(pieces=fit_pieces(texts["train"]))
    check_labels(vocabulary, len(texts["train"]))
    check_words(texts["train"], recipe.data.split)
    if recipe.model_name == "prompt":
        recipe = RESOLVE_PROMPT(recipe, vocabulary)
        if context.preprocessor is None:
            notes.append("No --init-from: the masked language model is not pretrained.")
    notes.append(f"{len(texts['train']):,} training texts, {len(vocabulary.labels):,} labels.")
    for name in SPLIT_NAMES[1:]:
        if not texts[name]:  # few texts, or a share of 0
            notes.append(f"No texts are held out for {name}: the training texts are used.")
    splits = encode_splits(texts, vocabulary, recipe)
    if vocabulary.pieces:
        source = "the run to start from" if pieces else "this run"
        notes += CHECK_COVERAGE(splits["train"], source)
    if not is_fitted:
        recipe, chosen, more = choose_classifier_settings(recipe, vocabulary, splits, context)
        choices, notes = [*choices, *chosen], [*notes, *more]
        if recipe.model_name not in ("ngrams", *PIECE_MODELS):
            words = count_words(splits["train"].texts, recipe.data)
            vocabulary = vocabulary._replace(words=words)
            splits = encode_splits(texts, vocabulary, recipe)
            notes.append(f"{len(words):,} different words.")
    if recipe.is_network:
        model = recipe.model.model_dump(exclude_unset=True) | vocabulary.model_sizes()
        recipe = recipe.with_values(model=model)
    return PreparedData(
        recipe, vocabulary, splits, splits["train"].fingerprint, choices=choices, notes=notes
    )


def _read(data: LabelsConfig) -> LabelledTexts:
    source = resolve_source(data, SYNTHETIC_LABELLED_TEXTS, what="set of labelled texts")
    if isinstance(source, SyntheticSource):
        return LabelledTexts(source.generate)
    return open_labelled_texts(source.name, data, data.multi_label)


def _divide(
    opened: LabelledTexts, texts: Sequence[LabelledText], data: LabelsConfig
) -> tuple[dict[str, list[LabelledText]], list[str]]:
    """Return the texts of each split, divided by the settings or else by hash, and notes."""
    check_shares(data.dev_share, data.test_share)
    given = {
        name: list(open_labelled_texts(path, data, data.multi_label, is_other=True))
        for name in SPLIT_NAMES[1:]
        if (path := getattr(data, name)) is not None
    }
    notes = list(opened.notes)
    hashes = hash_texts(text.text.encode() for text in texts)
    held_out = {name: hash_texts(t.text.encode() for t in part) for name, part in given.items()}
    kept = dev_without_test(held_out)
    if kept.rows is not None:
        given["dev"] = [given["dev"][row] for row in kept.rows.tolist()]
        notes += kept.notes
    if given or describe_division(data):
        division = divide_rows(
            data,
            hashes,
            read_split_cells(opened.records, data, opened.row_numbers()),
            [",".join(text.labels) for text in texts],
            held_out,
        )
        numbers, notes = division.splits, [*notes, *division.notes]
    else:
        numbers = split_by_hash(hashes, data.dev_share, data.test_share)
    found = {name: list(given.get(name, ())) for name in SPLIT_NAMES}
    for text, number in zip(texts, numbers.tolist(), strict=True):
        if number >= 0:  # not left out
            found[SPLIT_NAMES[number]].append(text)
    return found, notes


def count_labels(texts: Iterable[LabelledText]) -> tuple[list[str], list[int]]:
    """Return the labels, most frequent first, and their counts."""
    counts = Counter(label for text in texts for label in text.labels)
    order = sorted(counts, key=lambda label: (-counts[label], label))
    return order, [counts[label] for label in order]


def check_labels(vocabulary: LabelVocabulary, num_texts: int) -> None:
    """Raise a DataError for labels that cannot be learned: one label, or one for each text."""
    labels = vocabulary.labels
    if len(labels) < 2:
        raise DataError(
            f"got the same label ({', '.join(labels)}) for all {num_texts:,} texts; expected two "
            "labels or more."
        )
    if len(labels) > MAX_RARE_LABELS and sum(vocabulary.met) < MIN_TEXTS_PER_LABEL * len(labels):
        listed = ", ".join(repr(label[:40]) for label in labels[:MAX_EXAMPLE_LABELS])
        raise DataError(
            f"got {len(labels):,} different labels ({listed}, …) for {num_texts:,} texts; expected "
            "labels that repeat. If the columns are exchanged, or another one has the labels, try "
            "--text COLUMN --label COLUMN; to generate texts from texts, try saccade train "
            "translate."
        )


def check_words(texts: Sequence[LabelledText], split: str) -> None:
    """Raise a DataError if no text has a word."""
    if not any(SPLITTERS[split](text.text) for text in texts):
        raise DataError(f"got {len(texts):,} texts of 0 words; expected texts with words.")


def fit_pieces(texts: Iterable[LabelledText]) -> dict[str, Any]:
    """Return a WordPiece tokenizer that is fitted to texts, as plain values."""
    fitted: dict[str, Any] = FIT_WORDPIECE(text.text for text in texts).to_json()
    return fitted


def encode_splits(
    texts: Mapping[str, Sequence[LabelledText]],
    vocabulary: LabelVocabulary,
    recipe: ClassifyRecipe,
) -> dict[str, TextSplit]:
    """Return the splits; one without texts is that of training."""
    encoder = make_text_encoder(recipe, vocabulary)
    train = encode_split(texts["train"], vocabulary, encoder, is_held_out=False)
    return {
        name: encode_split(texts[name], vocabulary, encoder)
        if texts[name] and name != "train"
        else train
        for name in SPLIT_NAMES
    }


def load_texts(
    recipe: ClassifyRecipe, vocabulary: LabelVocabulary, source: str | Path | object
) -> TextSplit:
    """Read labelled texts; `DataError` if the classifier knows none of their labels."""
    data = recipe.data
    opened = open_labelled_texts(source, data, data.multi_label, is_other=True)
    texts, name = list(opened), str(source) if opened.records is None else opened.records.name
    check_known_labels(texts, vocabulary.labels, name)
    return encode_split(texts, vocabulary, make_text_encoder(recipe, vocabulary))
