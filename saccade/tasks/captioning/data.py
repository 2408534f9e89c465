"""Images with captions: opened, decoded once, divided, tokenized, and the settings that follow."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from saccade.config import Config, override_settings
from saccade.data.batching import Ragged, encode_ragged
from saccade.data.datasets import CAPTION_DATASETS
from saccade.data.images.captions import (
    SYNTHETIC_CAPTIONS,
    CaptionedImages,
    caption_words,
    open_captions,
    open_published_captions,
)
from saccade.data.images.config import CaptionsConfig, FitName
from saccade.data.images.decode import ImageForm
from saccade.data.images.published import combine_splits
from saccade.data.images.scenes import Region
from saccade.data.images.store import (
    IMAGE_INDEX_FILE,
    DecodedImages,
    StoredImages,
    pixels_checksum,
    read_stored_images,
    write_image_index,
)
from saccade.data.images.transform import channel_statistics, check_pixels
from saccade.data.samplers import evenly_spaced_rows
from saccade.data.source import DatasetSource, PathSource, SyntheticSource, resolve_source
from saccade.data.special_tokens import BOS, EOS
from saccade.data.split_keys import refuse_division
from saccade.data.splits import SPLIT_NAMES, TRAIN, SplitArray
from saccade.data.tables.csv import pluralise
from saccade.data.tokenizers import Vocabulary, WordTokenizer
from saccade.io.atomic import corrupt_file_error, read_checksummed_json, write_checksummed_json
from saccade.io.documents import parse_structure
from saccade.io.id_files import stored_or_none
from saccade.tasks.base import (
    Choice,
    PrepareContext,
    PreparedData,
    fingerprint_arrays,
    role_choices,
)
from saccade.tasks.captioning.config import CaptionRecipe
from saccade.tasks.image_classification.data import (
    choose_image_form,
    decode_source,
    divide_images,
    length_choices,
    report_unreadable,
)
from saccade.types.arrays import ByteArray, IntArray
from saccade.types.progress import ignore_progress
from saccade.types.shapes import Batch, Images

CAPTIONS_FILE = "captions.json"
SEEN_CAPTIONS = 200_000  # of all epochs, unless that is very few or many epochs
MIN_EPOCHS, MAX_EPOCHS = 10, 30
LENGTH_FACTOR, LENGTH_MARGIN = 1.2, 5  # of the longest training caption, for the limit in words


class CaptionTransform(NamedTuple):
    """The preprocessor: form and statistics of the pixels, and the words."""

    words: list[str]
    size: int
    channels: int
    fit: FitName
    mean: list[float]  # of each channel, of values from 0 to 1
    deviation: list[float]

    @property
    def form(self) -> ImageForm:
        """The form in which images are decoded."""
        return ImageForm(self.size, self.channels, self.fit)

    @property
    def tokenizer(self) -> WordTokenizer:
        """The tokenizer of captions."""
        return WordTokenizer(self.words)

    def model_sizes(self) -> dict[str, int]:
        """Return the settings of a network that follow from the data."""
        return {
            "vocab_size": self.tokenizer.vocab_size,
            "channels": self.channels,
            "image_size": self.size,
        }

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return self._asdict()

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "CaptionTransform":
        """Rebuild the preprocessor from plain values."""
        found: CaptionTransform = parse_structure(cls, values)
        if not found.words or len({*found.words}) < len(found.words) or not all(found.words):
            raise ValueError("got no words, an empty one, or one twice")
        check_pixels(found.form, found.mean, found.deviation)
        return found


@dataclass(frozen=True, eq=False)
class CaptionSplit:
    """Images of a split: rows of the stored pixels, with captions as texts and as token ids."""

    pixels: ByteArray  # (N, Y, X, C) of all splits
    rows: IntArray
    captions: Sequence[tuple[str, ...]]  # of the rows
    names: Sequence[str]  # of the rows
    encoded: Ragged  # all captions, those of an image next to each other
    regions: Sequence[tuple[Region, ...]] | None = None
    is_held_out: bool = True  # False: the training images themselves
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def image_of(self) -> IntArray:
        """The image of each caption, as an index into `rows`."""
        return np.repeat(np.arange(len(self)), [len(texts) for texts in self.captions])

    def pixels_at(self, indices: IntArray) -> ByteArray:
        """Return the pixels of some images, (N, Y, X, C), in memory."""
        return np.asarray(self.pixels[self.rows[indices]])

    def take(self, limit: int | None) -> "CaptionSplit":
        """Return at most `limit` images, evenly spread, with all their captions."""
        if limit is None or limit >= len(self):
            return self
        kept = evenly_spaced_rows(len(self), limit)
        captions = np.flatnonzero(np.isin(self.image_of, kept))
        return replace(
            self,
            rows=self.rows[kept],
            captions=[self.captions[row] for row in kept.tolist()],
            names=[self.names[row] for row in kept.tolist()],
            encoded=self.encoded.take(captions),
            regions=None if self.regions is None else [self.regions[r] for r in kept.tolist()],
        )

    def batch(self, captions: IntArray, images: Callable[[IntArray], Images]) -> Batch:
        """Return some captions with their images, which `images` makes of indices of `rows`."""
        table = self.encoded.padded(captions, prefix=(BOS,), suffix=(EOS,))
        steps = self.encoded.lengths_of(captions) + 1
        real = np.flatnonzero(np.arange(int(steps.max())) < steps[:, None])
        is_full = len(real) == len(captions) * int(steps.max())
        target = np.ascontiguousarray(table[:, 1:]).reshape(-1)[real]
        return Batch(
            source=images(self.image_of[captions]),
            source_lengths=None,
            target_in=torch.from_numpy(np.ascontiguousarray(table[:, :-1])),
            target_out=torch.from_numpy(target),
            target_positions=None if is_full else torch.from_numpy(real),
            weights=None,
            lines=tuple(self.image_of[captions].tolist()),
        )


PreparedCaptions = PreparedData[CaptionRecipe, CaptionTransform, CaptionSplit]


class StoredCaptions(NamedTuple):
    """Decoded images with the captions and regions of each."""

    images: StoredImages
    captions: Sequence[tuple[str, ...]]
    regions: Sequence[tuple[Region, ...]] | None


class _CaptionIndex(Config):
    """Contents of captions.json."""

    captions: list[tuple[str, ...]]
    regions: list[tuple[Region, ...]] | None = None


def prepare_captions(
    recipe: CaptionRecipe, context: PrepareContext[CaptionTransform]
) -> PreparedCaptions:
    """Open the images, decode them into the scratch folder or memory, and divide them.

    If the folder has the images of an earlier session, they are read from there.
    """
    folder, transform = context.scratch_dir, context.preprocessor
    if folder is not None and transform is not None and (folder / IMAGE_INDEX_FILE).exists():
        kept = stored_or_none(partial(read_stored_captions, folder, transform.form))
        if kept is not None:
            return _prepared(recipe, transform, kept, [], [])
    context.on_progress("opening the images", 0, None)
    captioned = _open(recipe.data)
    images = captioned.images
    choices = role_choices(images.choices)
    recipe = recipe.with_values(data=recipe.data.model_dump(exclude_unset=True) | images.columns)
    if transform is None:
        form, size_choice = choose_image_form(images, recipe.model, recipe.data)
        choices += size_choice
    else:
        form = transform.form
    decoded = decode_source(images, form, recipe.data, folder, context.on_progress)
    notes = [*images.notes, *report_unreadable(images, decoded, recipe.data)]
    splits, more = divide_images(images, decoded, recipe.data)
    stored = _store(captioned, decoded, splits)
    if folder is not None:
        write_image_index(folder, stored.images)
        index = {"captions": stored.captions, "regions": stored.regions}
        write_checksummed_json(folder / CAPTIONS_FILE, index)
    transform = transform or _fit_transform(recipe, stored, form)
    prepared = _prepared(recipe, transform, stored, choices, [*notes, *more])
    train = prepared.splits["train"]
    prepared.notes.append(
        f"{pluralise(len(train), 'training image')} with "
        f"{pluralise(len(train.encoded), 'caption')}, "
        f"{pluralise(len(transform.words), 'word')}."
    )
    for name in SPLIT_NAMES[1:]:
        if not prepared.splits[name].is_held_out:
            note = f"No images are held out for {name}: the training images are used."
            prepared.notes.append(note)
    return prepared


def _prepared(
    recipe: CaptionRecipe,
    transform: CaptionTransform,
    stored: StoredCaptions,
    choices: list[Choice],
    notes: list[str],
) -> PreparedCaptions:
    """Return the splits of stored images, with the settings that follow from them."""
    train = _split(stored, transform, TRAIN)
    splits = {"train": replace(train, is_held_out=False)}
    for number, name in enumerate(SPLIT_NAMES[1:], 1):
        found = _split(stored, transform, number)
        splits[name] = found if len(found) else splits["train"]
    data = recipe.data.model_dump(exclude_unset=True)
    longest = int(train.encoded.lengths.max())
    data.setdefault("max_new_tokens", LENGTH_MARGIN + int(LENGTH_FACTOR * longest))
    model = recipe.model.model_dump(exclude_unset=True) | transform.model_sizes()
    recipe = recipe.with_values(data=data, model=model)
    captions = len(train.encoded)
    epochs = int(np.clip(SEEN_CAPTIONS // captions, MIN_EPOCHS, MAX_EPOCHS))
    more = length_choices(recipe.train, captions, epochs, "captions")
    recipe = override_settings(recipe, {choice.path: choice.value for choice in more})

    def fingerprint() -> str:
        checksum = np.array([pixels_checksum(stored.images.pixels)], np.int64)
        ids = train.encoded.ids, train.encoded.offsets
        return fingerprint_arrays(checksum, stored.images.splits, *ids)

    return PreparedData(recipe, transform, splits, fingerprint, [*choices, *more], notes)


def _split(stored: StoredCaptions, transform: CaptionTransform, number: int) -> CaptionSplit:
    rows = np.flatnonzero(stored.images.splits == number)
    return _make_split(stored, transform, rows)


def _make_split(
    stored: StoredCaptions, transform: CaptionTransform, rows: IntArray
) -> CaptionSplit:
    captions = [stored.captions[row] for row in rows.tolist()]
    texts = (text for of_image in captions for text in of_image)
    encoded = encode_ragged(transform.tokenizer, texts, lambda count: None)
    regions = stored.regions
    return CaptionSplit(
        stored.images.pixels,
        rows,
        captions,
        [stored.images.names[row] for row in rows.tolist()],
        encoded,
        None if regions is None else [regions[row] for row in rows.tolist()],
    )


# --- reading --------------------------------------------------------------------------------------


def _open(data: CaptionsConfig) -> CaptionedImages:
    """Open the source, and the held-out sources that are given."""
    source = resolve_source(data, SYNTHETIC_CAPTIONS, CAPTION_DATASETS, what="set of captions")
    if not isinstance(source, PathSource):
        refuse_division(data, source.name)
    if isinstance(source, SyntheticSource):
        captioned = source.generate(data.size)
    elif isinstance(source, DatasetSource):
        captioned = open_published_captions(source.dataset)
    else:
        captioned = open_captions(source.path, data)
    given = {
        name: open_captions(path, data, is_other=True)
        for name in SPLIT_NAMES[1:]
        if (path := getattr(data, name)) is not None
    }
    if not given:
        return captioned
    parts = {"train": captioned, **given}
    images = combine_splits(
        captioned.images.name, {name: part.images for name, part in parts.items()}
    )
    return CaptionedImages(images, [texts for part in parts.values() for texts in part.captions])


def _store(
    captioned: CaptionedImages, decoded: DecodedImages, splits: SplitArray
) -> StoredCaptions:
    rows = decoded.rows.tolist()
    names = [captioned.images.names[row] for row in rows]
    no_classes = np.full(len(rows), -1, np.int64)
    regions = captioned.regions
    return StoredCaptions(
        StoredImages(decoded.pixels, no_classes, splits, names),
        [captioned.captions[row] for row in rows],
        None if regions is None else [regions[row] for row in rows],
    )


def read_stored_captions(folder: Path, form: ImageForm) -> StoredCaptions:
    """Return the images and captions of a folder; RunError if a file of them is damaged."""
    images = read_stored_images(folder, form, 0)
    values = read_checksummed_json(folder / CAPTIONS_FILE)
    try:
        index: _CaptionIndex = parse_structure(_CaptionIndex, values)
        if not len(images.names) == len(index.captions) == len(index.regions or index.captions):
            raise ValueError("got lists of different lengths")
        if not all(map(all, index.captions)) or not all(index.captions):
            raise ValueError("got an image without a caption")
    except (TypeError, ValueError) as error:
        reason = f"it has another structure ({error})"
        raise corrupt_file_error(folder / CAPTIONS_FILE, reason) from None
    return StoredCaptions(images, index.captions, index.regions)


def _fit_transform(
    recipe: CaptionRecipe, stored: StoredCaptions, form: ImageForm
) -> CaptionTransform:
    """Return the words of the training captions and the statistics of the training images."""
    rows = np.flatnonzero(stored.images.splits == TRAIN)
    captions = [text for row in rows.tolist() for text in stored.captions[row]]
    counts = Counter(word for text in captions for word in caption_words(text))
    words = Vocabulary.from_counts(counts, recipe.data.min_count).tokens
    words = words or Vocabulary.from_counts(counts).tokens  # a handful of captions
    expected = recipe.model.pretrained_images
    if expected:
        mean, deviation = [expected.mean] * form.channels, [expected.deviation] * form.channels
    else:
        mean, deviation = channel_statistics(stored.images.pixels, rows)
    return CaptionTransform(list(words), *form, mean=mean, deviation=deviation)


def load_captions(
    recipe: CaptionRecipe, transform: CaptionTransform, source: str | Path | object
) -> CaptionSplit:
    """Read other images with captions."""
    captioned = open_captions(source, recipe.data, is_other=True)
    images = captioned.images
    decoded = decode_source(images, transform.form, recipe.data, None, ignore_progress)
    notes = [*images.notes, *report_unreadable(images, decoded, recipe.data)]
    stored = _store(captioned, decoded, np.full(len(decoded.rows), TRAIN, np.int8))
    split = _make_split(stored, transform, np.arange(len(decoded.rows)))
    return replace(split, notes=tuple(notes))
