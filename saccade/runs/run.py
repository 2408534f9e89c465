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
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import tomli_w
from rich.console import Console

from saccade import __version__
from saccade.config import Config, build_config, diff_settings, override_settings
from saccade.errors import ConfigError, DataError, RunError, SaccadeError
from saccade.inspection.checks import CheckResult, skipped
from saccade.interop.ctranslate2.engine import export_folder
from saccade.interop.ctranslate2.subprocess import SubprocessEngine
from saccade.io.atomic import (
    read_checksummed_json,
    write_atomically,
    write_checksummed_json,
    write_checksummed_text,
)
from saccade.io.lock import lock_folder
from saccade.io.run_folder import (
    RUN_FILES,
    RUN_FOLDERS,
    RUN_FORMAT,
    read_metrics,
    read_run_settings,
    weights_checksum,
)
from saccade.io.tensors import read_arrays, read_tensors, write_arrays, write_tensors
from saccade.plots.attention import save_attention_maps, save_training_curves
from saccade.plots.computation_graph import save_computation_graph
from saccade.plots.gradients import save_gradient_norms
from saccade.plots.terminal import AttentionMap, render_terminal
from saccade.registry import LazyRegistry, lookup
from saccade.runs.warm_start import inherit_config
from saccade.tasks.registry import read_recipe, task_spec_for
from saccade.tasks.task import Choice, FitContext, PreparedData, Recipe, Task
from saccade.training.cpu import available_cpus
from saccade.training.progress import show_progress
from saccade.training.signals import stop_on_signal

if TYPE_CHECKING:
    from saccade.training.loop import Event


class AttentionMaps:
    """The attention maps of one answer."""

    def __init__(self, source: str, answer: str, maps: dict[tuple[str, int, int], AttentionMap]):
        self.source, self.answer = source, answer
        self.maps = maps  # by (kind, layer, head), both counted from 1

    def save(self, path: str | Path) -> list[str]:
        """Draw them into a picture (.png, .svg or .pdf); what is to be said is returned."""
        try:
            return save_attention_maps(list(self.maps.values()), Path(path))
        except ValueError as error:
            raise ConfigError(str(error)) from None

    def terminal(self, width: int = 80, colour: bool = True) -> str:
        """The first map, ready to print."""
        return render_terminal(next(iter(self.maps.values())), width, colour)


