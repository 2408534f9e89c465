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


# Sizes and minutes were measured on two cores; a test holds the sizes to what the models have.
ENTRIES = [
    Entry("task", "translate", "pairs of texts → a translator", "", ""),
    Entry("model", "seq2seq", "recurrent, one fixed context (Cho et al. 2014)", "", ""),
    Entry(
        "model", "bahdanau", "recurrent, looks back at the source (Bahdanau et al. 2015)", "", ""
    ),
    Entry("model", "transformer", "attention alone (Vaswani et al. 2017)", "", ""),
    Entry("recipe", "dates", "days as written in 46 languages → ISO 8601", "", ""),
    Entry("recipe", "numbers", "numbers spelt out in 39 languages → digits", "", ""),
    Entry("recipe", "reverse", "short words of made-up letters, backwards", "", ""),
    Entry("recipe", "copy", "short words of made-up letters, as they are", "", ""),
    Entry("recipe", "translate", "your own file of pairs (--data)", "", ""),
    Entry("data", "dates", "made by Babel from Unicode's CLDR", "", ""),
    Entry("data", "numbers", "made by num2words", "", ""),
    Entry("data", "reverse", "8 letters, up to 6 long", "", ""),
    Entry("data", "copy", "8 letters, up to 6 long", "", ""),
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
