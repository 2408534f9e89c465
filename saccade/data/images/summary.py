"""Numbers of images, their classes and sizes, without decoding them."""

from collections import Counter
from typing import NamedTuple

from saccade.data.images.decode import UnreadableImage, read_header
from saccade.data.images.labelled import printable
from saccade.data.images.readers import natural_key, open_images
from saccade.data.records.base import ReadOptions
from saccade.data.records.suggest import train_command_line
from saccade.data.samplers import evenly_spaced_rows
from saccade.data.tables.csv import pluralise

SUMMARY_SAMPLE = 1000  # images whose headers are read
MAX_LISTED_SIZES = 3


class ImageSummary(NamedTuple):
    """Number, classes and sizes of the images of a source."""

    name: str
    images: int
    classes: dict[str, int]  # images of each
    sampled: int  # images whose headers were read
    sizes: dict[str, int]  # width × height: images of the sample, the most frequent first
    grey: int  # grey images of the sample
    unreadable: dict[str, str]  # of the sample, by name: reason
    splits: dict[str, int]  # empty: not divided
    notes: list[str]
    command: str  # that trains on them

    def lines(self) -> list[str]:
        """Return the summary in sentences."""
        listed = list(self.sizes.items())[:MAX_LISTED_SIZES]
        sizes = ", ".join(f"{size} ({count:,})" for size, count in listed)
        more = ", …" if len(self.sizes) > len(listed) else ""
        colours = "grey" if self.grey == self.sampled else "colour" if not self.grey else "mixed"
        lines = [
            f"{self.name}: {pluralise(self.images, 'image')}, {len(self.classes):,} classes, "
            f"{colours}; sizes of {self.sampled:,} of them: {sizes}{more}."
        ]
        if self.splits:
            parts = ", ".join(f"{count:,} {split}" for split, count in self.splits.items())
            lines.append(f"Divided already: {parts}.")
        lines += [f"! {printable(name)}: {why}." for name, why in self.unreadable.items()]
        return [*lines, *self.notes]


def summarise_images(file: str, options: ReadOptions) -> ImageSummary:
    """Return the numbers of a folder, an archive or an array of images."""
    images = open_images(file, options)
    headers, unreadable = [], {}
    for row in evenly_spaced_rows(len(images), SUMMARY_SAMPLE).tolist():
        try:
            headers.append(read_header(images.read(row)))
        except UnreadableImage as error:
            unreadable[images.names[row]] = str(error)
    counts = Counter(images.labels)
    sizes = Counter(f"{header.width} × {header.height}" for header in headers)
    return ImageSummary(
        images.name,
        len(images),
        {label: counts[label] for label in sorted(counts, key=natural_key)},
        len(headers),
        dict(sizes.most_common()),
        sum(header.is_grey for header in headers),
        unreadable,
        dict(Counter(split or "train" for split in images.splits or ())),
        images.notes,
        train_command_line("image", file, {}),
    )
