"""list."""

from itertools import groupby
from typing import Annotated, NamedTuple

import typer

from saccade.cli.console import make_table, print_json


class CatalogueEntry(NamedTuple):
    """A line of the list."""

    group: str
    name: str
    about: str
    size: str = ""
    minutes: str = ""


# Sizes of translators are those they have for dates, of other models those of their recipe.
# Minutes are of training on two cores.
CATALOGUE = [
    CatalogueEntry("task", "translate", "pairs of texts → a translator"),
    CatalogueEntry("task", "language", "a text → a model that goes on with it"),
    CatalogueEntry("task", "kernel-regression", "points with noise → a curve"),
    CatalogueEntry("task", "forecast", "numbers → those that follow"),
    CatalogueEntry("task", "vectors", "a text → a vector for each word"),
    CatalogueEntry("task", "classify", "texts with labels → a label for a text"),
    CatalogueEntry("task", "table", "a table → one of its columns"),
    CatalogueEntry("model of translate", "seq2seq", "recurrent, fixed context (Cho 2014)", "0.3 M"),
    CatalogueEntry(
        "model of translate", "bahdanau", "recurrent, looks back (Bahdanau 2015)", "0.6 M"
    ),
    CatalogueEntry("model of translate", "luong", "looks after each step (Luong 2015)", "0.5 M"),
    CatalogueEntry("model of translate", "conv_seq2seq", "convolutions (Gehring 2017)", "0.8 M"),
    CatalogueEntry("model of translate", "transformer", "attention alone (Vaswani 2017)", "1.0 M"),
    CatalogueEntry(
        "model of language", "ngram", "counts of the last tokens (Kneser 1995)", "by data"
    ),
    CatalogueEntry("model of language", "nnlm", "the last words, joined (Bengio 2003)", "0.2 M"),
    CatalogueEntry("model of language", "rnn", "one state (Elman 1990)", "0.05 M"),
    CatalogueEntry("model of language", "gru", "gated (Cho 2014)", "0.1 M"),
    CatalogueEntry("model of language", "gru_reset_first", "the same, as published", "0.1 M"),
    CatalogueEntry("model of language", "lstm", "with a cell (Hochreiter 1997)", "0.1 M"),
    CatalogueEntry(
        "model of language", "bidirectional", "fills gaps, from both ends (Schuster 1997)", "0.2 M"
    ),
    CatalogueEntry("model of language", "conv_lm", "gated, causal (Dauphin 2017)", "0.4 M"),
    CatalogueEntry(
        "model of language", "transformer_xl", "a memory of segments (Dai 2019)", "0.9 M"
    ),
    CatalogueEntry("model of language", "gpt1", "attention, norms after (Radford 2018)", "0.8 M"),
    CatalogueEntry("model of language", "gpt2", "the same, norms before (Radford 2019)", "0.8 M"),
    CatalogueEntry("model of language", "gpt3", "every other layer a band (Brown 2020)", "0.8 M"),
    CatalogueEntry(
        "model of kernel-regression", "kernel", "mean of what is near (Nadaraya 1964)", "1"
    ),
    CatalogueEntry("model of kernel-regression", "attention", "the same, as attention", "1"),
    CatalogueEntry("model of forecast", "autoregressive", "from the last values (Yule 1927)", "5"),
    CatalogueEntry("model of forecast", "recurrent", "from a state that is kept", "3,393"),
    CatalogueEntry(
        "model of vectors", "skipgram", "a word tells those around it (Mikolov 2013)", "by data"
    ),
    CatalogueEntry(
        "model of vectors", "cbow", "those around it tell the word (Mikolov 2013)", "by data"
    ),
    CatalogueEntry(
        "model of vectors", "fasttext", "with n-grams of letters (Bojanowski 2017)", "by data"
    ),
    CatalogueEntry(
        "model of vectors", "glove", "how often words meet (Pennington 2014)", "by data"
    ),
    CatalogueEntry("model of vectors", "svd", "the same, made small", "by data"),
    CatalogueEntry("model of vectors", "one_hot", "every word by itself", "0"),
    CatalogueEntry(
        "model of classify", "fasttext", "the mean of a text's words (Joulin 2017)", "by data"
    ),
    CatalogueEntry("model of table", "linear", "a number, by a plane (Legendre 1805)", "by data"),
    CatalogueEntry("model of table", "softmax", "a class, by planes (Cox 1966)", "by data"),
    CatalogueEntry(
        "model of table", "svm", "a class, by the widest margin (Cortes and Vapnik 1995)", "by data"
    ),
    CatalogueEntry("model of table", "mlp", "either, with layers (Rumelhart 1986)", "by data"),
    CatalogueEntry("recipe", "dates", "dates in 46 languages → ISO 8601", "0.6 M", "2"),
    CatalogueEntry("recipe", "numbers", "numbers in 39 languages → digits", "0.6 M", "3"),
    CatalogueEntry("recipe", "reverse", "short made-up words, backwards", "0.1 M", "0.5"),
    CatalogueEntry("recipe", "copy", "short made-up words, as they are", "0.1 M", "0.5"),
    CatalogueEntry("recipe", "translate", "your own file of pairs (--data)", "by data", "by data"),
    CatalogueEntry("recipe", "multi30k-seq2seq", "captions, English → German", "11.2 M", "24"),
    CatalogueEntry("recipe", "multi30k-bahdanau", "the same, looking back", "8.3 M", "21"),
    CatalogueEntry("recipe", "multi30k-luong", "the same, looking after each step", "7.7 M", "21"),
    CatalogueEntry("recipe", "multi30k-transformer", "the same, attention alone", "2.3 M", "95"),
    CatalogueEntry("recipe", "fra-eng", "short sentences, English → French", "by data", "–"),
    CatalogueEntry("recipe", "language", "your own text, or Python's reference", "0.1 M", "–"),
    CatalogueEntry("recipe", "ptb", "Penn Treebank, word by word", "2.6 M", "–"),
    CatalogueEntry("recipe", "tinyshakespeare", "plays, letter by letter", "0.8 M", "–"),
    CatalogueEntry("recipe", "vectors", "your own text, or Python's reference", "by data", "0.1"),
    CatalogueEntry(
        "recipe", "classify", "your own texts, or days in 46 languages", "by data", "0.1"
    ),
    CatalogueEntry("recipe", "kernel-regression", "a curve, or your own x and y", "1", "0.1"),
    CatalogueEntry("recipe", "forecast", "a sine, or your own numbers", "5", "0.1"),
    CatalogueEntry("recipe", "table", "your own table, or two moons", "by data", "0.1"),
    CatalogueEntry("data", "dates", "made by Babel from Unicode's CLDR", "124k pairs"),
    CatalogueEntry("data", "numbers", "made by num2words", "44k pairs"),
    CatalogueEntry("data", "reverse", "8 letters, up to 6 long", "21k pairs"),
    CatalogueEntry("data", "copy", "8 letters, up to 6 long", "21k pairs"),
    CatalogueEntry("data", "python", "the reference that Python carries", "0.5 MB"),
    CatalogueEntry("data", "languages", "days as 46 languages write them", "20k texts"),
    CatalogueEntry("data", "curve", "2 sin x + x^0.8, with noise", "50 points"),
    CatalogueEntry("data", "sine", "a sine with noise", "1k values"),
    CatalogueEntry("data", "moons", "two half circles, with noise", "400 rows"),
    CatalogueEntry("data", "plane", "2 a - 3.4 b + 4.2, with noise", "400 rows"),
    CatalogueEntry("data", "iris", "three irises; needs saccade[tables]", "150 rows"),
    CatalogueEntry("data", "wine", "three growers; needs saccade[tables]", "178 rows"),
    CatalogueEntry("data", "breast_cancer", "lumps; needs saccade[tables]", "569 rows"),
    CatalogueEntry("data", "diabetes", "a year's change; needs saccade[tables]", "442 rows"),
    CatalogueEntry("data", "digits", "8 × 8 points; needs saccade[tables]", "2k rows"),
    CatalogueEntry("published data", "ptb", "Penn Treebank, words", "0.9M words"),
    CatalogueEntry("published data", "wikitext-2", "Wikipedia, words", "2.1M words"),
    CatalogueEntry("published data", "tinyshakespeare", "plays", "1.1 MB"),
    CatalogueEntry("published data", "timemachine", "H. G. Wells", "0.2 MB"),
    CatalogueEntry("published data", "multi30k", "captions, English and German", "31k pairs"),
    CatalogueEntry("published data", "fra-eng", "Tatoeba, English and French", "167k pairs"),
]


