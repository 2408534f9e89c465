"""Templates of a prompt, and the words of its labels (verbaliser). Does not import torch."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from saccade.data.special_tokens import UNK
from saccade.data.tokenizers import tokenizer_from_json
from saccade.data.wordpiece import CLS, MASK, SEP, WordPieceTokenizer
from saccade.errors import ConfigError
from saccade.models.bert_config import PSEUDO_TOKEN, PromptClassifierConfig
from saccade.tasks.text_classification.config import ClassifyRecipe
from saccade.tasks.text_classification.pieces import (
    NO_SPAN,
    EncodedText,
    PieceEncoder,
    bags_of_pieces,
)
from saccade.tasks.text_classification.texts import LabelVocabulary
from saccade.types.bags import Bags

TEXT_SLOT, MASK_SLOT = "{text}", "[MASK]"
EXAMPLE_TEMPLATE = "{text} It was [MASK]."
EXAMPLE_WORDS = "positive=good,great;negative=bad,terrible"
SLOTS = re.compile("|".join(re.escape(slot) for slot in (TEXT_SLOT, MASK_SLOT, PSEUDO_TOKEN)))


class Template(NamedTuple):
    """The ids before and after the text, with [CLS] and [SEP]."""

    before: list[int]
    after: list[int]
    text_lead: str  # a space where the template has one before the text
    word_lead: str  # and before [MASK]

    @property
    def length(self) -> int:
        """Number of tokens without those of the text."""
        return len(self.before) + len(self.after)

    @property
    def mask_position(self) -> int:
        """Position of [MASK] from the start, or negative from the end if it follows the text."""
        if MASK in self.before:
            return self.before.index(MASK)
        return self.after.index(MASK) - len(self.after)


def parse_template(template: str, tokenizer: WordPieceTokenizer) -> Template:
    """Return the ids of a template; pseudo-tokens have those after the vocabulary.

    A space before a slot belongs to the token in it, which matters to tokens of bytes.
    """
    for slot in (TEXT_SLOT, MASK_SLOT):
        if (count := template.count(slot)) != 1:
            raise ConfigError(
                f"model.template: got {template!r} with {count} {slot}; expected it once; try "
                f"{EXAMPLE_TEMPLATE!r}."
            )
    before, after, leads = [CLS], list[int](), dict[str, str]()
    end, pseudo = 0, tokenizer.vocab_size
    for found in SLOTS.finditer(template):
        slot = found.group()
        literal = template[end : found.start()]
        leads[slot] = " " if literal.endswith(" ") else ""
        ids = tokenizer.encode(literal.rstrip())
        if slot == MASK_SLOT:
            ids.append(MASK)
        elif slot == PSEUDO_TOKEN:
            ids.append(pseudo)
            pseudo += 1
        side = before if slot == TEXT_SLOT or TEXT_SLOT not in leads else after
        side += ids
        end = found.end()
    after += [*tokenizer.encode(template[end:]), SEP]
    return Template(before, after, leads[TEXT_SLOT], leads[MASK_SLOT])


class TemplateEncoder(PieceEncoder):
    """Encodes texts in a template as ids minus 1; what is truncated is the text alone.

    Both texts of a pair are in the place of the text.
    """

    def __init__(self, recipe: ClassifyRecipe, pieces: dict[str, Any]):
        super().__init__(recipe, pieces)
        config = recipe.model
        assert isinstance(config, PromptClassifierConfig)
        self.template = parse_template(config.template, self.tokenizer)
        self.text_tokens = self.max_tokens - self.template.length
        if self.text_tokens < 1:
            raise ConfigError(
                f"model.template: got {self.template.length:,} tokens; expected fewer than "
                f"{self.max_tokens:,}, the positions of the encoder or data.max_tokens, so that a "
                "text fits; try a shorter template."
            )

    def encode(self, texts: Iterable[str]) -> Bags:
        """Return the ids of each text in the template, minus 1."""
        lead = self.template.text_lead
        encoded = self.tokenizer.encode_many([lead + text for text in texts])
        return bags_of_pieces([self._fill(ids) for ids in encoded])

    def encode_spans(self, text: str) -> EncodedText:
        """Return the ids of one text, and the characters of each; the template has none."""
        before, after, lead, _ = self.template
        pieces = self.tokenizer.encode_pieces(lead + text)
        spans = [
            (max(0, start - len(lead)), end - len(lead))
            for start, end in pieces.spans[: self.text_tokens]
        ]
        around = ([NO_SPAN] * len(side) for side in (before, after))
        return EncodedText(self._fill(pieces.ids), [*next(around), *spans, *next(around)])

    def _fill(self, ids: Sequence[int]) -> list[int]:
        return [*self.template.before, *ids[: self.text_tokens], *self.template.after]


def parse_words(words: str, labels: Sequence[str]) -> dict[str, list[str]]:
    """Return the words of each label; the label itself if `words` is empty."""
    if not words:
        return {label: [label] for label in labels}
    found: dict[str, list[str]] = {}
    complaints = []
    for part in words.split(";"):
        label, sign, listed = part.rpartition("=")
        label, own = label.strip(), [word.strip() for word in listed.split(",") if word.strip()]
        if not sign:
            complaints.append(f"got {part.strip()!r}; expected LABEL=WORD,WORD")
        elif label not in labels:
            complaints.append(f"got words of {label!r}; expected labels: {', '.join(labels[:20])}")
        elif label in found:
            complaints.append(f"got the label {label!r} twice; expected it once")
        else:
            found[label] = own
    missing = [label for label in labels if not found.get(label)]
    complaints += [
        f"got no words for the label {label!r}; expected one or more" for label in missing
    ]
    if complaints:
        raise ConfigError(f"model.words: {'; '.join(complaints)}; try {EXAMPLE_WORDS!r}.")
    return {label: found[label] for label in labels}


def encode_words(
    words: dict[str, list[str]], tokenizer: WordPieceTokenizer, lead: str
) -> dict[str, list[int]]:
    """Return the id of each word; ConfigError for words of several tokens or unknown ones."""
    found: dict[str, list[int]] = {}
    complaints = []
    for label, own in words.items():
        encoded = [tokenizer.encode(lead + word) for word in own]
        for word, ids in zip(own, encoded, strict=True):
            if len(ids) != 1 or UNK in ids:
                tokens = " ".join(tokenizer.display_tokens(ids))
                complaints.append(f"{word!r} of the label {label!r} ({tokens or 'no token'})")
        found[label] = [ids[0] for ids in encoded if ids]
    if complaints:
        raise ConfigError(
            f"model.words: got {', '.join(complaints)}; expected words of one token of the "
            f"vocabulary; try others with --set model.words={EXAMPLE_WORDS!r}."
        )
    return found


def resolve_prompt(recipe: ClassifyRecipe, vocabulary: LabelVocabulary) -> ClassifyRecipe:
    """Return the recipe with the ids of the words and the position of the mask; check it."""
    config = recipe.model
    assert isinstance(config, PromptClassifierConfig)
    if not config.pretraining_heads:
        raise ConfigError(
            "got an encoder without the head for masked tokens (model.pretraining_heads=false); "
            "expected one that predicts the word at [MASK]; try a run of saccade train bert, or "
            "saccade train classify --init-from RUN."
        )
    if recipe.data.multi_label:
        raise ConfigError(
            "got texts of several labels; expected one label each, since the words of the labels "
            "exclude each other; try another model, or --set data.multi_label=false."
        )
    tokenizer = tokenizer_from_json(vocabulary.pieces)
    assert isinstance(tokenizer, WordPieceTokenizer)
    template = parse_template(config.template, tokenizer)
    if config.is_frozen and not config.num_pseudo_tokens:
        raise ConfigError(
            f"model.is_frozen: got the template {config.template!r} without pseudo-tokens, so that "
            f"nothing is learned; expected one or more {PSEUDO_TOKEN}; try "
            f'"{PSEUDO_TOKEN} {PSEUDO_TOKEN} {config.template}", or train.steps=0 alone.'
        )
    words = parse_words(config.words, vocabulary.labels)
    ids = encode_words(words, tokenizer, template.word_lead)
    resolved = {
        "word_ids": tuple(id for own in ids.values() for id in own),
        "word_counts": tuple(len(own) for own in ids.values()),
        "mask_position": template.mask_position,
    }
    return recipe.with_values(model=config.model_dump(exclude_unset=True) | resolved)
