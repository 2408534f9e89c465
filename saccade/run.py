"""One folder: settings, weights, vocabulary, figures. Opening it never executes anything.

run.toml            the recipe with every setting resolved, versions, threads, the data's print,
                    and which run it began from
tokenizer.json      the vocabularies
model.safetensors   the best weights so far
metrics.jsonl       a line per report
report/             curves.png, attention.png
exports/            the same model for other tools
checkpoint/         what going on takes
tokens/             a long text as ids, read in place
"""

import json
import os
import platform
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import tomli_w
from rich.console import Console

from saccade import __version__
from saccade.alone import alone_in
from saccade.bars import counting
from saccade.config import Config, build, differences, set_paths
from saccade.errors import ConfigError, DataError, RunError, SaccadeError
from saccade.exchange.apart import Apart
from saccade.exchange.engine import export_folder
from saccade.folder import FORMAT, OWN, OWN_FOLDERS, read_metrics, read_settings, weights_seal
from saccade.look.draw import save_curves, save_maps
from saccade.look.draw_gradients import save_gradients
from saccade.look.draw_graph import save_graph
from saccade.look.finding import Finding, not_tried
from saccade.look.terminal import Map, terminal_map
from saccade.lookup import Loaded, pick
from saccade.sealed import read_json, write_atomically, write_json, write_text
from saccade.storage import read_arrays, read_tensors, write_arrays, write_tensors
from saccade.tasks.kinds import kind_of, read_recipe
from saccade.tasks.starting import as_the_other
from saccade.tasks.task import Choice, Fitting, Prepared, Recipe, Task
from saccade.training.cores import cores
from saccade.training.interrupts import interrupts

if TYPE_CHECKING:
    from saccade.training.loop import Event


class Look:
    """The attention maps of one answer."""

    def __init__(self, source: str, answer: str, maps: dict[tuple[str, int, int], Map]):
        self.source, self.answer = source, answer
        self.maps = maps  # by (kind, layer, head), both counted from 1

    def save(self, path: str | Path) -> list[str]:
        """Draw them into a picture (.png, .svg or .pdf); what is to be said is returned."""
        try:
            return save_maps(list(self.maps.values()), Path(path))
        except ValueError as error:
            raise ConfigError(str(error)) from None

    def terminal(self, width: int = 80, colour: bool = True) -> str:
        """The first map, ready to print."""
        return terminal_map(next(iter(self.maps.values())), width, colour)


