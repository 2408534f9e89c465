"""A trained model in its folder: settings, weights, preprocessor, metrics.

run.toml            resolved settings, versions, threads, fingerprint of the data, origin
tokenizer.json      the preprocessor: tokenizers, table schema or standardiser
model.safetensors   the best weights so far
metrics.jsonl       one line per report and evaluation
checks.json         results of the invariance checks
scores.json         metrics of these weights on the test split
report/             curves.png and the figures of the task
exports/            the same model for other tools
checkpoint/         what resuming needs
tensorboard/        event files of TensorBoard (train.tensorboard=true)
tokens/             a long text as token ids, memory-mapped
images/             decoded images, memory-mapped

Opening a run executes nothing: TOML, JSON and safetensors only.
"""

import logging
import platform
import shlex
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from importlib.metadata import version
from math import isfinite, prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import tomli_w
from numpy.typing import NDArray
from rich.console import Console

from saccade import __version__
from saccade.config import override_settings
from saccade.data.prediction_inputs import list_inputs
from saccade.data.splits import SPLIT_NAMES
from saccade.data.task_records import given_columns
from saccade.data.task_roles import data_settings, role_settings
from saccade.errors import ConfigError, DataError, RunError, SaccadeError
from saccade.inspection.checks import CheckResult, skipped
from saccade.inspection.figures import ComputationGraph, GradientNorms
from saccade.interop.ctranslate2.engine import export_folder, write_parity
from saccade.interop.registry import EXPORTS, IMPORTS, SUBPROCESS_ENGINES, ModelParts
from saccade.io.atomic import (
    corrupt_file_error,
    read_checksummed_json,
    write_checksummed_json,
    write_checksummed_text,
)
from saccade.io.machine import is_made_here, sign_paths
from saccade.io.run_folder import (
    RUN_FORMAT,
    read_metrics,
    read_run_settings,
    read_weights_info,
    weights_checksum,
)
from saccade.io.staging import (
    check_output_folder,
    check_output_path,
    replace_folder,
    staging_folder,
)
from saccade.io.tensors import read_arrays, read_tensors, write_arrays, write_tensors
from saccade.plots.render import save_figure
from saccade.registry import lookup
from saccade.runs.attention_maps import AttentionMaps, select_maps
from saccade.runs.data_paths import (
    check_foreign_sources,
    is_outside,
    locate_paths,
    remember_paths,
)
from saccade.runs.episode import Episode
from saccade.runs.explanation import Explanation
from saccade.runs.heat_maps import HeatMaps, select_heat_maps
from saccade.runs.image_explanation import ImageEmbedding, ImageExplanation, ImageTiles
from saccade.runs.importance import ColumnImportance
from saccade.runs.memory import check_model_memory, check_stored_values
from saccade.runs.notebook import run_html
from saccade.runs.summary import TEST_SCORES_FILE, RunSummary, summarise_run
from saccade.runs.workspace import check_folder_is_free
from saccade.tasks.base import (
    DEFAULT_OPTIONS,
    AnyTaskSpec,
    Components,
    Evaluator,
    Inspector,
    Model,
    PredictContext,
    Predictor,
    PrepareContext,
    PreparedData,
    Recipe,
)
from saccade.tasks.registry import read_recipe, task_spec_for
from saccade.training.cpu import available_cpus
from saccade.training.fit_session import WeightFiles
from saccade.training.progress import show_progress
from saccade.types.progress import Progress, ignore_progress
from saccade.types.results import ComparisonMetric, Evaluation, Prediction

if TYPE_CHECKING:
    from saccade.runs.search import SearchTree


