"""`saccade predict`: predictions for texts, files or standard input."""

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from saccade.cli.console import json_line, stderr_console
from saccade.cli.opening import check_file, open_run
from saccade.cli.options import (
    BeamOption,
    RunArgument,
    is_debug,
    parse_overrides,
    read_options,
)
from saccade.cli.predict_file import (
    ROW_FORMATS,
    FormatFunction,
    PredictFunction,
    TruncateFunction,
    escape_line_breaks,
    predict_file,
    read_input_blocks,
    with_cells,
)
from saccade.cli.predict_input import InputRow, TargetRemover, open_input, read_run_columns
from saccade.cli.resumable_output import ResumableOutput, run_fingerprint
from saccade.cli.roles import with_role_options
from saccade.data.task_roles import takes_paths
from saccade.errors import ConfigError, DataError
from saccade.io.text_files import STANDARD_INPUT
from saccade.training.progress import show_progress
from saccade.types.limits import MAX_BEAM, MAX_COUNT, MAX_SEED

if TYPE_CHECKING:
    from saccade.data.tables.schema import TableSchema
    from saccade.types.results import Prediction

INCOMPLETE_CHARACTER = "\N{REPLACEMENT CHARACTER}"  # decoded from a part of a character's bytes
CHOICES_SECTION = "Choices (language models)"
SEARCH_SECTION = "Search (sentence vectors)"
DEFAULT_DECODING = {"beam": 1, "n_best": 1}
DEFAULT_ENGINE = "fused"


