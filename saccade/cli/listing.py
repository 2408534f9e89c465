"""list."""

from itertools import groupby
from typing import Annotated, NamedTuple

import typer

from saccade.cli.printing import print_json, table


class Entry(NamedTuple):
    """A line of the list."""

    group: str
    name: str
    about: str
    size: str = ""
    minutes: str = ""


# Sizes of translators are those they have for dates, of other models those of their recipe.
# Minutes are of training on two cores.
ENTRIES = [
    Entry("task", "translate", "pairs of texts → a translator"),
    Entry("task", "language", "a text → a model that goes on with it"),
    Entry("task", "kernel-regression", "points with noise → a curve"),
    Entry("task", "forecast", "numbers → those that follow"),
    Entry("task", "vectors", "a text → a vector for each word"),
    Entry("task", "classify", "texts with labels → a label for a text"),
    Entry("task", "table", "a table → one of its columns"),
    Entry("model of translate", "seq2seq", "recurrent, fixed context (Cho 2014)", "0.3 M"),
    Entry("model of translate", "bahdanau", "recurrent, looks back (Bahdanau 2015)", "0.6 M"),
    Entry("model of translate", "luong", "looks after each step (Luong 2015)", "0.5 M"),
    Entry("model of translate", "convolutional", "convolutions (Gehring 2017)", "0.8 M"),
    Entry("model of translate", "transformer", "attention alone (Vaswani 2017)", "1.0 M"),
    Entry("model of language", "ngram", "counts of the last tokens (Kneser 1995)", "by data"),
    Entry("model of language", "nnlm", "the last words, joined (Bengio 2003)", "0.2 M"),
    Entry("model of language", "rnn", "one state (Elman 1990)", "0.05 M"),
    Entry("model of language", "gru", "gated (Cho 2014)", "0.1 M"),
    Entry("model of language", "gru_reset_first", "the same, as published", "0.1 M"),
    Entry("model of language", "lstm", "with a cell (Hochreiter 1997)", "0.1 M"),
    Entry("model of language", "two_way", "fills gaps, from both ends (Schuster 1997)", "0.2 M"),
    Entry("model of language", "convolution", "gated, causal (Dauphin 2017)", "0.4 M"),
    Entry("model of language", "transformer_xl", "a memory of segments (Dai 2019)", "0.9 M"),
    Entry("model of language", "gpt1", "attention, norms after (Radford 2018)", "0.8 M"),
    Entry("model of language", "gpt2", "the same, norms before (Radford 2019)", "0.8 M"),
    Entry("model of language", "gpt3", "every other layer a band (Brown 2020)", "0.8 M"),
    Entry("model of kernel-regression", "kernel", "mean of what is near (Nadaraya 1964)", "1"),
    Entry("model of kernel-regression", "attention", "the same, as attention", "1"),
    Entry("model of forecast", "autoregressive", "from the last values (Yule 1927)", "5"),
    Entry("model of forecast", "latent", "from a state that is kept", "3,393"),
    Entry("model of vectors", "skipgram", "a word tells those around it (Mikolov 2013)", "by data"),
    Entry("model of vectors", "cbow", "those around it tell the word (Mikolov 2013)", "by data"),
    Entry("model of vectors", "fasttext", "with n-grams of letters (Bojanowski 2017)", "by data"),
    Entry("model of vectors", "glove", "how often words meet (Pennington 2014)", "by data"),
    Entry("model of vectors", "svd", "the same, made small", "by data"),
    Entry("model of vectors", "one_hot", "every word by itself", "0"),
    Entry("model of classify", "fasttext", "the mean of a text's words (Joulin 2017)", "by data"),
    Entry("model of table", "linear", "a number, by a plane (Legendre 1805)", "by data"),
    Entry("model of table", "softmax", "a class, by planes (Cox 1966)", "by data"),
    Entry(
        "model of table", "svm", "a class, by the widest margin (Cortes and Vapnik 1995)", "by data"
    ),
    Entry("model of table", "mlp", "either, with layers (Rumelhart 1986)", "by data"),
    Entry("recipe", "dates", "dates in 46 languages → ISO 8601", "0.6 M", "2"),
    Entry("recipe", "numbers", "numbers in 39 languages → digits", "0.6 M", "3"),
    Entry("recipe", "reverse", "short made-up words, backwards", "0.1 M", "0.5"),
    Entry("recipe", "copy", "short made-up words, as they are", "0.1 M", "0.5"),
    Entry("recipe", "translate", "your own file of pairs (--data)", "by data", "by data"),
    Entry("recipe", "multi30k-seq2seq", "captions, English → German", "11.2 M", "24"),
    Entry("recipe", "multi30k-bahdanau", "the same, looking back", "8.3 M", "21"),
    Entry("recipe", "multi30k-luong", "the same, looking after each step", "7.7 M", "21"),
    Entry("recipe", "multi30k-transformer", "the same, attention alone", "2.3 M", "95"),
    Entry("recipe", "fra-eng", "short sentences, English → French", "by data", "–"),
    Entry("recipe", "language", "your own text, or Python's reference", "0.1 M", "–"),
    Entry("recipe", "ptb", "Penn Treebank, word by word", "2.6 M", "–"),
    Entry("recipe", "tinyshakespeare", "plays, letter by letter", "0.8 M", "–"),
    Entry("recipe", "vectors", "your own text, or Python's reference", "by data", "0.1"),
    Entry("recipe", "classify", "your own texts, or days in 46 languages", "by data", "0.1"),
    Entry("recipe", "kernel-regression", "a curve, or your own x and y", "1", "0.1"),
    Entry("recipe", "forecast", "a sine, or your own numbers", "5", "0.1"),
    Entry("recipe", "table", "your own table, or two moons", "by data", "0.1"),
    Entry("data", "dates", "made by Babel from Unicode's CLDR", "124k pairs"),
    Entry("data", "numbers", "made by num2words", "44k pairs"),
    Entry("data", "reverse", "8 letters, up to 6 long", "21k pairs"),
    Entry("data", "copy", "8 letters, up to 6 long", "21k pairs"),
    Entry("data", "python", "the reference that Python carries", "0.5 MB"),
    Entry("data", "languages", "days as 46 languages write them", "20k texts"),
    Entry("data", "curve", "2 sin x + x^0.8, with noise", "50 points"),
    Entry("data", "sine", "a sine with noise", "1k values"),
    Entry("data", "moons", "two half circles, with noise", "400 rows"),
    Entry("data", "plane", "2 a - 3.4 b + 4.2, with noise", "400 rows"),
    Entry("data", "iris", "three irises; needs saccade[tables]", "150 rows"),
    Entry("data", "wine", "three growers; needs saccade[tables]", "178 rows"),
    Entry("data", "breast_cancer", "lumps; needs saccade[tables]", "569 rows"),
    Entry("data", "diabetes", "a year's change; needs saccade[tables]", "442 rows"),
    Entry("data", "digits", "8 × 8 points; needs saccade[tables]", "2k rows"),
    Entry("published data", "ptb", "Penn Treebank, words", "0.9M words"),
    Entry("published data", "wikitext-2", "Wikipedia, words", "2.1M words"),
    Entry("published data", "tinyshakespeare", "plays", "1.1 MB"),
    Entry("published data", "timemachine", "H. G. Wells", "0.2 MB"),
    Entry("published data", "multi30k", "captions, English and German", "31k pairs"),
    Entry("published data", "fra-eng", "Tatoeba, English and French", "167k pairs"),
]


