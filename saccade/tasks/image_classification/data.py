"""Labelled images: opened, decoded once, divided, and the settings that follow from them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np

from saccade.config import override_settings
from saccade.data.datasets import IMAGE_DATASETS
from saccade.data.hashing import HashArray, hash_bytes
from saccade.data.images.config import ImageSourceConfig, LabelledImagesConfig
from saccade.data.images.decode import (
    DecodedImage,
    ImageForm,
    ImageHeader,
    UnreadableImage,
    decode_images,
    read_header,
)
from saccade.data.images.labelled import LabelledImages, printable
from saccade.data.images.published import (
    SYNTHETIC_IMAGES,
    combine_splits,
    open_published_images,
)
from saccade.data.images.readers import natural_key, open_images
from saccade.data.images.store import (
    IMAGE_INDEX_FILE,
    DecodedImages,
    StoredImages,
    collect_images,
    pixels_checksum,
    read_stored_images,
    write_image_index,
)
from saccade.data.images.transform import ImageTransform, channel_statistics, choose_form
from saccade.data.samplers import evenly_spaced_rows
from saccade.data.source import DatasetSource, SyntheticSource, resolve_source
from saccade.data.split_keys import (
    describe_division,
    dev_without_test,
    divide_rows,
    read_split_cells,
)
from saccade.data.splits import (
    LEFT_OUT,
    SPLIT_NAMES,
    TRAIN,
    SplitArray,
    check_shares,
    split_by_class,
)
from saccade.data.tables.csv import pluralise
from saccade.errors import DataError, bullet_list
from saccade.io.id_files import stored_or_none
from saccade.models.caption_config import CaptionerConfig
from saccade.models.image_config import ImageModelConfig
from saccade.tasks.base import (
    Choice,
    PrepareContext,
    PreparedData,
    fingerprint_arrays,
    role_choices,
)
from saccade.tasks.image_classification.config import ImagesRecipe
from saccade.tasks.length import evaluation_choice, warmup_choice
from saccade.training.config import TrainConfig
from saccade.types.arrays import ByteArray, IntArray
from saccade.types.progress import Progress, ignore_progress

HEADER_SAMPLE = 512  # images by whose headers size and channels are chosen
MAX_NAMED_IMAGES = 5  # unreadable ones, in a note
MAX_REFUSED_IMAGES = 20  # in an error
DEFAULT_EPOCHS = 20
MIN_DEFAULT_STEPS, MAX_DEFAULT_STEPS = 300, 20_000


@dataclass(frozen=True, eq=False)
class ImageSplit:
    """Images of a split: rows of the stored pixels, with their classes and names."""

    pixels: ByteArray  # (N, Y, X, C) of all splits
    rows: IntArray
    classes: IntArray  # of the rows; −1: unknown
    names: Sequence[str]  # of the rows
    unknown: Mapping[str, int] = field(default_factory=dict)  # unknown classes: number of images
    is_held_out: bool = True  # False: the training images themselves
    reference: "ImageSplit | None" = None  # training images that these are compared with
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def pixels_at(self, indices: IntArray) -> ByteArray:
        """Return the pixels of some images, (N, Y, X, C), in memory."""
        return np.asarray(self.pixels[self.rows[indices]])

    def take(self, limit: int | None) -> "ImageSplit":
        """Return at most `limit` images, evenly spread: a folder is sorted by class."""
        if limit is None or limit >= len(self):
            return self
        kept = evenly_spaced_rows(len(self), limit)
        return replace(
            self,
            rows=self.rows[kept],
            classes=self.classes[kept],
            names=[self.names[row] for row in kept.tolist()],
        )


PreparedImages = PreparedData[ImagesRecipe, ImageTransform, ImageSplit]


def prepare_images(recipe: ImagesRecipe, context: PrepareContext[ImageTransform]) -> PreparedImages:
    """Open the images, decode them into the scratch folder or memory, and divide them.

    A preprocessor without classes gives size and statistics of the images, and the classes are
    those of the data. If the folder has the images of an earlier session, they are read from there.
    """
    folder, transform = context.scratch_dir, context.preprocessor
    if folder is not None and transform is not None and (folder / IMAGE_INDEX_FILE).exists():
        read = partial(read_stored_images, folder, transform.form, len(transform.labels))
        if (kept := stored_or_none(read)) is not None:
            return _prepared(recipe, transform, kept, [], [])
    context.on_progress("opening the images", 0, None)
    images = _open(recipe)
    choices = role_choices(images.choices)
    data = recipe.data.model_dump(exclude_unset=True) | images.columns
    recipe = recipe.with_values(data=data)
    if transform is None:
        form, size_choice = choose_image_form(images, recipe.model, recipe.data)
        choices += size_choice
    else:
        form = transform.form
    decoded = decode_source(images, form, recipe.data, folder, context.on_progress)
    notes = [*images.notes, *report_unreadable(images, decoded, recipe.data)]
    labels = [images.labels[row] for row in decoded.rows.tolist()]
    splits, more = divide_images(images, decoded, recipe.data, labels)
    if transform is None or not transform.labels:
        counts = _count_labels(images.name, labels, splits, recipe.needs_labels)
        transform = transform or _fit_transform(decoded, splits, form, recipe)
        transform = transform._replace(labels=[*counts], met=[*counts.values()])
    ids = transform.label_ids
    classes = np.array([ids.get(label, -1) for label in labels], np.int64)
    names = [images.names[row] for row in decoded.rows.tolist()]
    stored = StoredImages(decoded.pixels, classes, splits, names)
    if folder is not None:
        write_image_index(folder, stored)
    unknown = Counter(label for label in labels if label not in ids)
    if not recipe.needs_labels:
        unknown.clear()
    prepared = _prepared(recipe, transform, stored, choices, [*notes, *more])
    count = len(prepared.splits["train"])
    known = f", {len(transform.labels):,} classes" if len(transform.labels) > 1 else ""
    prepared.notes.append(f"{count:,} training image{'' if count == 1 else 's'}{known}.")
    for name in SPLIT_NAMES[1:]:
        if not prepared.splits[name].is_held_out:  # few images, or a share of 0
            note = f"No images are held out for {name}: the training images are used."
            prepared.notes.append(note)
    prepared.incompatible += [
        f"{pluralise(count, 'image')} of the class {label!r}, which the run does not know"
        for label, count in unknown.items()
    ]
    return prepared


def _prepared(
    recipe: ImagesRecipe,
    transform: ImageTransform,
    stored: StoredImages,
    choices: list[Choice],
    notes: list[str],
) -> PreparedImages:
    """Return the splits of stored images, with the sizes of the model."""
    train = _split(stored, TRAIN)
    splits = {"train": replace(train, is_held_out=False)}
    for number, name in enumerate(SPLIT_NAMES[1:], 1):
        found = _split(stored, number)
        splits[name] = found if len(found) else splits["train"]
    sizes = transform.model_sizes() if recipe.needs_labels else transform.pixel_sizes()
    recipe = recipe.with_values(model=recipe.model.model_dump(exclude_unset=True) | sizes)
    more = length_choices(recipe.train, len(train), DEFAULT_EPOCHS)
    recipe = override_settings(recipe, {choice.path: choice.value for choice in more})

    def fingerprint() -> str:
        checksum = np.array([pixels_checksum(stored.pixels)], np.int64)
        return fingerprint_arrays(checksum, stored.classes, stored.splits)

    return PreparedData(recipe, transform, splits, fingerprint, [*choices, *more], notes)


def _split(stored: StoredImages, number: int) -> ImageSplit:
    rows = np.flatnonzero(stored.splits == number)
    names = [stored.names[row] for row in rows.tolist()]
    return ImageSplit(stored.pixels, rows, stored.classes[rows], names)


def length_choices(
    train: TrainConfig, examples: int, epochs: int, unit: str = "images"
) -> list[Choice]:
    """Return the number of steps by the number of examples, unless it is set, and what follows."""
    if train.minutes is not None:
        return []
    choices = []
    steps = train.steps
    if steps is None:
        passes = epochs * examples / train.batch_tokens
        steps = int(min(max(passes, MIN_DEFAULT_STEPS), MAX_DEFAULT_STEPS))
        reason = f"{steps * train.batch_tokens / examples:.3g} epochs of {examples:,} {unit}"
        choices.append(Choice("train.steps", steps, reason))
    if train.warmup is None:
        choices.append(warmup_choice(steps))
    if train.evaluate_every is None:
        choices.append(evaluation_choice(steps))
    return choices


# --- reading --------------------------------------------------------------------------------------


def _open(recipe: ImagesRecipe) -> LabelledImages:
    """Open the source, and the held-out sources that are given."""
    data = recipe.data
    source = resolve_source(data, SYNTHETIC_IMAGES, IMAGE_DATASETS, what="set of images")
    if isinstance(source, SyntheticSource):
        images = source.generate()
    elif isinstance(source, DatasetSource):
        images = open_published_images(source.dataset)
    else:
        images = open_images(source.path, data, task=recipe.task)
    given = {
        name: open_images(path, data, is_other=True, task=recipe.task)
        for name in SPLIT_NAMES[1:]
        if (path := getattr(data, name)) is not None
    }
    return combine_splits(images.name, {"train": images, **given}) if given else images


def choose_image_form(
    images: LabelledImages, model: ImageModelConfig | CaptionerConfig, data: ImageSourceConfig
) -> tuple[ImageForm, list[Choice]]:
    """Return size and channels by a sample of the images, where the settings leave them open."""
    headers: list[ImageHeader] = []
    for row in evenly_spaced_rows(len(images), HEADER_SAMPLE).tolist():
        try:
            headers.append(read_header(images.read(row), data.max_pixels))
        except UnreadableImage:
            continue
    headers = headers or [ImageHeader(1, 1, False)]  # all are reported when they are decoded
    expected = model.pretrained_images
    size = model.image_size or (expected.size if expected else 0)
    form, reason = choose_form(headers, size, model.channels, data.fit)
    if expected:
        reason = "the pretrained weights were trained on large images"
    chosen = [] if model.image_size else [Choice("model.image_size", form.size, reason)]
    return form, chosen


def decode_source(
    images: LabelledImages,
    form: ImageForm,
    data: ImageSourceConfig,
    folder: Path | None,
    on_progress: Progress = ignore_progress,
) -> DecodedImages:
    """Decode all images of a source into a folder, or memory."""

    def decoded() -> Iterator[DecodedImage]:
        rows = range(len(images))
        found = decode_images(images.read, rows, form, data.max_pixels)
        for number, image in enumerate(found, 1):
            yield image
            if number % 100 == 0 or number == len(rows):
                on_progress("decoding", number, len(rows))

    return collect_images(decoded(), len(images), form, folder)


def report_unreadable(
    images: LabelledImages, decoded: DecodedImages, data: ImageSourceConfig
) -> list[str]:
    """Return a note about the images that are left out; DataError if they are refused."""
    errors = [f"{printable(images.names[row])}: {why}" for row, why in decoded.errors.items()]
    if not errors:
        return []
    count = f"{pluralise(len(errors), 'image')} of {len(images):,}"
    if data.unreadable == "refuse" or not len(decoded.rows):
        listed = errors[:MAX_REFUSED_IMAGES]
        more = ["…"] if len(errors) > len(listed) else []
        advice = "" if data.unreadable == "skip" else " Try --set data.unreadable=skip."
        heading = f"{images.name}: {count} could not be read:"
        raise DataError(f"{bullet_list([*listed, *more], heading)}{advice}")
    if len(errors) == 1:
        return [f"Left out {errors[0]}."]
    listed = errors[:MAX_NAMED_IMAGES]
    more = [f"… and {len(errors) - len(listed):,} more"] if len(errors) > len(listed) else []
    heading = f"{images.name}: {count} could not be read and are left out:"
    return [bullet_list([*listed, *more], heading)]


# --- division -------------------------------------------------------------------------------------


def divide_images(
    images: LabelledImages,
    decoded: DecodedImages,
    data: ImageSourceConfig,
    labels: Sequence[str] | None = None,
) -> tuple[SplitArray, list[str]]:
    """Return the split of each decoded image, by the settings or else by class, and notes.

    Without `labels`, images have no classes and are divided by their hashes.
    """
    check_shares(data.dev_share, data.test_share)
    hashes = hash_bytes(image.tobytes() for image in decoded.pixels)
    rows = decoded.rows
    own = [None if images.splits is None else images.splits[row] for row in rows.tolist()]
    splits = np.full(len(rows), LEFT_OUT, np.int8)
    given: dict[str, HashArray] = {}
    for number, name in enumerate(SPLIT_NAMES[1:], 1):
        is_own = np.array([split == name for split in own], bool)
        if is_own.any():
            splits[is_own] = number
            given[name] = hashes[is_own]
    kept = dev_without_test(given)
    if kept.rows is not None:
        of_dev = np.flatnonzero(splits == 1)
        splits[np.setdiff1d(of_dev, of_dev[kept.rows])] = LEFT_OUT
    rest = np.flatnonzero([split in (None, "train") for split in own])
    classes = None if labels is None else [labels[row] for row in rest.tolist()]
    if classes is None or describe_division(data) or given:
        is_stratified = classes is not None and not describe_division(data)
        numbers = _row_numbers(images, rows[rest])
        division = divide_rows(
            data.model_copy(update={"stratify": True}) if is_stratified else data,
            hashes[rest],
            read_split_cells(images.records, data, numbers),
            classes,
            given,
            is_exact=classes is None,
        )
        notes = [*kept.notes, *division.notes[is_stratified:]]
        splits[rest] = division.splits
    else:
        splits[rest] = split_by_class(hashes[rest], classes, data.dev_share, data.test_share)
        notes = []
    if isinstance(data, LabelledImagesConfig) and data.per_class is not None:
        assert labels is not None
        notes.append(_limit_classes(splits, hashes, labels, data.per_class, data.per_class_seed))
    if not (splits == TRAIN).any():
        raise DataError(
            f"{images.name}: got {pluralise(len(rows), 'image')}, all held out; expected images to "
            "train on; try more images, or smaller data.dev_share and data.test_share."
        )
    return splits, notes


def _limit_classes(
    splits: SplitArray, hashes: HashArray, labels: Sequence[str], limit: int, seed: int
) -> str:
    """Leave out training images of classes that have more than `limit`; return a note.

    Those of the smallest hashes of image and seed are kept, whatever the order of the images.
    """
    rows = np.flatnonzero(splits == TRAIN)
    keys = hash_bytes(f"{hashes[row]}/{seed}".encode() for row in rows.tolist())
    met: Counter[str] = Counter()
    for row in rows[np.argsort(keys, kind="stable")].tolist():
        met[labels[row]] += 1
        if met[labels[row]] > limit:
            splits[row] = LEFT_OUT
    left_out = sum(max(0, count - limit) for count in met.values())
    return f"{pluralise(left_out, 'training image')} left out (data.per_class={limit})."


def _row_numbers(images: LabelledImages, rows: IntArray) -> IntArray:
    return rows if images.numbers is None else images.numbers[rows]


def _count_labels(
    name: str, labels: Sequence[str], splits: SplitArray, needs_labels: bool
) -> dict[str, int]:
    """Return the number of training images of each class, in natural order of the classes."""
    counts = Counter(labels[row] for row in np.flatnonzero(splits == TRAIN).tolist())
    if not needs_labels:
        del counts[""]
    elif len(counts) < 2:
        [(label, count)] = counts.items()
        raise DataError(
            f"{name}: got the same class ({label!r}) for all "
            f"{pluralise(count, 'training image')}; expected two classes or more, "
            "such as the sub-folders cat and dog."
        )
    return {label: counts[label] for label in sorted(counts, key=natural_key)}


def _fit_transform(
    decoded: DecodedImages, splits: SplitArray, form: ImageForm, recipe: ImagesRecipe
) -> ImageTransform:
    """Return the statistics of the training images, or those of the weights; no classes."""
    rows = np.flatnonzero(splits == TRAIN)
    expected = recipe.model.pretrained_images
    if expected:
        mean, deviation = [expected.mean] * form.channels, [expected.deviation] * form.channels
    else:
        mean, deviation = channel_statistics(decoded.pixels, rows)
    return ImageTransform([], [], *form, mean=mean, deviation=deviation)


def load_images(
    recipe: ImagesRecipe, transform: ImageTransform, source: str | Path | object
) -> ImageSplit:
    """Read other labelled images; DataError if the classifier knows none of their classes."""
    images = open_images(source, recipe.data, is_other=True, task=recipe.task)
    rows = range(len(images))
    found = decode_images(images.read, rows, transform.form, recipe.data.max_pixels)
    decoded = collect_images(found, len(images), transform.form, None)
    notes = [*images.notes, *report_unreadable(images, decoded, recipe.data)]
    ids = transform.label_ids
    labels = [images.labels[row] for row in decoded.rows.tolist()]
    unknown = Counter(label for label in labels if label not in ids)
    if recipe.needs_labels and len(unknown) and unknown.total() == len(labels):
        raise DataError(
            f"{images.name}: got the classes {', '.join(sorted(unknown)[:MAX_NAMED_IMAGES])}; "
            f"expected those of the run: {', '.join(transform.labels[:MAX_NAMED_IMAGES])}."
        )
    return ImageSplit(
        decoded.pixels,
        np.arange(len(labels)),
        np.array([ids.get(label, -1) for label in labels], np.int64),
        [images.names[row] for row in decoded.rows.tolist()],
        unknown,
        notes=tuple(notes),
    )
