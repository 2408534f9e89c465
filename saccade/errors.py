"""Exception tree.

SaccadeError             an error the user can fix; the command line prints it and exits with 2
├── ConfigError          a setting, a name or an option that does not exist or is invalid
├── DataError            a file, or a line of it, that cannot be used
├── RunError             a run folder that is missing, damaged, of a newer version, or exists
├── TrainingError        training that cannot continue (a loss that is not finite)
└── MissingPackageError  an optional package that a command needs

Stopped                  a signal (Ctrl-C, SIGTERM, SIGHUP); a KeyboardInterrupt, not an error

Messages have the form "got …; expected …; try …", with file and line where there is one. Packages
that are used on their own (`nn`, `optim`, …) raise `ValueError` with messages of the same form.
"""


class SaccadeError(Exception):
    """Base class: errors the user can fix, shown without a traceback on the command line."""


class ConfigError(SaccadeError):
    """A setting, a name or an option does not exist or is invalid."""


class DataError(SaccadeError):
    """A file, or a line of it, cannot be used as it is."""


class RunError(SaccadeError):
    """A run folder is missing, damaged, of a newer version, or already exists."""


class TrainingError(SaccadeError):
    """Training cannot continue; the last checkpoint is kept."""


class MissingPackageError(SaccadeError):
    """An optional package is not installed."""


class Stopped(KeyboardInterrupt):
    """The process is to stop: by Ctrl-C or another signal, whose number the exit code has."""

    def __init__(self, message: str = "", signal_number: int = 2):
        super().__init__(message)
        self.signal_number = signal_number


def bullet_list(complaints: list[str], heading: str) -> str:
    """Join complaints into one message, so that a user sees all of them in one run."""
    if len(complaints) == 1:
        return complaints[0]
    return heading + "".join(f"\n  - {complaint}" for complaint in complaints)