def list_command(
    json: Annotated[bool, typer.Option("--json", help="JSON on standard output.")] = False,
) -> None:
    r"""List what there is: tasks, models, recipes, data that is always there or published.

    \b
    saccade list
    """
    absent = _absent()
    if json:
        print_json(
            [
                entry._asdict() | {"data_is_here": _set_of(entry) not in absent}
                for entry in CATALOGUE
            ]
        )
        return
    from rich.console import Console
    from rich.markup import escape

    console = Console(highlight=False)
    names = max(len(entry.name) for entry in CATALOGUE)
    for group, entries in groupby(CATALOGUE, key=lambda entry: entry.group):
        console.print(f"[bold]{_plural(group)}[/]")
        shown = make_table("", "", "", "")
        shown.show_header = False
        for entry in entries:
            minutes = f"{entry.minutes} min" if entry.minutes[:1].isdigit() else entry.minutes
            if _set_of(entry) in absent:
                minutes = f"{minutes} *".strip()
            about = escape(entry.about.ljust(39))
            shown.add_row(entry.name.ljust(names), about, entry.size.ljust(7), minutes)
        console.print(shown, "")
    if absent:
        console.print("* data that is not on this machine: fetched when it is needed,")
        console.print("  or read from the folder that SACCADE_DATA names")


def _absent() -> set[str]:
    """The published sets that are not on this machine."""
    from saccade.data.datasets import DATASETS, is_local

    return {name for name, dataset in DATASETS.items() if not is_local(dataset)}


def _set_of(entry: CatalogueEntry) -> str:
    """The published set that a line is about, if there is one."""
    from saccade.data.datasets import DATASETS

    if entry.group not in ("recipe", "published data"):
        return ""
    return next((name for name in DATASETS if entry.name.startswith(name)), "")


def _plural(group: str) -> str:
    if group == "data":
        return "data that is always there"
    if group == "published data":
        return "data that others have published"
    first, _, rest = group.partition(" ")
    return f"{first}s {rest}".rstrip()
