"""The tasks by name: the one table in which a recipe finds what it is about."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from saccade.config import Config, build
from saccade.data.curves import CURVES, Points
from saccade.data.parallel import Tokenizers
from saccade.data.sources import PAIRS, TEXTS, Published
from saccade.data.synthetic import SYNTHETIC
from saccade.data.tokenizers import from_json
from saccade.lookup import pick
from saccade.tasks.forecast import MODELS as FORECASTERS
from saccade.tasks.forecast import SERIES, Forecast, ForecastRecipe, Units
from saccade.tasks.forecast import prepare as prepare_series
from saccade.tasks.language import LANGUAGE_MODELS, language_task
from saccade.tasks.recipe import TranslationRecipe
from saccade.tasks.regression import MODELS as REGRESSIONS
from saccade.tasks.regression import RegressionRecipe, regression
from saccade.tasks.regression import prepare as prepare_points
from saccade.tasks.task import Prepared
from saccade.tasks.text import MADE as MADE_TEXTS
from saccade.tasks.text import LanguageRecipe
from saccade.tasks.text import prepare as prepare_text
from saccade.tasks.translation import MODELS as TRANSLATORS
from saccade.tasks.translation import Translation
from saccade.tasks.translation import prepare as prepare_pairs


class Kind(NamedTuple):
    """A task: its settings, its models, the data that is always there, and how it is made."""

    recipe: type[Config]
    models: Mapping[str, Any]
    made: Mapping[str, Any]
    published: Mapping[str, Published]
    prepare: Callable[..., Prepared]  # (recipe, tell, vocabulary, name_model, place)
    task: Callable[[Any, Any], Any]  # (recipe, vocabulary)
    vocabulary: Callable[[dict[str, Any]], Any]  # as it was kept in tokenizer.json


def _anywhere(prepare: Callable[..., Prepared]) -> Callable[..., Prepared]:
    """Of data that is held in memory, whatever the `place` for more."""

    def prepared(
        recipe: Any, tell: Any, vocabulary: Any = None, name_model: bool = False, place: Any = None
    ) -> Prepared:
        return prepare(recipe, tell, vocabulary, name_model)

    return prepared


TASKS: dict[str, Kind] = {
    "forecast": Kind(
        ForecastRecipe,
        FORECASTERS,
        SERIES,
        {},
        _anywhere(prepare_series),
        Forecast,
        Units.from_json,
    ),
    "kernel-regression": Kind(
        RegressionRecipe,
        REGRESSIONS,
        CURVES,
        {},
        _anywhere(prepare_points),
        regression,
        Points.from_json,
    ),
    "language": Kind(
        LanguageRecipe, LANGUAGE_MODELS, MADE_TEXTS, TEXTS, prepare_text, language_task, from_json
    ),
    "translate": Kind(
        TranslationRecipe,
        TRANSLATORS,
        SYNTHETIC,
        PAIRS,
        _anywhere(prepare_pairs),
        Translation,
        Tokenizers.from_json,
    ),
}


def kind_of(recipe: Any) -> Kind:
    """What a recipe is about."""
    return TASKS[recipe.task]


def read_recipe(values: dict[str, Any], where: str) -> Any:
    """A recipe from plain values, of whatever task they name."""
    name = values.get("task", "translate")
    kind = pick(TASKS, name if isinstance(name, str) else str(name), "task")
    return build(kind.recipe, values, where)