@with_role_options
def predict_command(
    context: typer.Context,
    run: RunArgument,
    texts: Annotated[list[str] | None, typer.Argument(metavar="[TEXT]...")] = None,
    file: Annotated[
        str | None,
        typer.Option(help="Lines of text, or a file like the training file; - is standard input."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="With --file: file for the predictions, resumable.")
    ] = None,
    beam: BeamOption = 1,
    n_best: Annotated[
        int,
        typer.Option(
            help="Predictions per input, with scores; needs as large a beam.", min=1, max=MAX_BEAM
        ),
    ] = 1,
    sample: Annotated[
        bool, typer.Option("--sample", help="Sample instead of greedy decoding.")
    ] = False,
    seed: Annotated[
        int | None, typer.Option(help="Random seed for sampling.", min=0, max=MAX_SEED)
    ] = None,
    max_new_tokens: Annotated[
        int | None,
        typer.Option(
            help="Language models: number of tokens to generate, across line ends.",
            min=1,
            max=MAX_COUNT,
        ),
    ] = None,
    stop: Annotated[
        list[str] | None, typer.Option(help="Stop before this string; repeatable.")
    ] = None,
    choices: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,…",
            help="Choose the most probable continuation instead of generating.",
            rich_help_panel=CHOICES_SECTION,
        ),
    ] = None,
    examples: Annotated[
        Path | None,
        typer.Option(
            help="File with texts and their labels, as examples in front of each text.",
            rich_help_panel=CHOICES_SECTION,
        ),
    ] = None,
    nearest: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="The nearest sentences of this file, whose index is stored in the run; how many "
            "by --n-best.",
            rich_help_panel=SEARCH_SECTION,
        ),
    ] = None,
    search: Annotated[
        list[str] | None,
        typer.Option(
            "--search",
            "--set",
            metavar="NAME=VALUE",
            help="Decoding options, or how --file is read (data.encoding); repeatable, see below.",
        ),
    ] = None,
    stream: Annotated[
        bool | None,
        typer.Option("--stream/--no-stream", help="Print text while it is generated."),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            help="Inference engine: fused, torch (the model's own code), or ctranslate2 (after "
            "saccade export); chosen if not given, see below."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object per input.")] = False,
    *,
    columns: dict[str, str],
) -> None:
    r"""Print one prediction per line, in the order of the inputs.

    \b
    saccade predict runs/dates "5 de março de 2024"
    saccade predict runs/dates --file dates.txt --beam 5 --n-best 3
    saccade predict runs/language "The " --sample --search temperature=0.8 --search top_p=0.9
    saccade predict runs/language "The " --max-new-tokens 300 --stop "Changed in"
    saccade predict runs/language "The film was" --choices good,bad --examples few.tsv
    saccade predict runs/mine --file a.txt --beam 5 --search coverage=0.2
    saccade predict runs/mine --file pairs.csv --source english --out answers.csv
    cat dates.txt | saccade predict runs/dates
    saccade predict runs/mine --file big.txt.gz --out predictions.txt
    saccade predict runs/embed "a man plays guitar" --nearest corpus.txt --n-best 5
    saccade predict runs/photos cat.jpg new/ "old/*.png" --n-best 3 --json

    --search takes temperature, top_k, top_p, length_penalty, coverage, no_repeat_ngram_size and
    repetition_penalty, as far as the task has them. --set data.encoding, data.delimiter,
    data.header and data.quoting describe the file.

    With --out, predictions are saved as they are made: the same command resumes after an
    interruption, even after kill -9. An existing file is never overwritten.

    Of a file with columns (CSV, TSV, JSON, Parquet, …) the input column of the run is read, never
    the target; with --out in .csv or .jsonl the predictions are added to its columns.

    Lines of --file that are longer than the model's maximum are truncated and invalid UTF-8 is
    read as �, both with a warning.

    A prediction is one line: line breaks in it are printed as \n. --stream prints a generated
    text as it is.

    Inputs of a classifier of images are files, folders and patterns; of several files each line
    starts with the path. Files that cannot be read are reported, and the rest continues.

    With --n-best above 1, a line has the number of the input, rank, score and text, separated by
    tabs.

    The engine "fused" computes a Transformer or a GPT with fewer operations; other models run on
    "torch". Without --engine, greedy decoding uses "ctranslate2" if the run has an export that
    gives the same predictions (saccade export compares them), since it does not load PyTorch; all
    else uses "fused". With --debug, the engine that was used is printed on standard error.
    """
    texts, file = _texts_or_file(texts or [], file)
    if out is not None and file is None:
        raise ConfigError("--out needs --file; predictions for texts are printed.")
    of_file = [assignment for assignment in search or [] if assignment.startswith("data.")]
    of_search = [assignment for assignment in search or [] if not assignment.startswith("data.")]
    file_options = read_options(of_file)
    if of_file and file is None:
        raise ConfigError(f"--set {of_file[0]} needs --file: it describes how a file is read.")
    run_columns = read_run_columns(run, columns, file_options)
    check_file(None if file == STANDARD_INPUT else file)
    options = _decoding_options(
        beam=beam,
        n_best=n_best,
        **parse_overrides(of_search, "--search"),
        sample=sample or None,
        seed=seed,
        max_new_tokens=max_new_tokens,
        stop=tuple(stop) if stop else None,
        choices=None if choices is None else tuple(map(str.strip, choices.split(","))),
        examples=None if examples is None else _read_examples(examples),
        nearest=nearest,
    )
    chosen = engine or _default_engine(run, needs_torch=bool(options or json or stream))
    predictor = _open_predictor(run, chosen, with_scores=json or n_best > 1)
    if is_debug(context):
        stderr_console().print(f"engine: {predictor.engine_name or 'none, nothing is decoded'}")
    if stream and not predictor.can_stream:
        raise ConfigError("--stream needs a language model; this run's predictions come whole.")
    if stream is None:
        single = file is None and len(texts) == 1 and beam == n_best == 1 and not json
        stream = predictor.can_stream and single and sys.stdout.isatty()
    if stream and (file is not None or len(texts) != 1 or json):
        raise ConfigError("--stream needs a single text, without --file and --json.")
    predict = partial(predictor.predict, **options)
    format_prediction: FormatFunction = partial(_format_prediction, n_best=n_best, json=json)
    if file is None:
        without_target = TargetRemover(run_columns, predictor.labels)
        warn = stderr_console().print
        takes_files = takes_paths(run_columns.task)
        if takes_files:
            from saccade.data.images.readers import find_images

            texts = [path for text in texts for path in find_images(text)]
            if len(texts) > 1 and n_best == 1 and not json:
                format_prediction = _format_named
        for text in texts:
            if os.path.isfile(text) and not takes_files:
                note = (
                    f"{text} is predicted as a text; for the texts in the file, use --file {text}"
                )
                warn(note, soft_wrap=True)
        texts = [without_target(text, f"input {n}", warn) for n, text in enumerate(texts, 1)]
        if stream:
            _stream(texts[0], predict, held_back=max(map(len, stop or [""])))
        else:
            _predict_texts(texts, predict, format_prediction)
        return
    read_blocks = partial(read_input_blocks, given_encoding=file_options.encoding)
    inputs = open_input(
        file, run_columns, read_blocks, labels=predictor.labels, schema=predictor.schema
    )
    write: Callable[..., None] = partial(
        predict_file, file, predict=predict, truncate=predictor.truncate, is_sampled=sample
    )
    if out is None:
        write(inputs=inputs, format_prediction=format_prediction, output=None)
    else:
        if inputs.columns and not json and n_best == 1 and out.suffix in ROW_FORMATS:
            inputs, format_prediction = with_cells(inputs, out.suffix)
        request = {
            "run fingerprint": run_fingerprint(run),
            "json": json,
            "engine": None if engine == DEFAULT_ENGINE else engine,
            **options,
        }
        with ResumableOutput(out, request) as output:
            try:
                write(inputs=inputs, format_prediction=format_prediction, output=output)
            except KeyboardInterrupt:
                raise KeyboardInterrupt(_resume_message(output)) from None
            output.finish()


def _read_examples(path: Path) -> tuple[tuple[str, str], ...]:
    """Read texts with one label each."""
    from saccade.data.text.labelled import read_labelled_texts

    return tuple((text, labels[0]) for labels, text in read_labelled_texts(path))