def list_all(
    json: Annotated[bool, typer.Option("--json", help="JSON on standard output.")] = False,
) -> None:
    r"""List what there is: tasks, models, recipes, data that is always there or published.

    \b
    saccade list
    """
    absent = _absent()
    if json:
        print_json(
            [entry._asdict() | {"data_is_here": _set_of(entry) not in absent} for entry in ENTRIES]
        )
        return
    from rich.console import Console
    from rich.markup import escape

    console = Console(highlight=False)
    names = max(len(entry.name) for entry in ENTRIES)
    for group, entries in groupby(ENTRIES, key=lambda entry: entry.group):
        console.print(f"[bold]{_plural(group)}[/]")
        shown = table("", "", "", "")
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
    from saccade.data.sources import PUBLISHED, is_here

    return {name for name, published in PUBLISHED.items() if not is_here(published)}


def _set_of(entry: Entry) -> str:
    """The published set that a line is about, if there is one."""
    from saccade.data.sources import PUBLISHED

    if entry.group not in ("recipe", "published data"):
        return ""
    return next((name for name in PUBLISHED if entry.name.startswith(name)), "")


def _plural(group: str) -> str:
    if group == "data":
        return "data that is always there"
    if group == "published data":
        return "data that others have published"
    first, _, rest = group.partition(" ")
    return f"{first}s {rest}".rstrip()