class Run:
    """A trained model in its folder. Threads may share it for prediction and evaluation."""

    def __init__(self, folder: Path, recipe: Recipe, metadata: dict[str, Any], preprocessor: Any):
        self.folder, self.recipe, self.metadata = folder, recipe, metadata
        self.preprocessor = preprocessor
        self.spec: AnyTaskSpec = task_spec_for(recipe)
        self.components: Components[Any, Any, Any, Any] = self.spec.components(recipe)
        check_model_memory(recipe, preprocessor, self.components)
        self.model: Any = self.components.build_model(recipe, preprocessor)
        self._data: PreparedData[Any, Any, Any] | None = None
        self._data_lock = threading.Lock()
        self._engines: dict[str, Any] = {}

    def __repr__(self) -> str:
        name = self.recipe.model_name
        return f"Run({str(self.folder)!r}, task={self.recipe.task!r}, model={name!r})"

    def _repr_html_(self) -> str:
        """Return the summary of the run for a notebook."""
        return run_html(self.summary())

    def summary(self) -> RunSummary:
        """Return what is known about the run from its folder: settings, provenance, figures."""
        return summarise_run(self.folder)

    # --- capabilities -----------------------------------------------------------------------

    @cached_property
    def predictor(self) -> Predictor[Any]:
        """The predictor of this model."""
        return self.components.predictor(self.recipe, self.model, self.preprocessor)

    @cached_property
    def evaluator(self) -> Evaluator[Any]:
        """The evaluator of this model."""
        return self.components.evaluator(self.recipe, self.model, self.preprocessor)

    @cached_property
    def inspector(self) -> Inspector[Any]:
        """The inspector of this model; that of a table makes its environment."""
        if hasattr(self.recipe.data, "world") and not self.is_own:
            check_foreign_sources(self.recipe, self.folder)
        return self.components.inspector(self.recipe, self.model, self.preprocessor)

    @property
    def is_own(self) -> bool:
        """True for a run that was made on this machine."""
        return is_made_here(self.recipe.data.model_dump(), self.metadata)

    @property
    def is_trained_by_loop(self) -> bool:
        """True for networks trained by the loop, False for estimators that fit themselves."""
        return self.components.objective is not None

    @property
    def comparison_metric(self) -> ComparisonMetric:
        """The metric by which `compare` ranks runs of this task."""
        return self.evaluator.metric

    # --- what users do ----------------------------------------------------------------------

    @overload
    def predict(
        self,
        inputs: str | Mapping[str, Any],
        *,
        first: int = 1,
        on_progress: Progress = ignore_progress,
        stream: Callable[[str], None] | None = None,
        engine: str = "fused",
        **options: Any,
    ) -> Prediction: ...

    @overload
    def predict(
        self,
        inputs: Iterable[Any],
        *,
        first: int = 1,
        on_progress: Progress = ignore_progress,
        stream: Callable[[str], None] | None = None,
        engine: str = "fused",
        **options: Any,
    ) -> list[Prediction]: ...

    def predict(
        self,
        inputs: Any,
        *,
        first: int = 1,
        on_progress: Progress = ignore_progress,
        stream: Callable[[str], None] | None = None,
        engine: str = "fused",
        **options: Any,
    ) -> Prediction | list[Prediction]:
        """Predict for one input (returns a `Prediction`) or a sequence of them (returns a list).

        An input is a text, for tables also a mapping from column to value. A frame or a list of
        mappings is a sequence of rows; from each row the input column of the run (source or text)
        is read. `options` are those of the task: `beam`, `n_best`, `sample`, … for models that
        generate text. Messages number the inputs from `first`. `engine` is the decoder: "fused"
        (default, where it applies), "torch" (the model's own code) or "ctranslate2" (needs `export`
        first).
        """
        predictor = self.predictor
        is_single = isinstance(inputs, predictor.input_types)
        raw = [inputs] if is_single else self._list_inputs(inputs)
        answers: Sequence[Prediction]
        if engine in ("fused", "torch"):
            parsed = [predictor.parse(one, number) for number, one in enumerate(raw, first)]
            context = PredictContext(first, on_progress, stream, engine, folder=self.folder)
            answers = predictor.predict(parsed, predictor.parse_options(options), context)
        else:
            answers = self._engine(engine).predict(
                raw, first=first, on_progress=on_progress, **options
            )
        if is_single and answers[0].error is not None:
            raise DataError(f"{answers[0].error}.")
        return answers[0] if is_single else list(answers)

    def _list_inputs(self, inputs: Any) -> list[Any]:
        columns = given_columns(self.recipe.data.model_dump(), self.recipe.task)
        names = getattr(self.preprocessor, "names", ())  # of a table
        return list_inputs(inputs, self.recipe.task, columns, self.predictor.input_types, names)

    def evaluate(
        self,
        data: str | Path | object | None = None,
        *,
        split: str = "test",
        limit: int | None = None,
        columns: Mapping[str, str] | None = None,
        set: Mapping[str, Any] | None = None,
        on_progress: Progress = ignore_progress,
        **options: Any,
    ) -> Evaluation:
        """Return metrics on a file or on data in memory, or on a split of the run's own data.

        `columns` names columns of `data` by role, where they are not those of the training data;
        `set` has settings of `data` by dotted path, such as {"data.encoding": "latin-1"}. The
        evaluation also has how each metric is computed, and the scores of trivial baselines.
        """
        examples = self.split(split) if data is None else self.load_split(data, columns, set)
        found = self.evaluator.evaluate(
            examples, limit=limit, options=options, on_progress=on_progress
        )
        if limit is not None:
            return found
        floors = {
            baseline: {name: value for name, value in metrics.items() if name not in found.omitted}
            for baseline, metrics in self._floors(examples).items()
        }
        evaluation = replace(found, floors=floors)
        if data is None and split == "test" and {*options.items()} <= {*DEFAULT_OPTIONS}:
            self._save_test_scores(evaluation)
        return evaluation

    def save_figures(
        self,
        folder: str | Path,
        data: str | Path | object | None = None,
        split: str = "test",
        columns: Mapping[str, str] | None = None,
        set: Mapping[str, Any] | None = None,
    ) -> list[str]:
        """Save the figures of the report for other data or another split; return messages."""
        examples = self.split(split) if data is None else self.load_split(data, columns, set)
        train = {} if data is not None else self.data().splits
        figures = self.inspector.figures({**train, "test": examples})
        if not figures:
            raise ConfigError(f"got --save; the task {self.recipe.task} has no pictures to save.")
        out = check_output_path(Path(folder), "--save")
        out.mkdir(parents=True, exist_ok=True)
        messages = []
        for name, figure in figures.items():
            messages += [*save_figure(figure, out / name), f"Wrote {out / name}."]
        return messages

    def _save_test_scores(self, evaluation: Evaluation) -> None:
        """Keep the scores for `saccade show`; a folder that cannot be written stays as it is."""
        path = self.folder / TEST_SCORES_FILE
        with suppress(SaccadeError, OSError):
            values = {
                "weights": weights_checksum(self.folder),
                "metrics": _finite_values(evaluation.metrics),
                "floors": {name: _finite_values(v) for name, v in evaluation.floors.items()},
            }
            write_checksummed_json(path, values)

    def _floors(self, examples: Any) -> dict[str, dict[str, float]]:
        """Return the metrics of trivial baselines; none if the training data is not there."""
        if not self.evaluator.floors_need_training:
            return self.evaluator.floors(examples, examples)
        try:
            train = self.split("train")
        except SaccadeError:
            return {}
        return self.evaluator.floors(train, examples)

    def look(
        self,
        source: Any,
        *,
        answer: str | None = None,
        kind: str | None = None,
        layer: int | None = None,
        head: int | None = None,
        method: str | None = None,
        max_new_tokens: int | None = None,
    ) -> AttentionMaps | HeatMaps | Explanation | ImageExplanation:
        """Return what led to one prediction, or to the answer given.

        Of a classifier it is the contribution of each part of the input (`explain`), computed by
        `method`; of a model that generates text its attention maps. `kind` is cross, encoder or
        decoder for translators, self for others; layers and heads are counted from 1. With none
        of them, all maps of the most informative kind are returned: cross, or self. A language
        model generates `max_new_tokens`, to the end of the line at most; of one without attention
        the result is its heat maps: gates and states, the influence of the context, or counts. Of a
        classifier of images it is a map of each method: grad_cam, occlusion, attention; of a
        captioner the attention of each word.
        """
        if self.inspector.image_methods:
            if any(given is not None for given in (kind, layer, head, max_new_tokens)):
                raise ConfigError(
                    "got kind, layer, head or max_new_tokens for an image; expected method= "
                    f"(--method), one of {', '.join(self.inspector.image_methods)}."
                )
            return ImageExplanation(self.inspector.image_maps(source, method, answer))
        asks_for_maps = kind is not None or layer is not None or head is not None
        if method is not None or (self.inspector.attribution_methods and not asks_for_maps):
            return self.explain(source, answer=answer, method=method)
        kinds = self.inspector.heat_map_kinds
        if kind in kinds or (kinds and kind is None and not self.inspector.has_attention):
            answer = self._answer(source, answer, max_new_tokens)
            maps = select_heat_maps(self.inspector.heat_maps(source, answer), kind, layer)
            return HeatMaps(source, answer, maps, self.recipe.model_name)
        return self.attention(
            source, answer=answer, kind=kind, layer=layer, head=head, max_new_tokens=max_new_tokens
        )

    def filters(self) -> ImageTiles:
        """Return the kernels of the first convolution of a classifier of images."""
        return ImageTiles(self.inspector.filters())

    def feature_maps(self, image: Any, layer: str) -> ImageTiles:
        """Return the channels that a layer of a classifier computes of an image."""
        return ImageTiles(self.inspector.feature_maps(image, layer))

    def embedding(self, split: str = "test") -> ImageEmbedding:
        """Return the features of the images of a split, projected to two dimensions by PCA."""
        return ImageEmbedding(self.inspector.embedding_map(self.split(split)))

    def search(
        self,
        source: str,
        *,
        beam: int = 3,
        exhaustive: bool = False,
        max_new_tokens: int | None = None,
        length_penalty: float = 1.0,
    ) -> "SearchTree":
        """Return the hypotheses of a beam search for one input as a tree.

        `exhaustive` searches all sequences of `max_new_tokens` tokens as well; more than a million
        are refused.
        """
        problem = self.inspector.search_problem(source, max_new_tokens)
        if problem is None:
            raise ConfigError(
                f"got {self.recipe.model_name}, which generates no tokens; expected a translator "
                "or a language model; try saccade predict."
            )
        from saccade.inspection.search_tree import trace_beam
        from saccade.runs.search import SearchTree

        try:
            found = trace_beam(problem, beam, length_penalty, exhaustive)
        except ValueError as error:
            raise ConfigError(f"{error} Try a smaller max_new_tokens (--max-new-tokens).") from None
        return SearchTree(source, found, problem)

    def attention(
        self,
        source: str,
        *,
        answer: str | None = None,
        kind: str | None = None,
        layer: int | None = None,
        head: int | None = None,
        max_new_tokens: int | None = None,
    ) -> AttentionMaps:
        """Return the attention maps of one prediction, or of the answer given; see `look`."""
        answer = self._answer(source, answer, max_new_tokens)
        maps = self.inspector.attention_maps(source, answer)
        if not maps:
            raise ConfigError(
                f"got {self.recipe.model_name}, which has no attention; {self.describe_views()}"
            )
        chosen = select_maps(maps, kind, layer, head)
        return AttentionMaps(source, answer, chosen, self.recipe.model_name)

    def _answer(self, source: str, answer: str | None, max_new_tokens: int | None) -> str:
        """Return the answer to inspect: the one given, or a prediction."""
        if self.inspector.shows_inputs_alone:
            return source if answer is None else answer
        options = dict(self.inspector.answer_options)
        if max_new_tokens is not None:
            if "max_new_tokens" not in options:
                raise ConfigError(
                    f"got max_new_tokens={max_new_tokens} for {self.recipe.model_name}; expected "
                    "a language model, which generates text of any length; try without it."
                )
            options["max_new_tokens"] = max_new_tokens
        if answer is None:
            answer = self.inspector.default_answer(source)
        return str(self.predict(source, **options).text) if answer is None else answer

    def describe_views(self) -> str:
        """Return what `look` can show of this model, as a sentence with the commands."""
        views = self.inspector.views()
        if not views:
            return (
                "there is nothing to look at in this model; try saccade predict or evaluate, or "
                "train a model with attention (saccade list models)."
            )
        commands = [
            f"saccade look {self.folder} {arguments} ({view})" for arguments, view in views.items()
        ]
        return f"try {', or '.join(commands)}."

    def episode(
        self, number: int = 1, *, explore: bool = False, mode: str | None = "rgb_array"
    ) -> Episode:
        """Return one test episode of an agent (runs of the task control), counted from 1.

        `mode` is how the environment is drawn: "rgb_array" (pictures, for a .gif), "ansi" (text)
        or None.
        """
        return Episode(self.inspector.episode(self.split("test"), number - 1, explore, mode))

    def explain(
        self, raw: Any, *, answer: str | None = None, method: str | None = None
    ) -> Explanation:
        """Return the contribution of each part of an input to the prediction, or to `answer`.

        `method` is one of the model's: contributions (linear models), occlusion, gradient,
        integrated_gradients, attention.
        """
        known = self.inspector.attribution_methods
        if not known:
            raise ConfigError(
                f"got {self.recipe.model_name}, which has no attributions; {self.describe_views()}"
            )
        if method is not None:
            lookup(dict.fromkeys(known), method, "attribution method of this model")
        return Explanation(str(raw), self.inspector.attributions(raw, method, answer))

    def check(
        self,
        *,
        data: str | Path | None = None,
        set: Mapping[str, Any] | None = None,
        inputs: int = 16,
        on_result: Callable[[CheckResult], None] = lambda result: None,
    ) -> list[CheckResult]:
        """Run the invariance checks on this model; results are also written to checks.json.

        `data` and `set` are those of `evaluate`.
        """
        split = self.split("test") if data is None else self.load_split(data, set=set)
        results = []
        for result in (*self.inspector.checks(split, inputs), *self._file_checks(split, inputs)):
            results.append(result)
            on_result(result)
        values = [{**result._asdict(), "verdict": result.verdict} for result in results]
        content = {"saccade": __version__, "findings": values}
        write_checksummed_json(self.folder / "checks.json", content)
        return results

    def _file_checks(self, split: Any, inputs: int) -> Iterator[CheckResult]:
        """Compare the model with itself saved and reopened, and with its export."""
        with TemporaryDirectory() as folder:
            self.save(Path(folder))
            reloaded = load_run(folder)
        yield self.inspector.compare_reloaded(reloaded.model, split, inputs)
        name = "export consistency"
        if not export_folder(self.folder).exists():
            yield skipped(name, "there is no export of this run")
            return
        try:
            yield self.inspector.check_export(self._engine("ctranslate2"), split, inputs)
        except SaccadeError as error:  # for example an export of other weights
            yield skipped(name, str(error))

    def plot_gradients(self, path: str | Path, *, inputs: int = 16) -> NDArray[np.float64]:
        """Save a plot of gradient norms by distance in time and of clipping; return the norms."""
        norms = self.inspector.gradient_norms(self.split("test"), inputs)
        clip_norm = self.recipe.train.model_dump()["clip_norm"]
        try:
            save_figure(GradientNorms(norms, self.metrics(), clip_norm), path)
        except ValueError as error:
            raise ConfigError(str(error)) from None
        return norms

    def plot_graph(self, path: str | Path, *, row: int = 1) -> ComputationGraph:
        """Save the computation graph of one held-out row, forward and backward; return it."""
        graph = self.inspector.computation_graph(self.split("test"), row)
        try:
            save_figure(graph, path)
        except ValueError as error:
            raise ConfigError(str(error)) from None
        return graph

    def importance(self, data: str | Path | None = None) -> ColumnImportance:
        """Return how much worse a table's held-out predictions are if a column is shuffled."""
        examples = self.split("test") if data is None else self.load_split(data)
        return ColumnImportance(self.inspector.feature_importance(examples))

    def export(self, to: str, folder: str | Path | None = None, **options: Any) -> Path:
        """Write the model for another tool (ctranslate2, huggingface, …); return the folder.

        The default is exports/ in the run's own folder, where engines look for it. `options` are
        the tool's own: quantization="int8" for CTranslate2.
        """
        export_parts = lookup(EXPORTS, to, "export format")
        out = self.folder / "exports" / to if folder is None else Path(folder)
        if check_output_path(out).is_dir():
            check_output_folder(out, kept=[self.folder])
        weights, _ = self.weight_files.read(self.folder / "model.safetensors")
        checksum = weights_checksum(self.folder)
        parts = ModelParts(self.recipe, self.preprocessor, self.model, weights, checksum)
        if folder is None and out.is_file():  # word vectors; those of other weights are replaced
            out.unlink()
        export_parts(parts, out, options)
        if to in self._engines:  # it has the old export open
            self._engines[to].close()
        return out

    def verify_export(self, inputs: int = 64) -> tuple[int, int]:
        """Compare greedy predictions of the CTranslate2 export with those of this run.

        Returns the number of inputs of the dev split that were compared, and for how many of them
        the predictions were equal. The result is stored with the export: `saccade predict` uses an
        export for which all are equal.
        """
        texts = self.evaluator.inputs(self.split("dev"))[:inputs]
        own = self.predict(texts)
        exported = self.predict(texts, engine="ctranslate2")
        same = sum(a.text == b.text for a, b in zip(own, exported, strict=True))
        write_parity(self.folder, len(texts), same)
        return len(texts), same

    def _engine(self, name: str) -> Any:
        """Return an inference engine, started on first use."""
        engine = lookup(SUBPROCESS_ENGINES, name, "engine")(self.folder)
        return self._engines.setdefault(name, engine)  # threads share one process

    def metrics(self) -> list[dict[str, Any]]:
        """Return the lines of metrics.jsonl."""
        return read_metrics(self.folder / "metrics.jsonl")

    def vector(self, word: str) -> NDArray[np.float32]:
        """Return the vector of a word (runs of the task vectors)."""
        find = getattr(self.model, "vector", None)
        if find is None:
            raise ConfigError(
                f"got a run of the task {self.recipe.task}; expected one of vectors, which has a "
                "vector for each word."
            )
        found: NDArray[np.float32] = find(word)
        return found

    @property
    def parameters(self) -> int:
        """Number of learned values; tied weights count once."""
        if self.is_trained_by_loop:
            return sum(parameter.numel() for parameter in self.model.parameters())
        return sum(prod(weight.shape) for weight in self.model.state_dict().values())

    # --- data -------------------------------------------------------------------------------

    @property
    def data_name(self) -> str:
        """Name of the training data."""
        return self.recipe.data_name

    def split(self, name: str) -> Any:
        """Return a split of the run's own data: train, dev or test."""
        if name not in SPLIT_NAMES:
            known = ", ".join(sorted(SPLIT_NAMES))
            raise ConfigError(f"There is no split {name!r}. There are: {known}.")
        return self.data().splits[name]

    def load_split(
        self,
        data: str | Path | object,
        columns: Mapping[str, str] | None = None,
        set: Mapping[str, Any] | None = None,
    ) -> Any:
        """Read other data as a split; it is returned and not kept."""
        settings = role_settings(self.recipe.task, columns or {}) | data_settings(set or {})
        recipe = override_settings(self.recipe, settings) if settings else self.recipe
        return self.spec.load_split(recipe, self.preprocessor, data)

    def data(self) -> PreparedData[Any, Any, Any]:
        """Return the run's own data, read on first use."""
        with self._data_lock:
            if self._data is None:
                self._data = self.prepare_data()
            return self._data

    def attach_data(self, data: PreparedData[Any, Any, Any]) -> None:
        """Use data that was prepared already."""
        self._data = data

    def prepare_data(self, console: Console | None = None) -> PreparedData[Any, Any, Any]:
        """Read the run's own data with its preprocessor.

        Of a run of another machine, data outside of its folder must be that of the training.
        """
        if not self.is_own:
            check_foreign_sources(self.recipe, self.folder)
        recipe = self.located_recipe()
        context = PrepareContext(preprocessor=self.preprocessor, scratch_dir=self.scratch_dir())
        data = prepare_data(recipe, context, console)
        if not self.is_own and is_outside(recipe, self.folder):
            self._check_fingerprint(data)
        return data

    def _check_fingerprint(self, data: PreparedData[Any, Any, Any]) -> None:
        if data.fingerprint() != self.metadata.get("data"):
            raise DataError(
                f"{self.folder} was not made on this machine, and {self.data_name} is other data "
                "than the run was trained on; it is not used; if you trust the run, try --data "
                "FILE with the data."
            )

    def located_recipe(self) -> Recipe:
        """Return the recipe with the paths at which its data files are found now."""
        return locate_paths(self.recipe, self.folder, self.metadata.get("paths", {}))

    def load_training_data(self, console: Console | None = None) -> PreparedData[Any, Any, Any]:
        """Read the run's own data; raise a DataError if it has changed since training started."""
        data = self.prepare_data(console)
        if data.fingerprint() != self.metadata["data"]:
            raise DataError(
                f"got other training data for {self.folder} ({self.data_name}) than when the run "
                "was started; expected the same; try to restore it, or start a new run."
            )
        return data

    def scratch_dir(self) -> Path | None:
        """Return the folder of memory-mapped token ids or images, if the run has one."""
        folder = self.folder / self.spec.scratch_name
        return folder if folder.exists() else None

    # --- files ------------------------------------------------------------------------------

    @property
    def weight_files(self) -> WeightFiles:
        """Functions that read and write weights: as arrays where the model has no torch."""
        if self.spec.torch_free(self.recipe):
            return WeightFiles(read_arrays, write_arrays)
        return WeightFiles(read_tensors, write_tensors)

    def save(self, folder: Path) -> None:
        """Write all that prediction needs: settings, preprocessor, weights."""
        self.save_settings(folder)
        self.weight_files.write(folder / "model.safetensors", self.model.state_dict(), {})

    def save_weights(self, weights: Mapping[str, Any], metadata: dict[str, Any]) -> None:
        """Replace the weights in the folder."""
        self.weight_files.write(self.folder / "model.safetensors", weights, metadata)

    def save_settings(self, folder: Path) -> None:
        """Write preprocessor and settings; run.toml comes last and makes the folder a run."""
        self.save_preprocessor(folder)
        recipe = self.recipe.model_dump(exclude_none=True, mode="json")
        values = {"format": RUN_FORMAT, "made": self.metadata, "recipe": recipe}
        write_checksummed_text(folder / "run.toml", tomli_w.dumps(values))

    def save_preprocessor(self, folder: Path) -> None:
        """Write the preprocessor, by which an unfinished run folder is recognised."""
        folder.mkdir(parents=True, exist_ok=True)
        write_checksummed_json(folder / "tokenizer.json", self.preprocessor.to_json())


