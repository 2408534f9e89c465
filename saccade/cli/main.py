"""The verbs of the command line, and what becomes of an error.

Answers and figures go to standard output, all else to standard error. Exit codes: 0 done,
2 something a person can mend, 130 stopped with Ctrl-C, 1 a fault of saccade's own.
"""

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Annotated

import typer

from saccade import __version__
from saccade.cli.check import check_command
from saccade.cli.compare import compare_command
from saccade.cli.doctor import doctor_command
from saccade.cli.export import export_command, import_command
from saccade.cli.list import list_command
from saccade.cli.look import look_command
from saccade.cli.predict import evaluate_command, predict_command
from saccade.cli.prune import prune_command
from saccade.cli.train import copy_command, demo_command, train_command
from saccade.errors import SaccadeError
from saccade.training.cpu import OMP_ENV

app = typer.Typer(
    name="saccade",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(wanted: bool) -> bool:
    if wanted:
        print(f"saccade {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which it is.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Train small neural models on your own data, and see why they answer as they do."""


COMMANDS: dict[str, Callable[..., None]] = {
    "demo": demo_command,
    "list": list_command,
    "train": train_command,
    "predict": predict_command,
    "evaluate": evaluate_command,
    "look": look_command,
    "check": check_command,
    "compare": compare_command,
    "prune": prune_command,
    "doctor": doctor_command,
    "export": export_command,
    "import": import_command,
    "copy": copy_command,
}


class _Carried(Exception):
    """Around an error that typer would take for its own, so that it reaches us."""


def _carrying(verb: Callable[..., None]) -> Callable[..., None]:
    """The verb, whose Ctrl-C and broken pipes typer does not see."""

    @wraps(verb)
    def call(*arguments: object, **options: object) -> None:
        try:
            verb(*arguments, **options)
        except (KeyboardInterrupt, OSError) as error:
            raise _Carried from error

    return call


for _name, _verb in COMMANDS.items():
    # \b, which typer wants as the character itself, keeps the lines of an example apart
    app.command(_name, help=(_verb.__doc__ or "").replace("\\b", "\b"))(_carrying(_verb))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a verb and leave with its exit code."""
    sys.exit(run(list(sys.argv[1:] if arguments is None else arguments)))


def run(arguments: list[str]) -> int:
    """Run a verb and return its exit code; whatever goes wrong becomes one message."""
    for name, value in OMP_ENV.items():
        os.environ.setdefault(name, value)
    debug = "--debug" in arguments
    # wherever it stands: nobody remembers whether it belongs before or behind the verb
    arguments = [argument for argument in arguments if argument != "--debug"]
    try:
        code = _ask_typer(arguments)
        sys.stdout.flush()
        return code
    except _Carried as carried:
        return _end(carried.__cause__, debug)
    except (Exception, KeyboardInterrupt) as error:
        return _end(error, debug)


def _ask_typer(arguments: list[str]) -> int:
    """Typer explains what it cannot read, and leaves by SystemExit even when all is well."""
    try:
        app(args=arguments, prog_name="saccade")
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else 0
    return 0


def _end(error: BaseException | None, debug: bool) -> int:
    match error:
        case SaccadeError():
            return _say(str(error), 2, debug)
        case KeyboardInterrupt():
            return _say(str(error) or "Stopped.", 130, debug)
        case BrokenPipeError():
            # whoever was reading has enough; what is still in the buffer must not raise at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        case OSError():
            where = f"{error.filename}: " if error.filename else ""
            return _say(f"{where}{error.strerror or error}.", 2, debug)
    fault = f"{type(error).__name__}: {error}".strip()
    return _say(f"This is a fault of saccade's own ({fault}). --debug shows where.", 1, debug)


def _say(message: str, code: int, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    print(f"saccade: {message}" if code != 130 else message, file=sys.stderr)
    return code
