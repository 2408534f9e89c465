"""Entry point of the command line: the commands, and how errors are reported.

Predictions and metrics go to standard output, everything else to standard error. Exit codes:
0 success, 1 an internal error (or a failed check), 2 an error that the user can fix, 130 stopped
with Ctrl-C, 143 with SIGTERM, 129 with SIGHUP (128 + number of the signal).
"""

import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import wraps
from io import TextIOWrapper
from typing import Annotated

import typer

from saccade import __version__
from saccade.cli.check import check_command
from saccade.cli.compare import compare_command
from saccade.cli.console import set_quiet
from saccade.cli.copy import copy_command
from saccade.cli.data import data_command
from saccade.cli.demo import demo_command
from saccade.cli.doctor import doctor_command
from saccade.cli.evaluate import evaluate_command
from saccade.cli.export import export_command
from saccade.cli.finetune import finetune_command
from saccade.cli.import_ import import_command
from saccade.cli.list import list_command
from saccade.cli.look import look_command
from saccade.cli.option_hints import option_hint
from saccade.cli.plot import PLOT_COMMANDS, PLOT_HELP
from saccade.cli.predict import predict_command
from saccade.cli.prune import prune_command
from saccade.cli.roles import SectionedCommand
from saccade.cli.search import search_command
from saccade.cli.settings import settings_command
from saccade.cli.show import show_command
from saccade.cli.summary import summary_command
from saccade.cli.train import train_command
from saccade.errors import SaccadeError, Stopped
from saccade.io.file_kinds import format_path
from saccade.training.cpu import OMP_ENV
from saccade.training.signals import limit_exit_time, raise_on_signal

CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}

app = typer.Typer(
    name="saccade",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings=CONTEXT_SETTINGS,
)
plot_app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings=CONTEXT_SETTINGS,
)


def _print_version(requested: bool) -> bool:
    if requested:
        print(f"saccade {__version__}")
        raise typer.Exit
    return requested


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error, and more details.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Print nothing but results and errors.")
    ] = False,
) -> None:
    """Train small neural models on your own data, and see why they answer as they do."""


COMMANDS: dict[str, Callable[..., None]] = {
    "demo": demo_command,
    "list": list_command,
    "data": data_command,
    "settings": settings_command,
    "summary": summary_command,
    "train": train_command,
    "finetune": finetune_command,
    "predict": predict_command,
    "evaluate": evaluate_command,
    "show": show_command,
    "look": look_command,
    "search": search_command,
    "check": check_command,
    "compare": compare_command,
    "prune": prune_command,
    "doctor": doctor_command,
    "export": export_command,
    "import": import_command,
    "copy": copy_command,
}


GLOBAL_FLAGS = ("--debug", "--quiet")


class _PassThrough(Exception):
    """Wrapper around an error that typer would handle itself; its cause reaches `run`."""


def _bypass_typer(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with Ctrl-C and OS errors wrapped so that typer does not handle them."""

    @wraps(command)
    def call(*arguments: object, **options: object) -> None:
        try:
            command(*arguments, **options)
        except (KeyboardInterrupt, OSError) as error:
            raise _PassThrough from error

    return call


def _register(group: typer.Typer, commands: dict[str, Callable[..., None]]) -> None:
    for name, command in commands.items():
        # typer expects \b as the character itself; it keeps the lines of the examples separate
        help_text = (command.__doc__ or "").replace("\\b", "\b")
        group.command(name, help=help_text, cls=SectionedCommand)(_bypass_typer(command))


_register(app, COMMANDS)
_register(plot_app, PLOT_COMMANDS)
app.add_typer(plot_app, name="plot", help=PLOT_HELP.replace("\\b", "\b"))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit with its code."""
    sys.exit(run_process(list(sys.argv[1:] if arguments is None else arguments)))


def run_process(arguments: list[str]) -> int:
    """Run a command that is all this process does, and return its exit code."""
    limit_exit_time()
    try:
        return run(arguments)
    except KeyboardInterrupt as error:  # a signal while another error is reported
        return _report_error(error, debug=False)


def run(arguments: list[str]) -> int:
    """Run a command and return its exit code; any error becomes one message."""
    for name, value in OMP_ENV.items():
        os.environ.setdefault(name, value)
    if isinstance(sys.stdout, TextIOWrapper):
        # bytes of an argument that are not UTF-8 are printed as they came
        sys.stdout.reconfigure(errors="surrogateescape")
    debug, quiet = (flag in arguments for flag in GLOBAL_FLAGS)
    # accepted before and after the command
    arguments = [argument for argument in arguments if argument not in GLOBAL_FLAGS]
    set_quiet(quiet)
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    with raise_on_signal() as stopped:
        try:
            code = _run_typer(arguments, debug)
            sys.stdout.flush()
            if code == 0 or not stopped():
                return code
            error: BaseException | None = Stopped()  # typer makes an exit code of it
        except _PassThrough as wrapper:
            error = wrapper.__cause__
        except (Exception, KeyboardInterrupt) as caught:
            error = caught
        if stopped.number is not None and not (isinstance(error, Stopped) and str(error)):
            # the interrupt may have become another error, as in the import of a C extension
            message = str(error) if isinstance(error, KeyboardInterrupt) else ""
            error = Stopped(message, stopped.number)
        return _report_error(error, debug)


def _run_typer(arguments: list[str], debug: bool) -> int:
    """Parse the arguments and run the command; report usage errors as typer does."""
    flags = ["--debug"] if debug and arguments else []
    try:
        code = app(args=[*flags, *arguments], prog_name="saccade", standalone_mode=False)
    except Exception as error:
        show = getattr(error, "show", None)  # typer brings its own copy of click's exceptions
        if show is None:
            raise
        option = getattr(error, "option_name", None)
        hint = option_hint(arguments, option) if option else None
        if hint is None:
            show()
        else:
            print(f"saccade: No such option {option}; try {hint}", file=sys.stderr)
        return 2
    return code if isinstance(code, int) else 0


def _report_error(error: BaseException | None, debug: bool) -> int:
    """Print the message of an error and return the exit code that it stands for."""
    if debug and not isinstance(error, BrokenPipeError):
        traceback.print_exception(error)
    match error:
        case SaccadeError():
            return _print_error(str(error), 2)
        case KeyboardInterrupt():
            code = 128 + getattr(error, "signal_number", signal.SIGINT)
            return _print_error(str(error) or "Stopped.", code)
        case BrokenPipeError():
            # the reader closed the pipe; what is still buffered must not raise at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        case OSError():
            where = f"{format_path(error.filename)}: " if error.filename else ""
            return _print_error(f"{where}{error.strerror or error}.", 2)
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
        return _print_error(
            f"the memory of the machine is used up ({error}). Try a smaller model "
            "(saccade settings), smaller batches (--set train.batch_tokens=1024) or less data.",
            2,
        )
    fault = f"{type(error).__name__}: {error}".strip()
    return _print_error(
        f"Internal error ({fault}). Run again with --debug to see the traceback.", 1
    )


def _print_error(message: str, code: int) -> int:
    with suppress(OSError):  # a closed terminal
        print(f"saccade: {message}" if code < 128 else message, file=sys.stderr)
    return code
