import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.errors import ConfigError
from saccade.registry import did_you_mean, lookup

MODELS = {"transformer": 1, "bahdanau": 2, "seq2seq": 3, "gru": 4}
names = st.text("abcdefgh", min_size=1, max_size=8)


@given(st.dictionaries(names, st.integers()), names)
def test_pick_is_the_table_itself_or_a_list_of_all_there_is(
    table: dict[str, int], name: str
) -> None:
    if name in table:
        assert lookup(table, name) == table[name]
        return
    with pytest.raises(ConfigError) as caught:
        lookup(table, name)
    assert str(caught.value).endswith(f"There are: {', '.join(sorted(table))}.")


def test_the_message_says_what_there_is_and_what_is_near() -> None:
    wanted = (
        r"^There is no model 'transfomer'\. Did you mean 'transformer'\? "
        r"There are: bahdanau, gru, seq2seq, transformer\.$"
    )
    with pytest.raises(ConfigError, match=wanted):
        lookup(MODELS, "transfomer", "model")


def test_nothing_near_gives_no_hint() -> None:
    with pytest.raises(ConfigError, match=r"no model 'xyz'\. There are"):
        lookup(MODELS, "xyz", "model")


@pytest.mark.parametrize("typed", ["GRU", "Gru", "gru "])
def test_capitals_are_not_a_difference(typed: str) -> None:
    assert did_you_mean(typed, MODELS) == " Did you mean 'gru'?"


def test_the_names_may_be_read_only_once() -> None:
    assert did_you_mean("widht", iter(["depth", "width"])) == " Did you mean 'width'?"