def _texts_or_file(texts: list[str], file: str | None) -> tuple[list[str], str | None]:
    """Return the texts, or the file; "-", or no text in a pipe, is standard input."""
    if texts == [STANDARD_INPUT] or (not texts and file is None and not sys.stdin.isatty()):
        texts, file = [], file or STANDARD_INPUT
    if bool(texts) == (file is not None):
        raise ConfigError("predict needs either texts or --file (- for standard input).")
    return texts, file


class _Predictor(NamedTuple):
    """The functions that `predict` needs of a run or of an engine."""

    predict: PredictFunction
    truncate: TruncateFunction
    can_stream: bool
    engine_name: str | None  # the engine that is used; None: the task decodes nothing
    labels: Sequence[str] = ()  # of a classifier
    schema: "TableSchema | None" = None


def _default_engine(run: Path, needs_torch: bool) -> str:
    """Return the engine that gives the same predictions and starts fastest."""
    from saccade.interop.ctranslate2.engine import ENGINE_NAME, is_verified_export

    return ENGINE_NAME if not needs_torch and is_verified_export(run) else DEFAULT_ENGINE


def _open_predictor(run: Path, engine: str, with_scores: bool) -> _Predictor:
    from saccade.interop.registry import ENGINES
    from saccade.registry import lookup

    if engine in ENGINES:  # does not import torch
        exported = ENGINES[engine](run, with_scores)
        return _Predictor(exported.predict, exported.truncate, False, engine)
    from saccade.inference.engine_names import DECODER_ENGINES

    lookup(dict.fromkeys([*DECODER_ENGINES, *ENGINES]), engine, "engine")
    opened = open_run(run)
    predictor = opened.predictor
    predict: PredictFunction = partial(opened.predict, engine=engine)  # type: ignore[assignment]
    engine_name = predictor.engine_name(engine)
    labels = opened.preprocessor.labels if opened.recipe.task == "classify" else ()
    schema = opened.preprocessor if opened.recipe.task == "table" else None
    return _Predictor(
        predict, predictor.truncate, predictor.can_stream, engine_name, labels, schema
    )


def _decoding_options(**options: Any) -> dict[str, Any]:
    """Leave out options that were not given or have their default value."""
    return {
        name: value
        for name, value in options.items()
        if value is not None and value != DEFAULT_DECODING.get(name)
    }


def _stream(text: str, predict: PredictFunction, held_back: int) -> None:
    """Print text while it is generated; hold back what may still be cut off or change."""
    printed = 0

    def print_more(generated: str) -> None:
        nonlocal printed
        final = len(generated.rstrip(INCOMPLETE_CHARACTER)) - held_back
        if final > printed:
            sys.stdout.write(generated[printed:final])
            sys.stdout.flush()
            printed = final

    [found] = predict([text], stream=print_more)
    sys.stdout.write(found.text[printed:] + "\n")


def _predict_texts(
    texts: list[str], predict: PredictFunction, format_prediction: FormatFunction
) -> None:
    """Print the prediction of each text; inputs without one are reported, and the rest continues.

    Raises:
        DataError: in the end, if inputs had no prediction.
    """
    console, failed = stderr_console(), 0
    with show_progress(console, "predicting", total=len(texts), unit="inputs") as bar:
        predictions = predict(texts, on_progress=bar.update)
    for number, (source, found) in enumerate(zip(texts, predictions, strict=True), start=1):
        sys.stdout.write(format_prediction(number, InputRow(source, source), found))
        for note in found.notes or ():
            console.print(f"input {number}: {note}.", soft_wrap=True)
        if found.error is not None:
            failed += 1
            console.print(f"input {number}: {found.error}.", soft_wrap=True)
    if failed:
        sys.stdout.flush()
        raise DataError(f"got {failed:,} of {len(texts):,} inputs that could not be predicted.")


def _format_named(number: int, row: InputRow, prediction: "Prediction") -> str:
    """Return the output line of one of several files: its path, a tab and the prediction."""
    return f"{escape_line_breaks(row.text)}\t{escape_line_breaks(prediction.text)}\n"


def _resume_message(output: ResumableOutput) -> str:
    if not output.lines:
        return "Stopped before the first prediction."
    return (
        f"Stopped. Predictions for {output.lines:,} lines are in {output.path}. Resume with:\n"
        f"  saccade {shlex.join(sys.argv[1:])}"
    )


def _format_prediction(
    number: int, row: InputRow, prediction: "Prediction", *, n_best: int, json: bool
) -> str:
    """Return the output line (or lines) of a prediction."""
    ranked = (prediction, *prediction.alternatives)
    if json:
        return json_line({"source": row.text, **prediction.to_dict()}) + "\n"
    if n_best == 1:
        return escape_line_breaks(prediction.text) + "\n"
    return "".join(
        f"{number}\t{rank}\t{_score(found)}\t{escape_line_breaks(found.text)}\n"
        for rank, found in enumerate(ranked, start=1)
    )


def _score(prediction: "Prediction") -> str:
    return "" if prediction.score is None else f"{prediction.score:.4f}"
