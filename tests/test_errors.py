import builtins

import pytest

from saccade import errors
from saccade.errors import SaccadeError, bullet_list

KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, SaccadeError) and kind is not SaccadeError
]


def test_there_are_kinds_to_test() -> None:
    assert len(KINDS) == 5


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_is_in_the_tree_and_in_the_drawing_of_it(kind: type[SaccadeError]) -> None:
    assert kind.__bases__ == (SaccadeError,)
    assert f"── {kind.__name__} " in (errors.__doc__ or "")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_no_error_hides_one_of_pythons(kind: type[SaccadeError]) -> None:
    assert not hasattr(builtins, kind.__name__)


def test_one_complaint_stands_alone() -> None:
    assert (
        bullet_list(["x is 0: it must be more."], "these do not fit:") == "x is 0: it must be more."
    )


def test_many_complaints_are_a_list_in_their_order() -> None:
    assert bullet_list(["b", "a"], "these do not fit:") == "these do not fit:\n  - b\n  - a"