class Run:
    """A trained model in its folder."""

    def __init__(self, folder: Path, recipe: Recipe, metadata: dict[str, Any], vocabulary: Any):
        self.folder, self.recipe, self.metadata, self.vocabulary = (
            folder,
            recipe,
            metadata,
            vocabulary,
        )
        self.task = task_spec_for(recipe).task(recipe, vocabulary)
        self._has_data = False
        self._engines: dict[str, SubprocessEngine] = {}

    def predict(
        self,
        inputs: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]],
        *,
        first: int = 1,
        on_progress: Callable[[int], None] = lambda more: None,
        engine: str | None = None,
        **options: Any,
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
            answers = self.task.predict(texts, first=first, on_progress=on_progress, **options)
        else:
            answers = self._engine(engine).predict(
                texts, first=first, on_progress=on_progress, **options
            )
        return answers[0] if alone else answers

    def export(self, to: str, folder: str | Path | None = None, **options: Any) -> Path:
        """Write the run for another tool (ctranslate2, huggingface), and say where.

        That is exports/ in the run's own folder, where an engine looks for it, unless a `folder`
        is given. `how` is the tool's own: quantization="int8" for CTranslate2.
        """
        write = lookup(EXPORTERS, to, "tool to export to")
        weights, _ = self.read_weights(self.folder / "model.safetensors")
        out = self.folder / "exports" / to if folder is None else Path(folder)
        write(self, out, weights, options)
        if to in self._engines:  # what it has opened is no longer there
            self._engines[to].close()
        return out

    def _engine(self, name: str) -> SubprocessEngine:
        """Started when it is first asked for, and kept."""
        if name not in self._engines:
            self._engines[name] = lookup(SUBPROCESS_ENGINES, name, "engine")(self.folder)
        return self._engines[name]

    def evaluate(
        self,
        data: str | Path | None = None,
        *,
        split: str = "test",
        on_progress: Callable[[int], None] = lambda more: None,
        **options: Any,
    ) -> dict[str, Any]:
        """Scores on a file, or on a split of the run's own data.

        Under "conventions" stands how each figure was counted.
        """
        split = self._split_for(data, split)
        figures, conventions = self.task.evaluate_with_conventions(
            split, on_progress=on_progress, **options
        )
        return {**figures, **self.task.tables(split), "conventions": conventions}

    def look(
        self,
        source: str,
        *,
        answer: str | None = None,
        kind: str | None = None,
        layer: int | None = None,
        head: int | None = None,
    ) -> AttentionMaps:
        """Where the model looks as it writes its answer (or the one given).

        `kind` is cross, encoder or decoder, of a model of text self; layers and heads are counted
        from 1. With none of them, all maps of the kind that says most are given: cross, or self.
        """
        if answer is None:
            answer = self.predict(source).text
        every = self.task.attention_maps(source, answer)
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
        return AttentionMaps(source, answer, chosen)

    def plot_gradients(self, path: str | Path, *, inputs: int = 16) -> Any:
        """Draw how far back gradients reach, and what clipping did; the norms are returned."""
        if not hasattr(self.task, "gradients"):
            raise ConfigError(
                f"{self.recipe.task} has no picture of gradients; a recurrent language model has."
            )
        norms = self.task.gradients(self._split_for(None, "test"), inputs).cpu().double().numpy()
        try:
            save_gradient_norms(norms, self.metrics(), self.recipe.train.clip_norm, Path(path))
        except ValueError as error:
            raise ConfigError(str(error)) from None
        return norms

    def plot_graph(self, path: str | Path, *, row: int = 1) -> Any:
        """Draw a held-out row's way forward and back through a small network of a table."""
        if not hasattr(self.task, "graph"):
            raise ConfigError(
                f"{self.recipe.task} has no graph to draw; a small network of a table has."
            )
        graph = self.task.graph(row, self._split_for(None, "test"))
        try:
            save_computation_graph(graph, Path(path))
        except ValueError as error:
            raise ConfigError(str(error)) from None
        return graph

    def check(
        self,
        *,
        data: str | Path | None = None,
        inputs: int = 16,
        on_result: Callable[[CheckResult], None] = lambda finding: None,
    ) -> list[CheckResult]:
        """Whether this model's answers depend on what they should not, on its own data.

        The findings are kept as checks.json beside the weights.
        """
        split = self._split_for(data, "test")
        findings = []
        for finding in (*self.task.check(split, inputs), *self._kept_findings(split, inputs)):
            findings.append(finding)
            on_result(finding)
        values = [{**f._asdict(), "verdict": f.verdict} for f in findings]
        write_checksummed_json(
            self.folder / "checks.json", {"saccade": __version__, "findings": values}
        )
        return findings

    def _kept_findings(self, split: str, inputs: int) -> Iterator[CheckResult]:
        """Saved and reopened, exported and original."""
        with TemporaryDirectory() as place:
            self.save(Path(place))
            compare_reloaded = load_run(place)
        yield self.task.compare_reloaded(compare_reloaded.task, split, inputs)
        yield self._exported(split, inputs)

    def _exported(self, split: str, inputs: int) -> CheckResult:
        invariant = "exported equals original"
        if not export_folder(self.folder).exists():
            return skipped(invariant, "there is no export of this run")
        try:
            rows = np.arange(min(inputs, len(self.task.encoded[split])))
            example = self.task.example(split, rows)
            from saccade.interop.parity import check_export

            return check_export(invariant, self.task.model, example, self._engine("ctranslate2"))
        except SaccadeError as error:  # it is of other weights, say
            return skipped(invariant, str(error))

    def save(self, folder: Path) -> None:
        """Write all that prediction needs: settings, vocabulary, weights."""
        self.save_settings(folder)
        self._write(folder / "model.safetensors", self.task.weights(), {})

    def save_settings(self, folder: Path) -> None:
        """Write settings and vocabulary; run.toml comes last, and makes the folder a run."""
        self.save_preprocessor(folder)
        recipe = self.recipe.model_dump(exclude_none=True, mode="json")
        values = {"format": RUN_FORMAT, "made": self.metadata, "recipe": recipe}
        write_checksummed_text(folder / "run.toml", tomli_w.dumps(values))

    def save_preprocessor(self, folder: Path) -> None:
        """Write what was learned of the data apart from weights: by it a begun folder is known."""
        folder.mkdir(parents=True, exist_ok=True)
        write_checksummed_json(folder / "tokenizer.json", self.task.vocabulary_json())

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
            return str(self.task.load_split(data))
        if split not in ("train", "dev", "test"):
            raise ConfigError(f"There is no split {split!r}. There are: dev, test, train.")
        if not self._has_data:
            self.attach_data(
                _prepared(self.recipe, self.vocabulary, TrainOptions(), self._tokens())
            )
        return split

    def _tokens(self) -> Path | None:
        """Where the data lies as it was prepared, if it does."""
        return self.folder / "tokens" if (self.folder / "tokens").exists() else None

    def attach_data(self, prepared: PreparedData) -> None:
        """Hand the task its data."""
        self.task.attach_data(prepared)
        self._has_data = True

    def load_training_data(self, options: "TrainOptions | None" = None) -> PreparedData:
        """The data that it learns from, if it is what it was when the run began."""
        prepared = _prepared(
            self.recipe, self.vocabulary, options or TrainOptions(), self._tokens()
        )
        if prepared.fingerprint() != self.metadata["data"]:
            raise DataError(
                f"the training data of {self.folder} ({self.task.name}) is not what it was "
                "when the run began. Bring it back, or start a new run."
            )
        return prepared

    def save_weights(self, weights: dict[str, Any], metadata: dict[str, Any]) -> None:
        """Replace the weights in the folder."""
        self._write(self.folder / "model.safetensors", weights, metadata)

    @property
    def _write(self) -> Callable[..., None]:
        return write_arrays if task_spec_for(self.recipe).torch_free else write_tensors

    @property
    def read_weights(self) -> Callable[[Path], Any]:
        """How weights are read: as tensors, or as arrays where there is no torch."""
        return read_arrays if task_spec_for(self.recipe).torch_free else read_tensors


