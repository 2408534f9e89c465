"""list."""

from typing import Annotated, NamedTuple

import typer

from saccade.cli.printing import print_json, table


class Entry(NamedTuple):
    """A line of the list."""

    group: str
    name: str
    about: str
    size: str
    minutes: str


# Sizes of models are those they have for dates; minutes are of training on two cores.
ENTRIES = [
    Entry("task", "translate", "pairs of texts → a translator", "", ""),
    Entry("model", "seq2seq", "recurrent, fixed context (Cho 2014)", "0.3 M", ""),
    Entry("model", "bahdanau", "recurrent, looks back (Bahdanau 2015)", "0.6 M", ""),
    Entry("model", "transformer", "attention alone (Vaswani 2017)", "1.0 M", ""),
    Entry("recipe", "dates", "dates in 46 languages → ISO 8601", "0.6 M", "2"),
    Entry("recipe", "numbers", "numbers in 39 languages → digits", "0.6 M", "3"),
    Entry("recipe", "reverse", "short made-up words, backwards", "0.1 M", "½"),
    Entry("recipe", "copy", "short made-up words, as they are", "0.1 M", "½"),
    Entry("recipe", "translate", "your own file of pairs (--data)", "by data", "by data"),
    Entry("data", "dates", "made by Babel from Unicode's CLDR", "124k pairs", ""),
    Entry("data", "numbers", "made by num2words", "44k pairs", ""),
    Entry("data", "reverse", "8 letters, up to 6 long", "21k pairs", ""),
    Entry("data", "copy", "8 letters, up to 6 long", "21k pairs", ""),
]


def list_all(
    json: Annotated[bool, typer.Option("--json", help="JSON on standard output.")] = False,
) -> None:
    r"""List what there is: tasks, models, recipes, data that is always there.

    \b
    saccade list
    """
    if json:
        print_json([entry._asdict() for entry in ENTRIES])
        return
    from rich.console import Console

    shown = table("", "name", "what it is", "size", "minutes")
    for entry in ENTRIES:
        shown.add_row(*entry)
    Console(highlight=False).print(shown)
