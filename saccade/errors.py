"""What can go wrong, as one tree.

SaccadeError             what a user can mend; the command line prints it and exits 2
├── ConfigError          a setting, a name or an option that does not exist or does not fit
├── DataError            a file or a line of it that cannot be used
├── RunError             a run folder that is missing, damaged, from a newer version, or in the way
├── TrainingError        training that cannot go on (a loss that is not a number)
└── MissingPackageError       an optional package that this verb needs

A message says what was got (with file and line where there is one), what was wanted, and what
to do. Parts used on their own (`nn`, `optim`, …) raise `ValueError` in the same manner.
"""


class SaccadeError(Exception):
    """The root: a message for a person, and no traceback on the command line."""


class ConfigError(SaccadeError):
    """A setting, a name or an option that does not exist or does not fit the others."""


class DataError(SaccadeError):
    """A file, or a line of it, that cannot be used as it is."""


class RunError(SaccadeError):
    """A run folder that is missing, damaged, from a newer version, or already there."""


class TrainingError(SaccadeError):
    """Training that cannot go on; what was learned before is kept."""


class MissingPackageError(SaccadeError):
    """An optional package is not installed."""


def bullet_list(complaints: list[str], heading: str) -> str:
    """One message out of many complaints: they come all at once, not one a run."""
    if len(complaints) == 1:
        return complaints[0]
    return heading + "".join(f"\n  - {complaint}" for complaint in complaints)