def _to_ctranslate2(run: Run, out: Path, weights: dict[str, Any], options: dict[str, Any]) -> None:
    from saccade.interop.ctranslate2.export import CTranslate2ExportConfig, export_ctranslate2

    parts = (run.recipe.model, run.recipe.data, run.vocabulary, weights)
    settings = build_config(CTranslate2ExportConfig, options, "the export")
    export_ctranslate2(out, *parts, weights_checksum(run.folder), settings)


def _to_huggingface(run: Run, out: Path, weights: dict[str, Any], options: dict[str, Any]) -> None:
    from saccade.interop import huggingface_gpt2

    build_config(Config, options, "the export")  # there is nothing to set
    huggingface_gpt2.export_gpt2(out, run.recipe.model, run.vocabulary, weights)


def _to_word_vectors(
    run: Run, out: Path, weights: dict[str, Any], options: dict[str, Any], *, layout: str
) -> None:
    from saccade.interop import word_vectors

    build_config(Config, options, "the export")  # there is nothing to set
    if run.recipe.task != "vectors":
        raise ConfigError(f"{layout} holds word vectors, and {run.folder} has none.")
    word_vectors.export_word_vectors(
        layout, out, run.task.lexicon.words, run.task.model.word_vectors()
    )


EXPORTERS = {"ctranslate2": _to_ctranslate2, "huggingface": _to_huggingface} | {
    layout: partial(_to_word_vectors, layout=layout)
    for layout in ("fasttext", "glove", "word2vec", "word2vec-binary")
}
IMPORTERS: LazyRegistry[Callable[[Path], Any]] = LazyRegistry(
    {
        "fasttext": "saccade.interop.word_vectors:import_fasttext_vectors",
        "glove": "saccade.interop.word_vectors:import_text_vectors",
        "gpt2": "saccade.interop.huggingface_gpt2:import_gpt2",
        "word2vec": "saccade.interop.word_vectors:import_text_vectors",
        "word2vec-binary": "saccade.interop.word_vectors:import_binary_vectors",
    }
)
SUBPROCESS_ENGINES = {"ctranslate2": SubprocessEngine}


