"""Inputs of predictions in Python: texts, rows, or frames whose input column is read."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from saccade.data.records.memory import is_frame
from saccade.data.records.open import open_records
from saccade.data.task_records import find_input_columns
from saccade.data.task_roles import INPUT_ROLES
from saccade.data.text.text_pairs import join_pair
from saccade.errors import DataError


def list_inputs(
    data: Any,
    task: str,
    columns: Mapping[str, str | None],
    input_types: tuple[type, ...],
    names: Sequence[str] = (),
) -> list[Any]:
    """Return the inputs of a sequence, a frame or an iterator, in order.

    Args:
        data: inputs of the task, or rows; from rows, the input column is read.
        task: name of the task.
        columns: column of each role in the training data.
        input_types: types of one input.
        names: columns of a table; others are left out.
    """
    if isinstance(data, AbstractSet):
        raise DataError("got a set of inputs, which has no order; try sorted(inputs).")
    if not is_frame(data):
        if not isinstance(data, Iterable) or isinstance(data, bytes | bytearray | Mapping):
            raise DataError(
                f"got a {type(data).__name__} as inputs; expected a text, a list of texts or rows, "
                "or a frame."
            )
        data = list(data)
        has_columns = task == "table" or task in INPUT_ROLES
        if not has_columns or all(isinstance(one, input_types) for one in data):
            return data
    records = open_records(data)
    if task == "table":
        used = [name for name in records.columns if name in names]
        return [
            dict(zip(used, cells, strict=True))
            for chunk in records.chunks(used)
            for cells in zip(*chunk.columns.values(), strict=True)
        ]
    if task in INPUT_ROLES:
        column, second = find_input_columns(records, task, columns)
    elif len(records.columns) == 1:
        [column], second = records.columns, None
    else:
        raise DataError(
            f"got the columns {', '.join(records.columns)}; expected one column of inputs."
        )
    if second is not None:
        return [
            join_pair(*texts) or ""
            for chunk in records.chunks([column, second])
            for texts in zip(chunk.columns[column], chunk.columns[second], strict=True)
        ]
    return [cell or "" for chunk in records.chunks([column]) for cell in chunk.columns[column]]
