import builtins

import pytest

from saccade import errors
from saccade.errors import SaccadeError, bullet_list

KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, SaccadeError) and kind is not SaccadeError
]


def test_error_tree_has_five_classes() -> None:
    assert len(KINDS) == 5


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_error_class_is_in_the_documented_tree(kind: type[SaccadeError]) -> None:
    assert kind.__bases__ == (SaccadeError,)
    assert f"── {kind.__name__} " in (errors.__doc__ or "")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_error_class_shadows_no_builtin(kind: type[SaccadeError]) -> None:
    assert not hasattr(builtins, kind.__name__)


def test_bullet_list_of_one_complaint_has_no_heading() -> None:
    assert (
        bullet_list(["x is 0: it must be more."], "these do not fit:") == "x is 0: it must be more."
    )


def test_bullet_list_keeps_the_order() -> None:
    assert bullet_list(["b", "a"], "these do not fit:") == "these do not fit:\n  - b\n  - a"