def _most(keys: Any, kind: str, place: int) -> int:
    return max(key[place] for key in keys if key[0] == kind)


# --- opening --------------------------------------------------------------------------------------


def load_run(folder: str | Path) -> Run:
    """Read a run: settings, vocabulary and weights, each checked against its seal."""
    folder = Path(folder)
    run = _open_without_weights(folder)
    weights, _ = run.read_weights(folder / "model.safetensors")
    _load(run.task, weights, folder / "model.safetensors")
    if run.task.is_trained:
        from saccade.training.device import resolve_device

        run.task.model.to(resolve_device(run.recipe.train.device)).eval()
    return run


def _open_without_weights(folder: Path) -> Run:
    values = read_run_settings(folder)
    recipe = read_recipe(values["recipe"], str(folder / "run.toml"))
    vocabulary = task_spec_for(recipe).vocabulary(read_checksummed_json(folder / "tokenizer.json"))
    return Run(folder, recipe, values["made"], vocabulary)


def _load(task: Task, weights: dict[str, Any], path: Path) -> None:
    try:
        task.load(weights)
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()
        raise RunError(f"{path} does not fit the settings of its run: {reason}") from None


def import_run(kind: str, folder: str | Path, out: Path) -> Run:
    """A model that another tool has written, as a run: kind is its layout (gpt2)."""
    taken = lookup(IMPORTERS, kind, "layout to import from")(Path(folder))
    check_folder_is_free(out, overwrite=False)
    recipe = read_recipe(taken.recipe, str(folder))
    run = Run(out, recipe, _made(available_cpus(), ""), taken.vocabulary)
    _load(run.task, taken.weights, Path(folder))
    run.save(out)
    return run


# --- training -------------------------------------------------------------------------------------


class TrainOptions(NamedTuple):
    """How a training is to be carried out, apart from its recipe."""

    auto_model: bool = False  # let the data choose the model
    overwrite: bool = False
    init_from: Path | None = None
    is_finetuning: bool = (
        False  # it goes on from those weights with other data: what they say of it is kept
    )
    console: Console | None = None  # where progress goes; None: nowhere
    log: Callable[[str], None] = lambda message: None  # what a person should hear
    on_choices: Callable[[list[Choice]], None] = lambda choices: None
    on_event: "Callable[[Event], None]" = lambda event: None


class TrainResult(NamedTuple):
    """A run, and why training ended: steps, minutes, patience, fitted, or stop (it can go on)."""

    run: Run
    stop_reason: str


def train_recipe(recipe: Recipe, folder: Path, options: TrainOptions) -> TrainResult:
    """Train a recipe from its beginning into a new folder."""
    check_folder_is_free(folder, options.overwrite)
    if not task_spec_for(recipe).torch_free:
        from saccade.training.device import resolve_device

        resolve_device(recipe.train.device)  # before the old run is cleared away, not after
    threads = _set_threads(recipe, recipe.train.threads)
    other = None
    if options.init_from is not None:
        other = load_run(options.init_from)
        if folder.exists() and folder.samefile(other.folder):
            raise RunError(
                f"{folder} is the run to start from, and would be replaced; choose another folder "
                "(--out)."
            )
        if options.auto_model:
            recipe = recipe.with_values(model={"name": other.recipe.model.name})
            options = options._replace(auto_model=False)
        recipe = inherit_config(recipe, other.recipe, str(other.folder), other.task.is_trained)
    with _beside(folder) as place:
        prepared = _prepared(recipe, other and other.vocabulary, options, place)
        options.on_choices(prepared.choices)
        for note in prepared.notes:
            options.log(note)
        metadata = _made(threads, prepared.fingerprint())
        run = Run(folder, prepared.recipe, metadata, prepared.vocabulary)
        if other is not None:
            _start_from(run, other, prepared, options)
        run.attach_data(prepared)
        if options.is_finetuning:
            run.metadata["before"] = _before(run, options)
        folder.mkdir(parents=True, exist_ok=True)
        with lock_folder(folder):
            remove_run(folder)
            run.save_preprocessor(folder)
            if place.exists():
                place.rename(folder / "tokens")
            if other is not None:
                from saccade.training.session import save_initial_checkpoint

                save_initial_checkpoint(run.task, folder)
            run.save_settings(folder)
            return _go_on(run, options)


