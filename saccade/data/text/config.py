"""Settings of a text and its splits. Does not import torch."""

from collections.abc import Mapping
from typing import ClassVar

from saccade.data.source import DatasetSourceConfig
from saccade.data.splits import SplitConfig


class TextConfig(SplitConfig, DatasetSourceConfig):
    """Source of a text, the column of its documents, and their division."""

    REFUSED: ClassVar[Mapping[str, str]] = {
        "stratify": "a text has no classes; try data.group_by, by which no group is divided"
    }

    text: str | None = None
    """Column of the texts, of a file with columns."""
    dev: str | None = None
    """File of the dev split; a part before the end is held out if not set."""
    test: str | None = None
    """File of the test split; the end of the text is held out if not set."""
    split_column: str | None = None
    """Column with the split of each document: train, dev (or validation) or test."""
    group_by: tuple[str, ...] = ()
    """Columns whose values are never divided; the text column: by a hash of the text."""
    time: str | None = None
    """Column with the time of each document: the last ones are test, those before them dev."""
    stratify: bool = False
    """Refused: a text has no classes."""