class Run:
    """A trained model in its folder."""

    def __init__(self, folder: Path, recipe: Recipe, made: dict[str, Any], vocabulary: Any):
        self.folder, self.recipe, self.made, self.vocabulary = folder, recipe, made, vocabulary
        self.task = kind_of(recipe).task(recipe, vocabulary)
        self._has_data = False
        self._engines: dict[str, Apart] = {}

    def predict(
        self,
        inputs: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]],
        *,
        first: int = 1,
        tell: Callable[[int], None] = lambda more: None,
        engine: str | None = None,
        **how: Any,
    ) -> Any:
        """Answer a text (an answer comes back) or many (a list does).

        A row of a table may be values by name. `how` is the task's own: beam and n_best for a
        translator. A message about the inputs counts them from `first`, where they are a part of
        more. With an `engine` (ctranslate2) it is that which answers, with what `export` wrote, in
        a process of its own.
        """
        alone = isinstance(inputs, str | Mapping)
        texts: list[Any] = [inputs] if alone else list(inputs)
        if engine is None:
            answers = self.task.predict(texts, first=first, tell=tell, **how)
        else:
            answers = self._engine(engine).predict(texts, first=first, tell=tell, **how)
        return answers[0] if alone else answers

    def export(self, to: str, folder: str | Path | None = None, **how: Any) -> Path:
        """Write the run for another tool (ctranslate2, huggingface), and say where.

        That is exports/ in the run's own folder, where an engine looks for it, unless a `folder`
        is given. `how` is the tool's own: quantization="int8" for CTranslate2.
        """
        write = pick(EXPORTS, to, "tool to export to")
        weights, _ = self.read(self.folder / "model.safetensors")
        out = self.folder / "exports" / to if folder is None else Path(folder)
        write(self, out, weights, how)
        if to in self._engines:  # what it has opened is no longer there
            self._engines[to].close()
        return out

    def _engine(self, name: str) -> Apart:
        """Started when it is first asked for, and kept."""
        if name not in self._engines:
            self._engines[name] = pick(ENGINES, name, "engine")(self.folder)
        return self._engines[name]

    def evaluate(
        self,
        data: str | Path | None = None,
        *,
        split: str = "test",
        tell: Callable[[int], None] = lambda more: None,
        **how: Any,
    ) -> dict[str, Any]:
        """Scores on a file, or on a split of the run's own data.

        Under "conventions" stands how each figure was counted.
        """
        split = self._split_for(data, split)
        figures, conventions = self.task.scored(split, tell=tell, **how)
        return {**figures, **self.task.tables(split), "conventions": conventions}

    def look(
        self,
        source: str,
        *,
        answer: str | None = None,
        kind: str | None = None,
        layer: int | None = None,
        head: int | None = None,
    ) -> Look:
        """Where the model looks as it writes its answer (or the one given).

        `kind` is cross, encoder or decoder, of a model of text self; layers and heads are counted
        from 1. With none of them, all maps of the kind that says most are given: cross, or self.
        """
        if answer is None:
            answer = self.predict(source).text
        every = self.task.maps(source, answer)
        if not every:
            raise ConfigError(
                f"{self.recipe.model.name} has no attention to look at. "
                "A translator has: bahdanau or transformer, say. Of models of text gpt2 has."
            )
        if kind is None:
            kind = "cross" if any(key[0] == "cross" for key in every) else next(iter(every))[0]
        chosen = {
            key: map_
            for key, map_ in every.items()
            if key[0] == kind and layer in (None, key[1]) and head in (None, key[2])
        }
        if not chosen:
            there = sorted(
                {
                    f"{k} (layers 1–{_most(every, k, 1)}, heads 1–{_most(every, k, 2)})"
                    for k, _, _ in every
                }
            )
            asked = [
                f"{what} {n}" for what, n in (("layer", layer), ("head", head)) if n is not None
            ]
            wanted = f" with {' and '.join(asked)}" if asked else ""
            raise ConfigError(
                f"There is no {kind} attention{wanted}. There are: {', '.join(there)}."
            )
        return Look(source, answer, chosen)

    def gradients(self, path: str | Path, *, inputs: int = 16) -> Any:
        """Draw how far back gradients reach, and what clipping did; the norms are returned."""
        if not hasattr(self.task, "gradients"):
            raise ConfigError(
                f"{self.recipe.task} has no picture of gradients; a recurrent language model has."
            )
        norms = self.task.gradients(self._split_for(None, "test"), inputs).cpu().double().numpy()
        try:
            save_gradients(norms, self.metrics(), self.recipe.train.clip, Path(path))
        except ValueError as error:
            raise ConfigError(str(error)) from None
        return norms

    def graph(self, path: str | Path, *, row: int = 1) -> Any:
        """Draw a held-out row's way forward and back through a small network of a table."""
        if not hasattr(self.task, "graph"):
            raise ConfigError(
                f"{self.recipe.task} has no graph to draw; a small network of a table has."
            )
        graph = self.task.graph(row, self._split_for(None, "test"))
        try:
            save_graph(graph, Path(path))
        except ValueError as error:
            raise ConfigError(str(error)) from None
        return graph

    def check(
        self,
        *,
        data: str | Path | None = None,
        inputs: int = 16,
        tell: Callable[[Finding], None] = lambda finding: None,
    ) -> list[Finding]:
        """Whether this model's answers depend on what they should not, on its own data.

        The findings are kept as checks.json beside the weights.
        """
        split = self._split_for(data, "test")
        findings = []
        for finding in (*self.task.check(split, inputs), *self._kept_findings(split, inputs)):
            findings.append(finding)
            tell(finding)
        values = [{**f._asdict(), "verdict": f.verdict} for f in findings]
        write_json(self.folder / "checks.json", {"saccade": __version__, "findings": values})
        return findings

    def _kept_findings(self, split: str, inputs: int) -> Iterator[Finding]:
        """Saved and reopened, exported and original."""
        with TemporaryDirectory() as place:
            self.save(Path(place))
            again = open_run(place)
        yield self.task.again(again.task, split, inputs)
        yield self._exported(split, inputs)

    def _exported(self, split: str, inputs: int) -> Finding:
        law = "exported equals original"
        if not export_folder(self.folder).exists():
            return not_tried(law, "there is no export of this run")
        try:
            rows = np.arange(min(inputs, len(self.task.encoded[split])))
            example = self.task.example(split, rows)
            from saccade.exchange.agreement import exported

            return exported(law, self.task.model, example, self._engine("ctranslate2"))
        except SaccadeError as error:  # it is of other weights, say
            return not_tried(law, str(error))

    def save(self, folder: Path) -> None:
        """Write all that prediction needs: settings, vocabulary, weights."""
        self.save_settings(folder)
        self._write(folder / "model.safetensors", self.task.weights(), {})

    def save_settings(self, folder: Path) -> None:
        """Write settings and vocabulary; run.toml comes last, and makes the folder a run."""
        self.save_vocabulary(folder)
        recipe = self.recipe.model_dump(exclude_none=True, mode="json")
        values = {"format": FORMAT, "made": self.made, "recipe": recipe}
        write_text(folder / "run.toml", tomli_w.dumps(values))

    def save_vocabulary(self, folder: Path) -> None:
        """Write what was learned of the data apart from weights: by it a begun folder is known."""
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "tokenizer.json", self.task.vocabulary_json())

    def metrics(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl."""
        return read_metrics(self.folder / "metrics.jsonl")

    @property
    def parameters(self) -> int:
        """How many numbers the model has learned."""
        return int(self.task.parameters)

    def _split_for(self, data: str | Path | None, split: str) -> str:
        """The split that a file becomes, or the run's own once its data is read."""
        if data is not None:
            return str(self.task.add_file(data))
        if split not in ("train", "dev", "test"):
            raise ConfigError(f"There is no split {split!r}. There are: dev, test, train.")
        if not self._has_data:
            self.give(_prepared(self.recipe, self.vocabulary, Options(), self._tokens()))
        return split

    def _tokens(self) -> Path | None:
        """Where the data lies as it was prepared, if it does."""
        return self.folder / "tokens" if (self.folder / "tokens").exists() else None

    def give(self, prepared: Prepared) -> None:
        """Hand the task its data."""
        self.task.give(prepared)
        self._has_data = True

    def own_data(self, options: "Options | None" = None) -> Prepared:
        """The data that it learns from, if it is what it was when the run began."""
        prepared = _prepared(self.recipe, self.vocabulary, options or Options(), self._tokens())
        if prepared.print() != self.made["data"]:
            raise DataError(
                f"the training data of {self.folder} ({self.task.name}) is not what it was "
                "when the run began. Bring it back, or start a new run."
            )
        return prepared

    def save_model(self, weights: dict[str, Any], facts: dict[str, Any]) -> None:
        """Replace the weights in the folder."""
        self._write(self.folder / "model.safetensors", weights, facts)

    @property
    def _write(self) -> Callable[..., None]:
        return write_arrays if kind_of(self.recipe).light else write_tensors

    @property
    def read(self) -> Callable[[Path], Any]:
        """How weights are read: as tensors, or as arrays where there is no torch."""
        return read_arrays if kind_of(self.recipe).light else read_tensors


def _to_ctranslate2(run: Run, out: Path, weights: dict[str, Any], how: dict[str, Any]) -> None:
    from saccade.exchange import ctranslate2

    parts = (run.recipe.model, run.recipe.data, run.vocabulary, weights)
    settings = build(ctranslate2.ExportConfig, how, "the export")
    ctranslate2.export(out, *parts, weights_seal(run.folder), settings)


def _to_huggingface(run: Run, out: Path, weights: dict[str, Any], how: dict[str, Any]) -> None:
    from saccade.exchange import huggingface

    build(Config, how, "the export")  # there is nothing to set
    huggingface.export(out, run.recipe.model, run.vocabulary, weights)


def _to_word_vectors(
    run: Run, out: Path, weights: dict[str, Any], how: dict[str, Any], *, layout: str
) -> None:
    from saccade.exchange import word_vectors

    build(Config, how, "the export")  # there is nothing to set
    if run.recipe.task != "vectors":
        raise ConfigError(f"{layout} holds word vectors, and {run.folder} has none.")
    word_vectors.export(layout, out, run.task.lexicon.words, run.task.model.of_words())


EXPORTS = {"ctranslate2": _to_ctranslate2, "huggingface": _to_huggingface} | {
    layout: partial(_to_word_vectors, layout=layout)
    for layout in ("fasttext", "glove", "word2vec", "word2vec-binary")
}
IMPORTS: Loaded[Callable[[Path], Any]] = Loaded(
    {
        "fasttext": "saccade.exchange.word_vectors:take_in_fasttext",
        "glove": "saccade.exchange.word_vectors:take_in_text",
        "gpt2": "saccade.exchange.huggingface:take_in",
        "word2vec": "saccade.exchange.word_vectors:take_in_text",
        "word2vec-binary": "saccade.exchange.word_vectors:take_in_binary",
    }
)
ENGINES = {"ctranslate2": Apart}


def _most(keys: Any, kind: str, place: int) -> int:
    return max(key[place] for key in keys if key[0] == kind)


# --- opening --------------------------------------------------------------------------------------


def open_run(folder: str | Path) -> Run:
    """Read a run: settings, vocabulary and weights, each checked against its seal."""
    folder = Path(folder)
    run = _open_without_weights(folder)
    weights, _ = run.read(folder / "model.safetensors")
    _load(run.task, weights, folder / "model.safetensors")
    if run.task.by_steps:
        from saccade.training.precision import device_named

        run.task.model.to(device_named(run.recipe.train.device)).eval()
    return run


def _open_without_weights(folder: Path) -> Run:
    values = read_settings(folder)
    recipe = read_recipe(values["recipe"], str(folder / "run.toml"))
    vocabulary = kind_of(recipe).vocabulary(read_json(folder / "tokenizer.json"))
    return Run(folder, recipe, values["made"], vocabulary)


def _load(task: Task, weights: dict[str, Any], path: Path) -> None:
    try:
        task.load(weights)
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()
        raise RunError(f"{path} does not fit the settings of its run: {reason}") from None


def take_in(kind: str, folder: str | Path, out: Path) -> Run:
    """A model that another tool has written, as a run: kind is its layout (gpt2)."""
    taken = pick(IMPORTS, kind, "layout to import from")(Path(folder))
    _check_free(out, overwrite=False)
    recipe = read_recipe(taken.recipe, str(folder))
    run = Run(out, recipe, _made(cores(), ""), taken.vocabulary)
    _load(run.task, taken.weights, Path(folder))
    run.save(out)
    return run


# --- training -------------------------------------------------------------------------------------


class Options(NamedTuple):
    """How a training is to be carried out, apart from its recipe."""

    name_model: bool = False  # let the data choose the model
    overwrite: bool = False
    weights_from: Path | None = None
    on: bool = False  # it goes on from those weights with other data: what they say of it is kept
    show: Console | None = None  # where progress goes; None: nowhere
    said: Callable[[str], None] = lambda message: None  # what a person should hear
    choices: Callable[[list[Choice]], None] = lambda choices: None
    tell: "Callable[[Event], None]" = lambda event: None


class Trained(NamedTuple):
    """A run, and why training ended: steps, minutes, patience, fitted, or stop (it can go on)."""

    run: Run
    ended: str


def train(recipe: Recipe, folder: Path, options: Options) -> Trained:
    """Train a recipe from its beginning into a new folder."""
    _check_free(folder, options.overwrite)
    if not kind_of(recipe).light:
        from saccade.training.precision import device_named

        device_named(recipe.train.device)  # before the old run is cleared away, not after
    threads = _set_threads(recipe, recipe.train.threads)
    other = None
    if options.weights_from is not None:
        other = open_run(options.weights_from)
        if folder.exists() and folder.samefile(other.folder):
            raise RunError(
                f"{folder} is the run to start from, and would be replaced; choose another folder "
                "(--out)."
            )
        if options.name_model:
            recipe = recipe.with_values(model={"name": other.recipe.model.name})
            options = options._replace(name_model=False)
        recipe = as_the_other(recipe, other.recipe, str(other.folder), other.task.by_steps)
    with _beside(folder) as place:
        prepared = _prepared(recipe, other and other.vocabulary, options, place)
        options.choices(prepared.choices)
        for note in prepared.notes:
            options.said(note)
        made = _made(threads, prepared.print())
        run = Run(folder, prepared.recipe, made, prepared.vocabulary)
        if other is not None:
            _start_from(run, other, prepared, options)
        run.give(prepared)
        if options.on:
            run.made["before"] = _before(run, options)
        folder.mkdir(parents=True, exist_ok=True)
        with alone_in(folder):
            _clear(folder)
            run.save_vocabulary(folder)
            if place.exists():
                place.rename(folder / "tokens")
            if other is not None:
                from saccade.sitting import keep_start

                keep_start(run.task, folder)
            run.save_settings(folder)
            return _go_on(run, options)


def _start_from(run: Run, other: Run, prepared: Prepared, options: Options) -> None:
    """Take over another run's weights, and note whose they are."""
    if strange := run.task.strange(prepared):
        found = "".join(f"\n  - {complaint}" for complaint in strange)
        raise DataError(
            f"{run.task.name} has what {other.folder} cannot learn. Leave it out, or train from "
            f"the beginning:{found}"
        )
    _load(run.task, other.task.weights(), other.folder / "model.safetensors")
    run.made["from"] = str(options.weights_from)


def _before(run: Run, options: Options) -> dict[str, float]:
    """What the weights to start from are worth on the held-out part of the new data."""
    console = options.show or Console(quiet=True)
    with counting(console, "how it does before") as bar:
        figures, _ = run.task.scored("test", tell=bar)
    shown = ", ".join(f"{name} {value:.4g}" for name, value in figures.items())
    options.said(f"Before it goes on, on {run.task.name}: {shown}.")
    return dict(figures)


def _made(threads: int, data: str) -> dict[str, Any]:
    return {
        "saccade": __version__,
        "torch": metadata.version("torch"),
        "python": platform.python_version(),
        "threads": threads,
        "data": data,
    }


def _set_threads(recipe: Recipe, threads: int | None) -> int:
    """So many threads, or as many as there are cores: how many that is."""
    if kind_of(recipe).light:
        return threads or cores()
    from saccade.training.precision import set_threads

    return set_threads(threads)


def resume(folder: Path, changes: dict[str, Any], options: Options) -> Trained:
    """Go on with a training that was stopped, as if it had not been."""
    run = _open_without_weights(folder)
    with alone_in(folder):
        return _resumed(run, changes, options)


def _resumed(run: Run, changes: dict[str, Any], options: Options) -> Trained:
    folder = run.folder
    if changed := _changed(run.recipe, changes):
        raise ConfigError(
            f"{folder} cannot be resumed with other settings ({'; '.join(changed)}). "
            "Resume it as it was, or start a new run from its weights with --from."
        )
    has_weights = (folder / "model.safetensors").exists()
    if has_weights and run.task.by_steps and not _checkpoints(folder):
        raise RunError(
            f"{folder} has weights but no checkpoint to go on from. "
            "Start a new run from its weights with --from."
        )
    threads = _set_threads(run.recipe, run.recipe.train.threads or run.made["threads"])
    if threads != run.made["threads"]:
        options.said(
            f"This run was started with {run.made['threads']} threads and goes on with {threads}: "
            "its figures may differ in the last bits."
        )
    run.give(run.own_data(options))
    return _go_on(run, options)


def _checkpoints(folder: Path) -> list[Path]:
    from saccade.training.resume import checkpoints

    return checkpoints(folder / "checkpoint")


def _changed(recipe: Recipe, changes: dict[str, Any]) -> list[str]:
    """What is asked to be otherwise; another model has other settings, so its name is enough."""
    name = changes.get("model.name", recipe.model.name)
    if name != recipe.model.name:
        return [f"model.name: {recipe.model.name!r} → {name!r}"]
    return differences(recipe, set_paths(recipe, changes))


def _prepared(recipe: Recipe, vocabulary: Any, options: Options, place: Path | None) -> Prepared:
    console = options.show or Console(quiet=True)
    with counting(console, "reading the data") as bar:
        return kind_of(recipe).prepare(recipe, bar.show, vocabulary, options.name_model, place)


@contextmanager
def _beside(folder: Path) -> Iterator[Path]:
    """Where data is prepared before the folder may be touched; taken away if it is not moved."""
    for left in folder.parent.glob(f".{folder.name}.*.tokens"):
        if not _lives(left.name.split(".")[-2]):  # it was killed
            shutil.rmtree(left, ignore_errors=True)
    place = folder.with_name(f".{folder.name}.{os.getpid()}.tokens")
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _lives(process: str) -> bool:
    """Whether there is a process of that number."""
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, ValueError, OverflowError):
        return False
    except OSError:  # it is not ours
        return True
    return True