def _start_from(run: Run, other: Run, prepared: PreparedData, options: TrainOptions) -> None:
    """Take over another run's weights, and note whose they are."""
    if incompatible := run.task.incompatible(prepared):
        found = "".join(f"\n  - {complaint}" for complaint in incompatible)
        raise DataError(
            f"{run.task.name} has what {other.folder} cannot learn. Leave it out, or train from "
            f"the beginning:{found}"
        )
    _load(run.task, other.task.weights(), other.folder / "model.safetensors")
    run.metadata["from"] = str(options.init_from)


def _before(run: Run, options: TrainOptions) -> dict[str, float]:
    """What the weights to start from are worth on the held-out part of the new data."""
    console = options.console or Console(quiet=True)
    with show_progress(console, "how it does before") as bar:
        figures, _ = run.task.evaluate_with_conventions("test", on_progress=bar)
    shown = ", ".join(f"{name} {value:.4g}" for name, value in figures.items())
    options.log(f"Before it goes on, on {run.task.name}: {shown}.")
    return dict(figures)


def _made(threads: int, data: str) -> dict[str, Any]:
    return {
        "saccade": __version__,
        "torch": version("torch"),
        "python": platform.python_version(),
        "threads": threads,
        "data": data,
    }


def _set_threads(recipe: Recipe, threads: int | None) -> int:
    """So many threads, or as many as there are cores: how many that is."""
    if task_spec_for(recipe).torch_free:
        return threads or available_cpus()
    from saccade.training.device import set_num_threads

    return set_num_threads(threads)


def resume(folder: Path, changes: dict[str, Any], options: TrainOptions) -> TrainResult:
    """Go on with a training that was stopped, as if it had not been."""
    run = _open_without_weights(folder)
    with lock_folder(folder):
        return _resumed(run, changes, options)


def _resumed(run: Run, changes: dict[str, Any], options: TrainOptions) -> TrainResult:
    folder = run.folder
    if changed := _changed(run.recipe, changes):
        raise ConfigError(
            f"{folder} cannot be resumed with other settings ({'; '.join(changed)}). "
            "Resume it as it was, or start a new run from its weights with --from."
        )
    has_weights = (folder / "model.safetensors").exists()
    if has_weights and run.task.is_trained and not _checkpoints(folder):
        raise RunError(
            f"{folder} has weights but no checkpoint to go on from. "
            "Start a new run from its weights with --from."
        )
    threads = _set_threads(run.recipe, run.recipe.train.threads or run.metadata["threads"])
    if threads != run.metadata["threads"]:
        options.log(
            f"This run was started with {run.metadata['threads']} threads and goes on with {threads}: "
            "its figures may differ in the last bits."
        )
    run.attach_data(run.load_training_data(options))
    return _go_on(run, options)


def _checkpoints(folder: Path) -> list[Path]:
    from saccade.training.checkpoint import list_checkpoints

    return list_checkpoints(folder / "checkpoint")


def _changed(recipe: Recipe, changes: dict[str, Any]) -> list[str]:
    """What is asked to be otherwise; another model has other settings, so its name is enough."""
    name = changes.get("model.name", recipe.model.name)
    if name != recipe.model.name:
        return [f"model.name: {recipe.model.name!r} → {name!r}"]
    return diff_settings(recipe, override_settings(recipe, changes))


