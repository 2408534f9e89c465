"""A settings field whose value is the config of any model of a registry."""

from collections.abc import Mapping
from typing import Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from saccade.config import Config
from saccade.models.registry import ModelEntry


class ModelChoice:
    """Annotation for a field that accepts the config of any row of a registry.

        class Recipe(Config):
            model: Annotated[TranslatorConfig, ModelChoice(TRANSLATION_MODELS)] = BahdanauConfig()

    pydantic validates a union discriminated by `name`, built from the registry when the class is
    created, so that a new row needs no edit here; type checkers see the base class. Every config
    of the registry must be a subclass of the annotated class.
    """

    def __init__(self, registry: Mapping[str, ModelEntry]):
        self.registry = registry

    @property
    def config_classes(self) -> tuple[type[Config], ...]:
        """The distinct config classes, in the order of the registry (`saccade.config` reads it)."""
        return tuple(dict.fromkeys(entry.config_class for entry in self.registry.values()))

    def __get_pydantic_core_schema__(self, base: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of the discriminated union."""
        if not self.registry:
            raise TypeError("got an empty registry; expected at least one model.")
        for config_class in self.config_classes:
            if not issubclass(config_class, base):
                raise TypeError(
                    f"got {config_class.__name__} in the registry of a field of type "
                    f"{base.__name__}; expected a subclass of it: derive it from {base.__name__}, "
                    "or annotate the field with a class that all configs of the registry have."
                )
        choices = {
            name: handler.generate_schema(entry.config_class)
            for name, entry in self.registry.items()
        }
        return core_schema.tagged_union_schema(choices, discriminator="name")