def _check_free(folder: Path, overwrite: bool) -> None:
    if folder.is_file():
        raise RunError(f"{folder} is a file; a folder for the run was wanted.")
    if (folder / "run.toml").exists() and not overwrite:
        raise RunError(
            f"{folder} already holds a run. Go on with it (--resume {folder}), replace it "
            "(--overwrite), or choose another folder (--out)."
        )
    own = _own(folder) if (folder / "run.toml").exists() else _begun(folder)
    strangers = sorted(path.name for path in folder.glob("*") if path not in own)
    if strangers:
        raise RunError(
            f"{folder} holds other things ({', '.join(strangers[:3])}); "
            "choose an empty or a new folder (--out)."
        )


def _own(folder: Path) -> list[Path]:
    """What is a run's in its folder, run.toml last: while that is there, the rest is a run's."""
    return [*_parts(folder), *(folder / name for name in (*OWN_FOLDERS, *reversed(OWN)))]


def _begun(folder: Path) -> list[Path]:
    """What a training leaves that was killed before it had written its run.toml."""
    try:
        read_json(folder / "tokenizer.json")
    except RunError:
        return _parts(folder)
    return [*_parts(folder), *(folder / name for name in (*OWN_FOLDERS, "tokenizer.json"))]


def _parts(folder: Path) -> list[Path]:
    return [path for name in OWN for path in folder.glob(f".{name}.*.part")]


