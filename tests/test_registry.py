import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.errors import ConfigError
from saccade.registry import did_you_mean, lookup

MODELS = {"transformer": 1, "bahdanau": 2, "seq2seq": 3, "gru": 4}
names = st.text("abcdefgh", min_size=1, max_size=8)


@given(st.dictionaries(names, st.integers()), names)
def test_lookup_returns_the_value_or_lists_all_names(table: dict[str, int], name: str) -> None:
    if name in table:
        assert lookup(table, name) == table[name]
        return
    with pytest.raises(ConfigError) as caught:
        lookup(table, name)
    assert str(caught.value).endswith(f"There are: {', '.join(sorted(table))}.")


def test_lookup_error_has_known_names_and_a_suggestion() -> None:
    expected = (
        r"^There is no model 'transfomer'\. Did you mean 'transformer'\? "
        r"There are: bahdanau, gru, seq2seq, transformer\.$"
    )
    with pytest.raises(ConfigError, match=expected):
        lookup(MODELS, "transfomer", "model")


def test_lookup_error_without_a_similar_name_has_no_suggestion() -> None:
    with pytest.raises(ConfigError, match=r"no model 'xyz'\. There are"):
        lookup(MODELS, "xyz", "model")


@pytest.mark.parametrize("typed", ["GRU", "Gru", "gru "])
def test_did_you_mean_ignores_case(typed: str) -> None:
    assert did_you_mean(typed, MODELS) == " Did you mean 'gru'?"


def test_did_you_mean_accepts_an_iterator() -> None:
    assert did_you_mean("widht", iter(["depth", "width"])) == " Did you mean 'width'?"
