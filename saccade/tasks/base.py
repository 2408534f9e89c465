"""Contracts of tasks: a `TaskSpec` of small typed capabilities. Does not import torch.

A task is a folder with the same files in each: `config` (settings), `data` (reading and
preparing), `objective` or an estimator (training), `predict`, `evaluate`, `inspect`. Its
`TaskSpec` ties them together. A capability is built from plain parts, the recipe, the model and
the preprocessor, and keeps no state between calls, so that threads may share it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    NamedTuple,
    Protocol,
    TypeVar,
    runtime_checkable,
)

import numpy as np
from numpy.typing import NDArray

from saccade.config import Config, build_config
from saccade.data.datasets import DatasetInfo
from saccade.data.records.role_names import Role
from saccade.data.records.roles import RoleChoice
from saccade.data.source import DataConfig, source_name
from saccade.errors import ConfigError
from saccade.inspection.attention_map import AttentionMap
from saccade.inspection.attribution import Attribution
from saccade.inspection.checks import CheckResult, skipped
from saccade.inspection.episode import EpisodeRecord
from saccade.inspection.figures import ComputationGraph, FeatureImportance, Figure, HeatMap
from saccade.inspection.image_figures import EmbeddingMap, ImageGrid, ImageMaps
from saccade.training.estimator import Estimator, FitConfig
from saccade.types.progress import Progress, ignore_progress
from saccade.types.results import ComparisonMetric, Evaluation, Prediction

if TYPE_CHECKING:
    from saccade.inspection.search_tree import SearchProblem
    from saccade.training.objective import AnyObjective

HASH_CHUNK = 1 << 22  # array elements hashed at a time


class Recipe(Config):
    """Base of recipes: task, data, model and training settings."""

    task: str
    data: DataConfig
    model: Config
    train: FitConfig

    @property
    def model_name(self) -> str:
        """Registry name of the model."""
        return str(self.model.model_dump()["name"])

    @property
    def data_name(self) -> str:
        """Name of the data, for messages."""
        return source_name(self.data)


@dataclass(frozen=True)
class Choice:
    """A setting that was chosen from the data, its value, and the reason."""

    path: str
    value: Any
    reason: str


def role_choices(choices: Sequence[RoleChoice]) -> list[Choice]:
    """Return the columns that were chosen for roles, as settings."""
    return [Choice(f"data.{role}", column, reason) for role, column, reason in choices]


@runtime_checkable
class Preprocessor(Protocol):
    """A transform fitted to the data: tokenizers, a table schema, a standardiser."""

    def to_json(self) -> dict[str, Any]:
        """Return plain values from which the preprocessor can be rebuilt."""
        ...


@runtime_checkable
class Model(Protocol):
    """A trained model: an `nn.Module`, or an estimator whose state is NumPy arrays."""

    def state_dict(self) -> Mapping[str, Any]:
        """Return all learned values by name."""
        ...

    def load_state_dict(self, state: Mapping[str, Any], /) -> object:
        """Restore learned values; raise `RuntimeError` if they do not fit."""
        ...


RecipeT = TypeVar("RecipeT", bound=Recipe)
PreprocessorT = TypeVar("PreprocessorT")
ModelT = TypeVar("ModelT")
SplitT = TypeVar("SplitT")
InputT = TypeVar("InputT")


@dataclass
class PreparedData(Generic[RecipeT, PreprocessorT, SplitT]):
    """The data of a recipe, ready for training, and the settings that were chosen from it."""

    recipe: RecipeT
    preprocessor: PreprocessorT
    splits: dict[str, SplitT]  # train, dev, test
    hash_training_data: Callable[[], str]
    choices: list[Choice] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    incompatible: list[str] = field(default_factory=list)  # rows that given weights cannot take

    def fingerprint(self) -> str:
        """Return a short hash of the training data, by which a change is noticed."""
        return self.hash_training_data()


def fingerprint_arrays(*arrays: Any) -> str:
    """Return a short hash of some arrays, which may be larger than memory."""
    digest = blake2b(digest_size=16)
    for array in arrays:
        flat = np.ascontiguousarray(array).reshape(-1)
        for start in range(0, len(flat), HASH_CHUNK):
            digest.update(flat[start : start + HASH_CHUNK].tobytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class PrepareContext(Generic[PreprocessorT]):
    """Circumstances under which data is prepared."""

    on_progress: Progress = ignore_progress
    preprocessor: PreprocessorT | None = None  # of another run, to be kept
    auto_model: bool = False  # choose the model from the data
    scratch_dir: Path | None = None  # folder for large files; None: memory


# --- capabilities -----------------------------------------------------------------------------


class NoOptions(Config):
    """Options of a task that computes its one prediction."""


class PredictContext(NamedTuple):
    """Circumstances of one `predict` call."""

    first: int = 1  # number of the first input, for messages and sampling seeds
    on_progress: Progress = ignore_progress
    on_text: Callable[[str], None] | None = None  # receives the first answer as it grows
    engine: str = "fused"  # decoder implementation: "fused" or "torch", see `engine_name`
    max_group: int | None = None  # inputs between two progress reports; None: as is fastest
    folder: Path | None = None  # of the run, for what is computed once and read again


class Predictor(ABC, Generic[InputT]):
    """Predicts from raw inputs. Thread-safe: no state is kept between calls."""

    options: type[Config] = NoOptions  # settings of `predict`, such as beam width
    input_types: tuple[type, ...] = (str,)  # Python types of one raw input
    can_stream = False  # whether `PredictContext.on_text` is called

    @abstractmethod
    def parse(self, raw: object, number: int) -> InputT:
        """Turn a raw input into what `predict` takes; `number` names it in errors."""

    @abstractmethod
    def predict(
        self, inputs: Sequence[InputT], options: Config, context: PredictContext
    ) -> list[Prediction]:
        """Return a prediction for each input, in order."""

    def truncate(self, text: str) -> str:
        """Return the longest prefix of a text that the model accepts."""
        return text

    def engine_name(self, requested: str) -> str | None:
        """Return the engine that decodes if `requested` is asked for; None: nothing to decode."""
        return None

    def parse_options(self, options: Mapping[str, Any]) -> Config:
        """Validate the options of a `predict` call."""
        known = self.options.model_fields
        given = {n: v for n, v in options.items() if n in known or (n, v) not in DEFAULT_OPTIONS}
        if given and self.options is NoOptions:
            names = ", ".join(sorted(given))
            raise ConfigError(
                f"got {names}; expected no decoding options: this task computes its one "
                f"prediction and searches for nothing; try without {names}."
            )
        return build_config(self.options, given, "the options of predict")


DEFAULT_OPTIONS = (("beam", 1), ("n_best", 1))


class TextPredictor(Predictor[str]):
    """Base of predictors whose inputs are texts."""

    def parse(self, raw: object, number: int) -> str:
        """Return the text."""
        if not isinstance(raw, str):
            raise ConfigError(f"input {number}: got a {type(raw).__name__}; expected a text (str).")
        return raw


class Evaluator(ABC, Generic[SplitT]):
    """Scores a model on a split."""

    metric = ComparisonMetric("loss", higher_is_better=False)
    # the metrics that summarise an evaluation, of those it has; the others are details
    headline: tuple[str, ...] = ("loss",)
    floors_need_training = True  # False: baselines are of the evaluated split alone

    @abstractmethod
    def evaluate(
        self,
        split: SplitT,
        *,
        limit: int | None = None,
        options: Mapping[str, Any] | None = None,
        on_progress: Progress = ignore_progress,
    ) -> Evaluation:
        """Return metrics, with their conventions, on at most `limit` examples."""

    def refuse_options(self, options: Mapping[str, Any] | None, reason: str) -> None:
        """Raise a ConfigError if decoding options other than the defaults are given."""
        given = [name for name, v in (options or {}).items() if (name, v) not in DEFAULT_OPTIONS]
        if given:
            names = ", ".join(sorted(given))
            raise ConfigError(f"got {names}; expected no decoding options: {reason}.")

    def selection_score(self, metrics: Mapping[str, float]) -> float:
        """Return the number by which the best weights are selected; higher is better."""
        return -metrics["loss"]

    def floors(self, train: SplitT, split: SplitT) -> dict[str, dict[str, float]]:
        """Return the metrics of trivial baselines on a split, by the name of the baseline."""
        return {}

    def inputs(self, split: SplitT) -> list[Any]:
        """Return the raw inputs of a split, where each can be predicted by itself."""
        return []

    def score_each(
        self, split: SplitT, predictions: Sequence[Prediction]
    ) -> NDArray[np.float64] | None:
        """Return the comparison metric of each prediction, for paired tests; None: undefined."""
        return None


HeatMapKey = tuple[str, int]  # kind and layer, counted from 1
AttentionKey = tuple[str, int, int]  # kind, layer and head, the last two counted from 1


NO_IMAGES = "got no model of images; expected a run of the task image, caption or contrastive."


class Inspector(ABC, Generic[SplitT]):
    """Shows what a trained model does: attention, attributions, figures, invariance checks."""

    # keys of `saccade.inspection.attribution.ATTRIBUTION_METHODS`, the default first
    attribution_methods: tuple[str, ...] = ()

    # kinds of `heat_maps`, which `look` shows of a model without attention
    heat_map_kinds: tuple[str, ...] = ()
    default_input: str | None = None  # of heat maps that are the same for all inputs
    has_attention = True

    image_methods: tuple[str, ...] = ()  # kinds of `image_maps`, of a model of images

    shows_inputs_alone = False  # `look` needs no prediction; an answer is another input

    answer_options: Mapping[str, Any] = {}  # options of `predict` for an answer to inspect

    @abstractmethod
    def example_input(self, split: SplitT) -> Any:
        """Return a raw input of a split: a text as a user would type it, or an array, a row, …"""

    def views(self) -> dict[str, str]:
        """Return what can be shown of the model: arguments of `saccade look` → description."""
        if self.attribution_methods:
            return {"INPUT": "the contribution of each part of the input"}
        return {}

    @abstractmethod
    def compare_reloaded(self, other: Any, split: SplitT, count: int) -> CheckResult:
        """Check that the model, saved and loaded again, gives the same outputs."""

    def attention_maps(
        self, text: str, answer: str | None = None
    ) -> dict[AttentionKey, AttentionMap]:
        """Return the attention maps of one prediction, or of the given answer."""
        return {}

    def heat_maps(self, text: str, answer: str | None = None) -> dict[HeatMapKey, HeatMap]:
        """Return gates, states, influence of the context or counts behind one prediction."""
        return {}

    def default_answer(self, text: str) -> str | None:
        """Return the answer to inspect if none is given; None: the prediction."""
        return None

    def search_problem(self, text: str, max_new_tokens: int | None) -> "SearchProblem | None":
        """Return one input for a search by tokens; None: the model generates none."""
        return None

    def attributions(
        self, raw: Any, method: str | None = None, output: str | None = None
    ) -> Attribution:
        """Return the contribution of each part of one input to the prediction, or to `output`.

        `method` is one of `attribution_methods`; None: the first.
        """
        raise ConfigError("got a model without attributions; expected a classifier.")

    def image_maps(
        self, raw: Any, method: str | None = None, output: str | None = None
    ) -> ImageMaps:
        """Return which regions of an image led to its class, or to `output`."""
        raise ConfigError("got no model of images; expected a run of the task image or caption.")

    def filters(self) -> ImageGrid:
        """Return the kernels of the first convolution."""
        raise ConfigError(NO_IMAGES)

    def feature_maps(self, raw: Any, layer: str) -> ImageGrid:
        """Return the channels that a layer computes of an image."""
        raise ConfigError(NO_IMAGES)

    def embedding_map(self, split: SplitT) -> EmbeddingMap:
        """Return the features of the images of a split, projected to two dimensions."""
        raise ConfigError(
            "got a model without a feature vector for each image; expected a run of the task image "
            "or contrastive."
        )

    def episode(self, split: SplitT, number: int, explore: bool, mode: str | None) -> EpisodeRecord:
        """Return what an agent values and does in one episode, drawn in a mode."""
        raise ConfigError("got a model without episodes; expected a run of the task control.")

    def figures(self, splits: Mapping[str, SplitT]) -> dict[str, Figure]:
        """Return the figures of the training report by file name."""
        return {}

    def report_files(self, splits: Mapping[str, SplitT]) -> dict[str, str]:
        """Return texts of the training report by file name, such as a table of mistakes."""
        return {}

    def checks(self, split: SplitT, count: int) -> Iterator[CheckResult]:
        """Run the invariance checks on `count` examples of a split."""
        yield from ()

    def check_export(self, engine: Any, split: SplitT, count: int) -> CheckResult:
        """Check that an exported model gives the same outputs."""
        return skipped("export consistency", "this task has no inference engine")

    def gradient_norms(self, split: SplitT, count: int) -> NDArray[np.float64]:
        """Return gradient norms by distance in time (B, T), of a recurrent model."""
        raise ConfigError(
            "got a model without recurrent state; expected an rnn, gru or lstm language model."
        )

    def feature_importance(self, split: SplitT) -> FeatureImportance:
        """Return how much worse the predictions of a split are if an input column is shuffled."""
        raise ConfigError("got a model without input columns; expected a model of a table.")

    def computation_graph(self, split: SplitT, row: int) -> ComputationGraph:
        """Return the values of one forward and backward pass, of a small tabular network."""
        raise ConfigError(
            "got a model without a computation graph to draw; expected a small tabular network "
            "(linear, softmax or mlp)."
        )


# --- the specification ------------------------------------------------------------------------


class Transfer(NamedTuple):
    """Rules by which a run of another task is the start of a run of this one."""

    preprocessor: Callable[[Any], Any]  # that of the other run → the part of it that is kept
    data_settings: tuple[str, ...] = ()  # settings of the data that are kept
    open_model_settings: tuple[str, ...] = ()  # settings of the model that may be changed
    own_model_settings: tuple[str, ...] = ()  # those that are not kept
    models: tuple[str, ...] = ()  # those that can start from it; empty: that of the same name


@dataclass(frozen=True)
class Components(Generic[RecipeT, PreprocessorT, ModelT, SplitT]):
    """The capabilities of one kind of model of a task; absent ones are None."""

    build_model: Callable[[RecipeT, PreprocessorT], ModelT]
    predictor: Callable[[RecipeT, ModelT, PreprocessorT], Predictor[Any]]
    evaluator: Callable[[RecipeT, ModelT, PreprocessorT], Evaluator[SplitT]]
    inspector: Callable[[RecipeT, ModelT, PreprocessorT], Inspector[SplitT]]
    # not imported at run time: it needs torch
    objective: "Callable[..., AnyObjective] | None" = None
    estimator: (
        Callable[[RecipeT, ModelT, PreprocessorT, Mapping[str, SplitT]], Estimator] | None
    ) = None
    # copies weights of files into the model of a new run; returns where they come from, or None
    initialise: Callable[[RecipeT, ModelT, PreprocessorT], str | None] | None = None
    # copies what the model of another task has in common with the model (`TaskSpec.transfers`)
    transfer_weights: Callable[[ModelT, Any], None] | None = None
    # fits what turns outputs into probabilities to the dev split, after training
    calibrate: Callable[[RecipeT, ModelT, PreprocessorT, Mapping[str, SplitT]], None] | None = None
    is_incremental: bool = True  # False: other data means fitting again from the start


@dataclass(frozen=True)
class TaskSpec(Generic[RecipeT, PreprocessorT, ModelT, SplitT]):
    """A task: settings, models, data, and for each recipe its capabilities."""

    name: str
    summary: str  # one line for `saccade list`
    recipe: type[RecipeT]
    models: Mapping[str, Any]  # model registry: name → row
    synthetic: Mapping[str, Any]  # built-in data by name
    datasets: Mapping[str, DatasetInfo]
    prepare: Callable[
        [RecipeT, PrepareContext[PreprocessorT]], PreparedData[RecipeT, PreprocessorT, SplitT]
    ]
    load_split: Callable[[RecipeT, PreprocessorT, str | Path | object], SplitT]
    read_preprocessor: Callable[[dict[str, Any]], PreprocessorT]
    components: Callable[[RecipeT], Components[RecipeT, PreprocessorT, ModelT, SplitT]]
    # settings of a model that follow from its preprocessor, where the model has them
    model_sizes: Callable[[PreprocessorT], dict[str, int]] = lambda preprocessor: {}
    # recipes whose weights are NumPy arrays, and which never import torch
    torch_free: Callable[[RecipeT], bool] = lambda recipe: False
    roles: tuple[Role, ...] = ()  # of columns: the settings data.NAME and the options --NAME
    transferable_data_settings: tuple[str, ...] | None = None  # None: no warm start
    # tasks whose runs can be the start of one of this task, by name
    transfers: Mapping[str, Transfer] = field(default_factory=dict)
    evaluates_datasets: bool = False  # `load_split` takes the name of a published dataset
    is_trained_by_steps: bool = False  # `compare` keeps the recipe's steps: no default minutes
    scratch_name: str = "tokens"  # folder in a run for the large files of `prepare`


AnyTaskSpec = TaskSpec[Any, Any, Any, Any]
