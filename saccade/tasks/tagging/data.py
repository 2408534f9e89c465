"""Tagged sentences: read, divide, and the settings that follow from them. No torch."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from saccade.config import flatten, override_settings
from saccade.data.datasets import TAGGED_DATASETS, fetch_dataset
from saccade.data.hashing import HashArray
from saccade.data.source import DatasetSource, PathSource, SyntheticSource, resolve_source
from saccade.data.special_tokens import UNK
from saccade.data.split_keys import Division, dev_without_test, refuse_division, without_given
from saccade.data.splits import SPLIT_NAMES, check_shares, hash_texts, split_by_hash
from saccade.data.tagging.config import TaggedTextConfig
from saccade.data.tagging.readers import read_tagged
from saccade.data.tagging.schemes import TaggedSentence, has_span_tags
from saccade.data.tagging.synthetic import generate_tagged_sentences
from saccade.data.wordpiece import WordPieceTokenizer
from saccade.errors import ConfigError, DataError
from saccade.models.tagging_config import BertTaggerConfig, WordTaggerConfig
from saccade.tasks.base import Choice, PrepareContext, PreparedData
from saccade.tasks.length import evaluation_choice, warmup_choice
from saccade.tasks.tagging.config import TagRecipe
from saccade.tasks.tagging.sentences import (
    TaggedSplit,
    TagVocabulary,
    WordPieceEncoder,
    make_encoder,
)
from saccade.tasks.tagging.vectors import add_vector_words, read_static_vectors
from saccade.types.progress import Progress

SYNTHETIC_TAGGED = {"names": generate_tagged_sentences}
EPOCH_TOKENS = 1_500_000  # tokens seen in training, within the limits of epochs
MIN_EPOCHS, MAX_EPOCHS = 4, 20
BERT_RATE, BERT_RATE_WIDTH, NEW_BERT_RATE = 3e-5, 768, 5e-4  # narrower models take larger rates
MAX_UNKNOWN_PIECES = 0.2  # of the pieces, above which a vocabulary does not cover a text
MAX_CHECKED_SENTENCES = 1000  # whose pieces are counted for that
MIN_TAGS = 2
MAX_RARE_TAGS = 50  # different tags that may be as many as the tokens

PreparedTags = PreparedData[TagRecipe, TagVocabulary, TaggedSplit]
Sentences = dict[str, list[TaggedSentence]]


def prepare_tagged(recipe: TagRecipe, context: PrepareContext[TagVocabulary]) -> PreparedTags:
    """Read and divide the sentences, build the vocabulary, choose the open settings."""
    context.on_progress("reading the sentences", 0, None)
    sentences, notes = _read_splits(recipe.data, context.on_progress)
    train = sentences["train"]
    if not train:
        raise DataError(
            "got sentences that are all held out; expected some to train on; try more sentences, "
            "or smaller data.dev_share and data.test_share."
        )
    vocabulary = _vocabulary(recipe, train, context.preprocessor)
    _check_tags(vocabulary, train)
    config = recipe.model
    if isinstance(config, WordTaggerConfig) and config.vectors and context.preprocessor is None:
        context.on_progress("reading the word vectors", 0, None)
        recipe, vocabulary, note = _with_vectors(recipe, vocabulary, config.vectors)
        notes.append(note)
    encoder = make_encoder(recipe, vocabulary)
    splits = {
        name: TaggedSplit(some or train, vocabulary, encoder, bool(some) and name != "train")
        for name, some in sentences.items()
    }
    sizes = ", ".join(f"{len(some):,} {name}" for name, some in sentences.items())
    notes.append(f"Sentences: {sizes}; {len(vocabulary.tags)} tags.")
    for name in SPLIT_NAMES[1:]:
        if not sentences[name]:
            notes.append(f"No sentences are held out for {name}: those of training are used.")
    if isinstance(encoder, WordPieceEncoder):
        notes += check_pieces(encoder, splits["train"])
    has_weights = context.preprocessor is not None
    recipe, choices = _choose_length(recipe, splits["train"], has_weights)
    sizes_of_model = vocabulary.model_sizes()
    known = {name for name in type(recipe.model).model_fields if name in sizes_of_model}
    model = recipe.model.model_dump(exclude_unset=True)
    recipe = recipe.with_values(model=model | {name: sizes_of_model[name] for name in known})
    return PreparedData(
        recipe, vocabulary, splits, splits["train"].fingerprint, choices=choices, notes=notes
    )


# --- reading --------------------------------------------------------------------------------------


def _read_splits(data: TaggedTextConfig, on_progress: Progress) -> tuple[Sentences, list[str]]:
    """Return the sentences of each split, and notes for the user."""
    check_shares(data.dev_share, data.test_share)
    source = resolve_source(data, SYNTHETIC_TAGGED, TAGGED_DATASETS, "set of tagged sentences")
    own = {name: getattr(data, name) for name in SPLIT_NAMES[1:] if getattr(data, name)}
    if isinstance(source, DatasetSource):
        refuse_division(data, source.name)
        paths, notes = fetch_dataset(
            source.dataset,
            lambda done, total: on_progress(f"downloading {source.name}", done, total),
        )
        files = {name: str(paths[file]) for name, file in source.dataset.splits.items()} | own
        return {name: read_tagged(files[name], data) for name in SPLIT_NAMES}, notes
    if isinstance(source, SyntheticSource):
        given = source.generate()
    else:
        assert isinstance(source, PathSource)
        given = read_tagged(source.path, data)
    return _divide(given, {name: read_tagged(path, data) for name, path in own.items()}, data)


def _divide(
    sentences: Sequence[TaggedSentence],
    given: Mapping[str, list[TaggedSentence]],
    data: TaggedTextConfig,
) -> tuple[Sentences, list[str]]:
    """Return the splits: held-out files, and parts by the hash of the tokens."""
    hashes = hash_sentences(sentences)
    held_out = {name: hash_sentences(some) for name, some in given.items()}
    kept = dev_without_test(held_out)
    found = {name: list(given.get(name, ())) for name in SPLIT_NAMES}
    if kept.rows is not None:
        found["dev"] = [found["dev"][row] for row in kept.rows.tolist()]
    shares = [0.0 if n in given else getattr(data, f"{n}_share") for n in SPLIT_NAMES[1:]]
    division = without_given(Division(split_by_hash(hashes, *shares), kept.notes), hashes, held_out)
    for sentence, number in zip(sentences, division.splits.tolist(), strict=True):
        if number >= 0:  # not left out
            found[SPLIT_NAMES[number]].append(sentence)
    return found, list(division.notes)


def hash_sentences(sentences: Iterable[TaggedSentence]) -> HashArray:
    """Return the hash of the tokens of each sentence."""
    return hash_texts("\x1f".join(s.tokens).encode(errors="replace") for s in sentences)


def load_tagged(
    recipe: TagRecipe, vocabulary: TagVocabulary, source: str | Path | object
) -> TaggedSplit:
    """Read tagged sentences; `DataError` if the run knows none of their tags."""
    data = recipe.data
    if vocabulary.is_bio and data.scheme == "plain":
        data = data.with_values(scheme="auto")
    split = TaggedSplit(read_tagged(source, data), vocabulary, make_encoder(recipe, vocabulary))
    tags = {tag for sentence in split.sentences for tag in sentence.tags}
    if tags.isdisjoint(vocabulary.tags):
        listed = ", ".join(sorted(tags)[:5])
        raise DataError(
            f"{source}: got the tags {listed}, …, all unknown to the run; expected "
            f"{', '.join(vocabulary.tags[:5])}, …; try another --set data.tag_column=N."
        )
    return split


# --- vocabulary -----------------------------------------------------------------------------------


def _vocabulary(
    recipe: TagRecipe, train: Sequence[TaggedSentence], given: TagVocabulary | None
) -> TagVocabulary:
    """Return the vocabulary of another run, of the same task or of an encoder, or a new one."""
    if given is not None and given.tags:
        return given
    found = tag_vocabulary(train, recipe.data)
    if given is not None and given.pieces:
        return found._replace(words=[], pieces=given.pieces)
    if not isinstance(recipe.model, BertTaggerConfig):
        return found
    texts = (" ".join(sentence.tokens) for sentence in train)
    return found._replace(words=[], pieces=WordPieceTokenizer.fit(texts).to_json())


def check_pieces(encoder: WordPieceEncoder, train: TaggedSplit) -> list[str]:
    """Return notes on unknown tokens; DataError if the vocabulary does not cover the text."""
    pieces = encoder.encode([s.tokens for s in train.take(MAX_CHECKED_SENTENCES).sentences]).ids
    share = float((pieces.rows == UNK).mean())
    if share > MAX_UNKNOWN_PIECES:
        raise DataError(
            f"got sentences {share:.0%} of whose pieces are not in the vocabulary of the encoder; "
            f"expected at most {MAX_UNKNOWN_PIECES:.0%}: it was made for another language or "
            "script; try a model of the language of the sentences, or train without --init-from."
        )
    longest = int(np.diff(train.table.ids.starts).max())  # type: ignore[union-attr]
    if longest < encoder.max_length:
        return []
    return [f"Sentences of more than {encoder.max_length:,} pieces are truncated."]


def tag_vocabulary(train: Sequence[TaggedSentence], data: TaggedTextConfig) -> TagVocabulary:
    """Return the words that are frequent enough and the tags, the most frequent first."""
    words = Counter(token.lower() for sentence in train for token in sentence.tokens)
    tags = Counter(tag for sentence in train for tag in sentence.tags)
    known = [word for word, count in words.most_common() if count >= data.min_count]
    ordered = sorted(tags, key=lambda tag: (-tags[tag], tag))
    return TagVocabulary(known, ordered, data.scheme != "plain" and has_span_tags(ordered))


def _with_vectors(
    recipe: TagRecipe, vocabulary: TagVocabulary, path: str
) -> tuple[TagRecipe, TagVocabulary, str]:
    """Return the recipe and the vocabulary with the width and the words of a file of vectors."""
    vectors = read_static_vectors(path)
    width = vectors.rows.shape[1]
    words, model = vocabulary.words, recipe.model.model_dump(exclude_unset=True)
    if model.get("word_width", width) != width:
        raise ConfigError(
            f"got model.word_width={model['word_width']} and vectors of {width} numbers "
            f"in {path}; expected "
            "the same; try without model.word_width."
        )
    found = len({*words} & {*vectors.words})
    vocabulary = vocabulary._replace(words=add_vector_words(words, vectors, path))
    note = f"{found:,} of {len(words):,} words of the training data have a vector in {path}."
    return recipe.with_values(model=model | {"word_width": width}), vocabulary, note


def _check_tags(vocabulary: TagVocabulary, train: Sequence[TaggedSentence]) -> None:
    count = len(vocabulary.tags)
    tokens = sum(len(sentence.tokens) for sentence in train)
    if count < MIN_TAGS:
        raise DataError(
            f"got the same tag ({vocabulary.tags[0]}) for all {tokens:,} tokens; expected two or "
            "more; try another --set data.tag_column=N."
        )
    if count > MAX_RARE_TAGS and 2 * count > tokens:
        raise DataError(
            f"got {count:,} different tags of {tokens:,} tokens; expected tags that repeat; try "
            "another --set data.tag_column=N."
        )


def _choose_length(
    recipe: TagRecipe, train: TaggedSplit, has_weights: bool
) -> tuple[TagRecipe, list[Choice]]:
    """Choose the number of steps, warm-up and evaluations, where they are not set."""
    rate = []
    if isinstance(recipe.model, BertTaggerConfig):
        width = recipe.model.width
        value = BERT_RATE * max(1.0, BERT_RATE_WIDTH / width) if has_weights else NEW_BERT_RATE
        reason = f"usual for {'fine-tuning' if has_weights else 'training'} at width {width}"
        rate = [
            Choice("train.learning_rate", float(f"{value:.1g}"), reason),
            Choice("train.schedule", "linear", "usual for BERT"),
        ]
    if recipe.train.minutes is not None:
        return override_settings(recipe, {c.path: c.value for c in rate}), rate
    tokens = int(train.lengths.sum())
    batches = max(1.0, tokens / recipe.train.batch_tokens)
    epochs = float(np.clip(EPOCH_TOKENS / tokens, MIN_EPOCHS, MAX_EPOCHS))
    reason = f"{epochs:.0f} epochs of {tokens:,} tokens"
    choices = [Choice("train.steps", max(1, round(epochs * batches)), reason)]
    steps = recipe.train.steps or choices[0].value
    choices += [warmup_choice(steps), evaluation_choice(steps), *rate]
    given = flatten(recipe, exclude_unset=True)
    choices = [choice for choice in choices if given.get(choice.path) is None]
    return override_settings(recipe, {c.path: c.value for c in choices}), choices
