"""The verbs of the command line, and what becomes of an error.

Answers and figures go to standard output, all else to standard error. Exit codes: 0 done,
2 something a person can mend, 130 stopped with Ctrl-C, 1 a fault of saccade's own.
"""

import os
import sys
import traceback
from collections.abc import Callable, Sequence

import click
import typer

from saccade import __version__
from saccade.cli.answering import evaluate, look, predict
from saccade.cli.learning import copy, demo, train
from saccade.cli.listing import list_all
from saccade.errors import SaccadeError

app = typer.Typer(
    name="saccade",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"saccade {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True),
    debug: bool = typer.Option(False, "--debug", help="Show the traceback of an error."),
) -> None:
    """Train small neural models on your own data, and see why they answer as they do."""


VERBS: dict[str, Callable[..., None]] = {
    "demo": demo,
    "list": list_all,
    "train": train,
    "predict": predict,
    "evaluate": evaluate,
    "look": look,
    "copy": copy,
}
for _name, _verb in VERBS.items():
    # \b, which click wants as the character itself, keeps the lines of an example apart
    app.command(_name, help=(_verb.__doc__ or "").replace("\\b", "\b"))(_verb)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a verb and leave with its exit code."""
    sys.exit(run(list(sys.argv[1:] if arguments is None else arguments)))


def run(arguments: list[str]) -> int:
    """Run a verb and return its exit code; whatever goes wrong becomes one message."""
    debug = "--debug" in arguments
    # wherever it stands: nobody remembers whether it belongs before or behind the verb
    arguments = [argument for argument in arguments if argument != "--debug"]
    try:
        code = app(args=arguments, standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except SaccadeError as error:
        return _say(str(error), 2, debug)
    except click.ClickException as error:
        error.show(sys.stderr)
        return 2
    except (KeyboardInterrupt, click.Abort) as error:
        return _say(str(error) or "Stopped.", 130, debug)
    except BrokenPipeError:
        # whoever was reading has enough; what is still in the buffer must not raise again at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _say(f"{where}{error.strerror or error}.", 2, debug)
    except Exception as error:
        fault = f"{type(error).__name__}: {error}".strip()
        return _say(f"This is a fault of saccade's own ({fault}). --debug shows where.", 1, debug)


def _say(message: str, code: int, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    print(f"saccade: {message}" if code != 130 else message, file=sys.stderr)
    return code
