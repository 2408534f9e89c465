"""Arguments and options that several commands share."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saccade.cli.completion import complete_models, complete_runs, complete_settings
from saccade.errors import ConfigError
from saccade.types.limits import MAX_BEAM

if TYPE_CHECKING:
    from saccade.data.records.base import ReadOptions

RunArgument = Annotated[
    Path,
    typer.Argument(metavar="RUN", help="Folder of a run.", autocompletion=complete_runs),
]
ModelOption = Annotated[
    str | None,
    typer.Option(
        help="Model of the task; see saccade list models.", autocompletion=complete_models
    ),
]
DataArgument = Annotated[
    str | None, typer.Argument(metavar="FILE", help="The same as --data FILE.")
]
WorldOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Environment of Gymnasium, or package:Class (control); the same as --data NAME.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON to standard output.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Any setting, e.g. model.width=128; see saccade settings.",
        autocompletion=complete_settings,
    ),
]
DataSetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="How the file is read: data.encoding, data.delimiter, data.header, data.quoting.",
    ),
]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace an existing run.")]
ImageOption = Annotated[
    Path | None, typer.Option("--save", help="Image to write: .png, .svg or .pdf.")
]
BeamOption = Annotated[
    int, typer.Option(help="Beam size; 1 is greedy decoding.", min=1, max=MAX_BEAM)
]


def is_debug(context: typer.Context) -> bool:
    """Return True if the command was called with --debug."""
    return bool(context.find_root().params.get("debug"))


def data_or_file(data: str | None, file: str | None, world: str | None = None) -> str | None:
    """Return the data of a command, which is given as --data, as an argument or as --world."""
    if world is not None and (data is not None or file is not None):
        raise ConfigError(
            f"got --world {world} and {data or file}; expected one environment; try --world alone."
        )
    if data is not None and file is not None:
        raise ConfigError(
            f"got --data {data} and the argument {file}; expected one of them; two parallel files "
            "have a comma between: --data a.en,a.de."
        )
    return world or file if data is None else data


def file_settings(assignments: list[str] | None, data: str | None) -> dict[str, str]:
    """Return settings that describe how a run reads another file, which must be given."""
    if assignments and data is None:
        raise ConfigError(
            "--set needs --data FILE: it describes how that file is read; the run's own data is "
            "read as in training."
        )
    return parse_overrides(assignments)


def read_options(assignments: list[str] | None) -> "ReadOptions":
    """Return how a file is read from repeated `data.NAME=VALUE` options."""
    from saccade.config import Config, override_settings
    from saccade.data.records.base import ReadOptions

    class Settings(Config):
        data: ReadOptions = ReadOptions()

    return override_settings(Settings(), dict(parse_overrides(assignments))).data


def parse_overrides(assignments: list[str] | None, flag: str = "--set") -> dict[str, str]:
    """Return repeated `NAME=VALUE` options as values by name."""
    overrides = {}
    for assignment in assignments or []:
        name, equals, value = assignment.partition("=")
        if not equals or not name:
            raise ConfigError(
                f"got {flag} {assignment}; expected NAME=VALUE, e.g. model.width=128."
            )
        overrides[name.strip()] = value.strip()
    return overrides