def prepare_data(
    recipe: Recipe, context: PrepareContext[Any], console: Console | None = None
) -> PreparedData[Any, Any, Any]:
    """Prepare the data of a recipe, with a progress bar on `console`."""
    with show_progress(console or Console(quiet=True), "reading the data") as bar:
        return task_spec_for(recipe).prepare(recipe, replace(context, on_progress=bar.update))


# --- opening ----------------------------------------------------------------------------------


def load_run(folder: str | Path) -> Run:
    """Open a run: settings, preprocessor and weights, each verified by its checksum.

    Of a run that is not finished these are the best weights so far, and a warning is logged.
    """
    folder = Path(folder)
    run = open_without_weights(folder)
    path = folder / "model.safetensors"
    if path.exists() or not run.is_trained_by_loop:
        weights, metadata = _read_weights(run, path)
        step = metadata.get("step", 0) if metadata.get("ended") in UNFINISHED else None
    else:
        weights, step = _read_checkpoint(run)
    if step is not None and run.is_trained_by_loop:
        LOGGER.warning("%s", _unfinished(run, step))
    load_weights(run.model, weights, path)
    if run.is_trained_by_loop:
        from saccade.training.device import resolve_device

        run.model.to(resolve_device(run.recipe.train.model_dump()["device"])).eval()
    return run


