"""Arguments and options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from saccade.cli.completion import complete_models, complete_runs, complete_settings
from saccade.errors import ConfigError

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
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace an existing run.")]
ImageOption = Annotated[
    Path | None, typer.Option("--save", help="Image to write: .png, .svg or .pdf.")
]
BeamOption = Annotated[int, typer.Option(help="Beam size; 1 is greedy decoding.", min=1)]


def is_debug(context: typer.Context) -> bool:
    """Return True if the command was called with --debug."""
    return bool(context.find_root().params.get("debug"))


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
