"""`saccade list`: names that can be used on the command line, from the registries."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib import import_module
from typing import Annotated, Any, NamedTuple, get_args

import typer

from saccade.cli.console import make_table, print_json, stdout_console
from saccade.cli.options import JsonOption
from saccade.registry import lookup


class CatalogueEntry(NamedTuple):
    """A row of the list."""

    group: str
    name: str
    description: str
    task: str = ""  # of models and data
    is_local: bool = True  # False: a published dataset that must be downloaded first


def list_command(
    group: Annotated[
        str | None, typer.Argument(metavar="[GROUP]", help="Only this group, e.g. models.")
    ] = None,
    json: JsonOption = False,
) -> None:
    r"""List tasks, models, recipes, data, optimizers, schedules, metrics, formats, ….

    \b
    saccade list
    saccade list models
    """
    if group is not None:
        lookup(GROUPS, group, "group")
    entries = catalogue([group] if group else GROUPS)
    if json:
        print_json([entry._asdict() for entry in entries])
        return
    console = stdout_console()
    groups: dict[str, list[CatalogueEntry]] = {}
    for entry in entries:
        heading = f"{entry.group} ({entry.task})" if entry.task else entry.group
        groups.setdefault(heading, []).append(entry)
    width = max(len(entry.name) for entry in entries)
    for heading, members in groups.items():
        console.print(heading, style="bold")
        table = make_table("name", "description")
        table.show_header = False
        for entry in members:
            absent = "" if entry.is_local else " *"
            table.add_row(entry.name.ljust(width), entry.description + absent)
        console.print(table, "")
    if not all(entry.is_local for entry in entries):
        console.print("* not on this machine: downloaded when needed, or read from $SACCADE_DATA")


def catalogue(groups: Iterable[str] | None = None) -> list[CatalogueEntry]:
    """Return the entries of some groups, or of all."""
    names = GROUPS if groups is None else groups
    return [entry for name in names for entry in GROUPS[name]()]


def describe(value: object, name: str = "") -> str:
    """Return the first line of the docstring of a registry value.

    For a lambda it is that of the function that it calls: the one called `name` if there is one,
    otherwise the last.
    """
    while isinstance(value, partial):
        value = value.func
    if inspect.isfunction(value) and value.__name__ == "<lambda>":
        called = [value.__globals__.get(used) for used in value.__code__.co_names]
        functions = {found.__name__: found for found in called if inspect.isfunction(found)}
        value = functions.get(name, [*functions.values()][-1] if functions else None)
    return (inspect.getdoc(value) or "").split("\n")[0].rstrip(".")


def _registry_group(group: str, registry: Mapping[str, Any]) -> list[CatalogueEntry]:
    return [CatalogueEntry(group, name, describe(registry[name], name)) for name in registry]


def _tasks() -> list[CatalogueEntry]:
    from saccade.tasks.registry import TASKS

    return [CatalogueEntry("tasks", name, describe(spec.recipe)) for name, spec in TASKS.items()]


def _models() -> list[CatalogueEntry]:
    """List the models of every task, described by their classes or else by their settings."""
    from saccade.config import config_members
    from saccade.models.registry import ModelEntry
    from saccade.tasks.registry import TASKS

    entries = []
    for task, spec in TASKS.items():
        for config in config_members(spec.recipe.model_fields["model"]):
            for name in get_args(config.model_fields["name"].annotation):
                if name in spec.models:
                    row = spec.models[name]
                    is_described = isinstance(row, ModelEntry) and not row.described_by_settings
                    described = row.model_class if is_described else config
                    entries.append(CatalogueEntry("models", name, describe(described), task))
    return entries


def _recipes() -> list[CatalogueEntry]:
    from saccade.data.datasets import DATASETS, is_local
    from saccade.recipes.resolve import RECIPES

    missing = [name for name, dataset in DATASETS.items() if not is_local(dataset)]
    return [
        entry._replace(is_local=not entry.name.startswith(tuple(missing)))
        for entry in _registry_group("recipes", RECIPES)
    ]


def _data() -> list[CatalogueEntry]:
    """List the built-in data of every task, then the published datasets."""
    from saccade.data.datasets import DATASETS, is_local
    from saccade.tasks.registry import TASKS

    entries = [
        CatalogueEntry("data", name, describe(source, name), task)
        for task, spec in TASKS.items()
        for name, source in spec.synthetic.items()
    ]
    for name, dataset in DATASETS.items():
        languages = f" ({', '.join(dataset.languages)})" if dataset.languages else ""
        description = f"{dataset.homepage}{languages}"
        entries.append(CatalogueEntry("data", name, description, "published", is_local(dataset)))
    return entries


def _optimizers() -> list[CatalogueEntry]:
    from saccade.optim import OPTIMIZERS

    return _registry_group("optimizers", OPTIMIZERS)


def _schedules() -> list[CatalogueEntry]:
    from saccade.optim import SCHEDULES

    return _registry_group("schedules", SCHEDULES)


def _activations() -> list[CatalogueEntry]:
    from saccade.nn.activations import ACTIVATIONS

    return _registry_group("activations", ACTIVATIONS)


def _inits() -> list[CatalogueEntry]:
    from saccade.nn.init import INITS

    return _registry_group("inits", INITS)


def _scores() -> list[CatalogueEntry]:
    from saccade.nn.attention_scores import ATTENTION_SCORES, make_score

    scores = {name: type(make_score(name, 1)) for name in ATTENTION_SCORES}
    return _registry_group("scores", scores)


def _norms() -> list[CatalogueEntry]:
    from saccade.nn.norm import NORMS

    return _registry_group("norms", NORMS)


def _cells() -> list[CatalogueEntry]:
    from saccade.nn.rnn_cells import CELLS

    return _registry_group("cells", {name: spec.advance for name, spec in CELLS.items()})


def _metrics() -> list[CatalogueEntry]:
    metrics = import_module("saccade.metrics")
    functions = {name: getattr(metrics, name) for name in metrics.__all__}
    return _registry_group(
        "metrics", {name: f for name, f in functions.items() if inspect.isfunction(f)}
    )


def _exports() -> list[CatalogueEntry]:
    from saccade.interop.registry import EXPORTS

    return _registry_group("exports", EXPORTS)


def _imports() -> list[CatalogueEntry]:
    from saccade.interop.registry import IMPORTS

    return _registry_group("imports", IMPORTS)


def _engines() -> list[CatalogueEntry]:
    from saccade.inference.engine_names import DECODER_ENGINES
    from saccade.interop.registry import ENGINES

    decoders = [
        CatalogueEntry("engines", name, summary) for name, summary in DECODER_ENGINES.items()
    ]
    return [*decoders, *_registry_group("engines", ENGINES)]


GROUPS: dict[str, Callable[[], list[CatalogueEntry]]] = {
    "tasks": _tasks,
    "models": _models,
    "recipes": _recipes,
    "data": _data,
    "optimizers": _optimizers,
    "schedules": _schedules,
    "activations": _activations,
    "inits": _inits,
    "scores": _scores,
    "norms": _norms,
    "cells": _cells,
    "metrics": _metrics,
    "exports": _exports,
    "imports": _imports,
    "engines": _engines,
}