UNFINISHED = ("", "stop")  # stop reasons of a run that can be resumed
LOGGER = logging.getLogger("saccade")  # prints warnings to standard error


def _read_weights(run: Run, path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    if not path.exists():
        raise RunError(
            f"{run.folder} is not finished: {path} is missing; resume it with "
            f"saccade train --resume {shlex.quote(str(run.folder))}."
        )
    return run.weight_files.read(path)


def _read_checkpoint(run: Run) -> tuple[dict[str, Any], int]:
    """Return the weights in the newest checkpoint of a run that is not finished, and their step."""
    from saccade.training.checkpoint import read_checkpoint_weights

    found = read_checkpoint_weights(run.folder / "checkpoint")
    if found is None:
        raise RunError(
            f"{run.folder} is not finished, and there is no checkpoint yet; resume it with "
            f"saccade train --resume {shlex.quote(str(run.folder))}."
        )
    return found


def _unfinished(run: Run, step: int) -> str:
    from saccade.tasks.neural import train_settings
    from saccade.training.checkpoint import list_checkpoints

    settings = train_settings(run.recipe)
    made = max([step, *(int(p.stem) for p in list_checkpoints(run.folder / "checkpoint"))])
    length = f" of {settings.max_steps:,.0f}"
    if settings.minutes is not None:
        length = f" of a time budget of {settings.minutes:g} min"
    return (
        f"{run.folder} is not finished: step {made:,}{length}, and these are the weights of step "
        f"{step:,}; resume with saccade train --resume {shlex.quote(str(run.folder))}"
    )


def open_without_weights(folder: Path) -> Run:
    """Open the settings and the preprocessor of a run."""
    values = read_run_settings(folder)
    recipe = read_recipe(values["recipe"], str(folder / "run.toml"))
    spec = task_spec_for(recipe)
    preprocessor = _read_preprocessor(spec, folder / "tokenizer.json")
    _check_sizes(recipe, spec.model_sizes(preprocessor), folder)
    path = folder / "model.safetensors"
    stored = None
    with suppress(RunError):  # damaged weights are reported when they are read; resuming has others
        stored = read_weights_info(folder).values if path.exists() else None
    if stored is not None:
        check_stored_values(recipe, preprocessor, spec.components(recipe), stored, path)
    return Run(folder, recipe, values["made"], preprocessor)


def _check_sizes(recipe: Recipe, sizes: Mapping[str, int], folder: Path) -> None:
    """Raise a RunError for a model whose inputs or outputs are not those of its preprocessor."""
    settings = recipe.model.model_dump()
    for name, size in sizes.items():
        if name in settings and settings[name] != size:
            raise RunError(
                f"{folder / 'tokenizer.json'} does not fit {folder / 'run.toml'}: got "
                f"model.{name}={settings[name]}; expected {size}. Copy both again from their "
                "source, or train again."
            )


def _read_preprocessor(spec: AnyTaskSpec, path: Path) -> Any:
    """Return the preprocessor of a run; RunError if its file has another structure."""
    values = read_checksummed_json(path)
    try:
        return spec.read_preprocessor(values)
    except SaccadeError:
        raise
    except Exception as error:  # a file with a right checksum may still have any content
        reason = f"its content is not that of a preprocessor ({type(error).__name__}: {error})"
        raise corrupt_file_error(path, reason) from None


def load_weights(model: Model, weights: Mapping[str, Any], path: Path) -> None:
    """Load weights into a model; raise a RunError that names the file if they do not fit."""
    try:
        model.load_state_dict(weights)
    except (RuntimeError, KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[-1].strip()
        raise RunError(f"{path} does not fit the settings of its run: {reason}") from None


def import_run(layout: str, folder: str | Path, out: Path) -> Run:
    """Import a model that another tool has written as a run; `layout` is its format (gpt2)."""
    read = lookup(IMPORTS, layout, "import format")
    check_output_folder(out)
    if not (out / "run.toml").exists():
        check_folder_is_free(out, overwrite=False)  # before the work
    imported = read(Path(folder))
    recipe = read_recipe(imported.recipe, str(folder))
    components = task_spec_for(recipe).components(recipe)
    stored = sum(prod(tensor.shape) for tensor in imported.weights.values())
    check_stored_values(recipe, imported.vocabulary, components, stored, Path(folder))
    run = Run(out, recipe, run_metadata(available_cpus(), "", recipe, out), imported.vocabulary)
    load_weights(run.model, imported.weights, Path(folder))
    with staging_folder(out) as staging:
        run.save(staging)
        if _is_same_run(staging, out):  # this import was complete when it was killed
            return run
        if (out / "run.toml").exists():
            raise RunError(
                f"{out} already holds another run; expected a new folder; try another one (--out)."
            )
        replace_folder(staging, out)
    return run


def _is_same_run(one: Path, other: Path) -> bool:
    """Return True if two folders have the same settings, preprocessor and weights."""
    names = ("run.toml", "tokenizer.json", "model.safetensors")
    return all(
        (other / name).is_file() and (one / name).read_bytes() == (other / name).read_bytes()
        for name in names
    )


def run_metadata(threads: int, data: str, recipe: Recipe, folder: Path) -> dict[str, Any]:
    """Return versions, threads, fingerprint and signed paths of the data for run.toml."""
    paths = remember_paths(recipe, folder)
    return {
        "saccade": __version__,
        "torch": version("torch"),
        "python": platform.python_version(),
        "threads": threads,
        "data": data,
        "paths": paths,
        "machine": sign_paths(recipe.data.model_dump(), paths),
    }


def _finite_values(metrics: Mapping[str, float]) -> dict[str, float | None]:
    """Return metrics with None for NaN and infinity, which JSON cannot hold."""
    return {name: value if isfinite(value) else None for name, value in metrics.items()}