def _prepared(
    recipe: Recipe, vocabulary: Any, options: TrainOptions, place: Path | None
) -> PreparedData:
    console = options.console or Console(quiet=True)
    with show_progress(console, "reading the data") as bar:
        return task_spec_for(recipe).prepare(
            recipe, bar.update, vocabulary, options.auto_model, place
        )


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


def check_folder_is_free(folder: Path, overwrite: bool) -> None:
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
    return [*_parts(folder), *(folder / name for name in (*RUN_FOLDERS, *reversed(RUN_FILES)))]


def _begun(folder: Path) -> list[Path]:
    """What a training leaves that was killed before it had written its run.toml."""
    try:
        read_checksummed_json(folder / "tokenizer.json")
    except RunError:
        return _parts(folder)
    return [*_parts(folder), *(folder / name for name in (*RUN_FOLDERS, "tokenizer.json"))]


def _parts(folder: Path) -> list[Path]:
    return [path for name in RUN_FILES for path in folder.glob(f".{name}.*.part")]


def remove_run(folder: Path) -> None:
    """Take away the run that is to be overwritten, and nothing else."""
    for path in _own(folder):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _go_on(run: Run, options: TrainOptions) -> TrainResult:
    """The training itself, from the newest checkpoint or from the beginning."""
    for begun in run.folder.rglob(".*.part"):  # by a sitting that was killed
        begun.unlink(missing_ok=True)
    if not run.task.is_trained:
        return _fit(run, options)
    from saccade.training.session import run_training_session

    console = options.console or Console(quiet=True)
    stop_reason = run_training_session(
        run.task, run.folder, console=console, warn=options.log, on_event=options.on_event
    )
    if stop_reason != "stop":
        write_report(run, options)
    return TrainResult(run, stop_reason)


def _fit(run: Run, options: TrainOptions) -> TrainResult:
    """Let a model fit itself; one that cannot go on from where it was begins anew."""
    kept = run.folder / "checkpoint" / "fitting.safetensors"
    resume_state, metadata = run.read_weights(kept) if kept.exists() else (None, {"seconds": 0.0})
    began = time.monotonic() - metadata["seconds"]
    lines = [line for line in run.metrics() if line["seconds"] <= metadata["seconds"]]

    def note(figures: dict[str, float]) -> None:
        seconds = round(time.monotonic() - began, 2)
        lines.append({"step": len(lines) + 1, **figures, "seconds": seconds})
        content = "".join(json.dumps(line) + "\n" for line in lines)
        write_atomically(run.folder / "metrics.jsonl", content.encode())

    def save(standing: dict[str, Any]) -> None:
        kept.parent.mkdir(exist_ok=True)
        run._write(kept, standing, {"seconds": time.monotonic() - began})

    with ExitStack() as stack:
        console = options.console or Console(quiet=True)
        bar = stack.enter_context(show_progress(console, f"fitting {run.recipe.model.name}"))
        stop = stack.enter_context(stop_on_signal()) if run.task.is_resumable else lambda: False
        run.task.fit(
            FitContext(
                bar.update, note, stop, save, resume_state, run.metadata["threads"], run._tokens()
            )
        )
        if stop():
            return TrainResult(run, "stop")
    scores = run.task.evaluate("dev")
    metadata = {"step": 1, "goodness": run.task.selection_score(scores), "ended": "fitted"}
    run.save_weights(run.task.weights(), metadata)
    note({**{f"dev_{name}": value for name, value in scores.items()}, "best": True})
    kept.unlink(missing_ok=True)
    write_report(run, options)
    return TrainResult(run, "fitted")


def write_report(run: Run, options: TrainOptions) -> None:
    """Draw the curves, and what the task has to show."""
    folder = run.folder / "report"
    folder.mkdir(exist_ok=True)
    messages = run.task.save_plots(folder)
    if run.task.is_trained:
        messages += save_training_curves(run.metrics(), folder / "curves.png")
    for message in messages:
        options.log(message)