def _clear(folder: Path) -> None:
    """Take away the run that is to be overwritten, and nothing else."""
    for path in _own(folder):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _go_on(run: Run, options: Options) -> Trained:
    """The training itself, from the newest checkpoint or from the beginning."""
    for begun in run.folder.rglob(".*.part"):  # by a sitting that was killed
        begun.unlink(missing_ok=True)
    if not run.task.by_steps:
        return _fit(run, options)
    from saccade.sitting import learn

    show = options.show or Console(quiet=True)
    ended = learn(run.task, run.folder, show=show, said=options.said, tell=options.tell)
    if ended != "stop":
        report(run, options)
    return Trained(run, ended)


def _fit(run: Run, options: Options) -> Trained:
    """Let a model fit itself; one that cannot go on from where it was begins anew."""
    kept = run.folder / "checkpoint" / "fitting.safetensors"
    stood, facts = run.read(kept) if kept.exists() else (None, {"seconds": 0.0})
    began = time.monotonic() - facts["seconds"]
    lines = [line for line in run.metrics() if line["seconds"] <= facts["seconds"]]

    def note(figures: dict[str, float]) -> None:
        seconds = round(time.monotonic() - began, 2)
        lines.append({"step": len(lines) + 1, **figures, "seconds": seconds})
        content = "".join(json.dumps(line) + "\n" for line in lines)
        write_atomically(run.folder / "metrics.jsonl", content.encode())

    def save(standing: dict[str, Any]) -> None:
        kept.parent.mkdir(exist_ok=True)
        run._write(kept, standing, {"seconds": time.monotonic() - began})

    with ExitStack() as stack:
        console = options.show or Console(quiet=True)
        bar = stack.enter_context(counting(console, f"fitting {run.recipe.model.name}"))
        stop = stack.enter_context(interrupts()) if run.task.goes_on else lambda: False
        run.task.fit(Fitting(bar.show, note, stop, save, stood, run.made["threads"], run._tokens()))
        if stop():
            return Trained(run, "stop")
    scores = run.task.evaluate("dev")
    facts = {"step": 1, "goodness": run.task.goodness(scores), "ended": "fitted"}
    run.save_model(run.task.weights(), facts)
    note({**{f"dev_{name}": value for name, value in scores.items()}, "best": True})
    kept.unlink(missing_ok=True)
    report(run, options)
    return Trained(run, "fitted")


def report(run: Run, options: Options) -> None:
    """Draw the curves, and what the task has to show."""
    folder = run.folder / "report"
    folder.mkdir(exist_ok=True)
    messages = run.task.pictures(folder)
    if run.task.by_steps:
        messages += save_curves(run.metrics(), folder / "curves.png")
    for message in messages:
        options.said(message)
