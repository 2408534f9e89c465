"""Roles of columns, and the usual names of columns by which a role is recognised."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from saccade.data.records.names import normalise_name


class Role(NamedTuple):
    """A role that a column has in a task: the setting `data.NAME` and the option `--NAME`.

    A required role is inferred from names and contents; an optional one from its aliases alone.
    """

    name: str
    kind: str  # "text", "label", "number", "path", "time" or "any"
    help: str  # one line for --help
    required: bool = True
    aliases: tuple[str, ...] = ()  # usual names of such a column, normalised


SOURCE_ROLE = Role(
    "source",
    "text",
    "Column with the source texts.",
    aliases=tuple(
        "src input question query prompt original from article document source_text sentence1"
        " instruction problem premise 源 原文 вопрос".split()
    ),
)
TARGET_ROLE = Role(
    "target",
    "text",
    "Column with the target texts.",
    aliases=tuple(
        "tgt trg output answer response completion translation reference summary to corrected"
        " target_text sentence2 solution reply 译文 目标 ответ".split()
    ),
)
TEXT_ROLE = Role(
    "text",
    "text",
    "Column with the texts.",
    aliases=tuple(
        "review sentence content comment body message description document tweet post article"
        " utterance question headline title text_a query abstract sms email texts sentences"
        " reviews comments sentence1 raw_text story passage paragraph verse lyrics texte texto"
        " testo kommentar bewertung satz текст отзыв 文本 内容 评论 评价 句子 テキスト".split()
    ),
)
LABEL_ROLE = Role(
    "label",
    "label",
    "Column with the classes.",
    aliases=tuple(
        "labels class category sentiment target stars star polarity topic intent rating genre tag"
        " y emotion stance classification language lang spam toxic gold outcome klasse kategorie"
        " classe categorie clase categoria etiqueta stimmung score type is_spam coarse_label"
        " fine_label class_index класс метка 标签 类别 分类 情感 ラベル 레이블".split()
    ),
)
PAIR_ROLE = Role(
    "pair",
    "text",
    "Column with the second texts of pairs.",
    required=False,
    aliases=tuple("sentence2 text_b hypothesis question2 text2 second_sentence".split()),
)
IMAGE_ROLE = Role(
    "image",
    "path",
    "Column with the paths of the images.",
    aliases=tuple(
        "path file filename filepath image_path image_file image_name img img_path file_name"
        " images filenames photo picture image_id bild imagen 图片 图像".split()
    ),
)
CAPTION_ROLE = Role(
    "caption",
    "text",
    "Column with the captions of the images.",
    aliases=tuple(
        "captions description text sentence comment comments raw title alt alt_text legend"
        " bildunterschrift legende leyenda 标题 描述".split()
    ),
)
TABLE_TARGET_ROLE = Role(
    "target",
    "any",
    "Column to predict.",
    aliases=tuple(
        "label class y outcome response labels click clicked churn survived purchased bought"
        " converted fraud diagnosis".split()
    ),
)
POSITIVE_ROLE = Role(
    "positive",
    "text",
    "Column with a sentence of the same meaning, or the other of a rated pair.",
    required=False,
    aliases=tuple(
        "pos paraphrase entailment sentence2 sentence_2 text2 text_2 s2 hypothesis".split()
    ),
)
NEGATIVE_ROLE = Role(
    "negative",
    "text",
    "Column with a similar sentence of another meaning (hard negative).",
    required=False,
    aliases=tuple("neg hard_neg hard_negative contradiction".split()),
)
SCORE_ROLE = Role(
    "score",
    "number",
    "Column with the rated similarity of the two sentences.",
    required=False,
    aliases=("similarity", "rating", "similarity_score", "gold_score"),
)
SERIES_ROLE = Role(
    "target",
    "number",
    "Column of the series.",
    aliases=("value", "values", "y", "close", "price", "sales", "demand", "temperature", "count"),
)
TIME_ROLE = Role(
    "time",
    "time",
    "Column with the time of each row.",
    required=False,
    aliases=(),
)
WEIGHT_ROLE = Role("weight", "number", "Column with the weight of each row.", required=False)

TASK_ROLES: dict[str, tuple[Role, ...]] = {
    "answer": (),
    "bert": (TEXT_ROLE,),
    "caption": (IMAGE_ROLE, CAPTION_ROLE),
    "classify": (TEXT_ROLE, PAIR_ROLE, LABEL_ROLE),
    "contrastive": (IMAGE_ROLE, LABEL_ROLE._replace(required=False)),
    "control": (),
    "embed": (
        TEXT_ROLE._replace(
            aliases=(*TEXT_ROLE.aliases, *"anchor premise sentence_1 text1 text_1 s1".split())
        ),
        POSITIVE_ROLE,
        NEGATIVE_ROLE,
        SCORE_ROLE,
    ),
    "forecast": (SERIES_ROLE, TIME_ROLE),
    "image": (IMAGE_ROLE, LABEL_ROLE),
    "kernel-regression": (),
    "language": (TEXT_ROLE,),
    "table": (TABLE_TARGET_ROLE, WEIGHT_ROLE, TIME_ROLE),
    "tag": (),
    "translate": (SOURCE_ROLE, TARGET_ROLE),
    "vectors": (TEXT_ROLE,),
}

IMAGE_FILE_SUFFIXES = frozenset(
    ".avif .bmp .gif .ico .jfif .jpe .jpeg .jpg .jp2 .pbm .pgm .png .pnm .ppm .tga .tif .tiff "
    ".webp".split()
)

TIME_NAMES = frozenset(
    "time date datetime timestamp ts ds day month year week hour period created_at updated_at"
    " datum zeit fecha дата 日期 时间".split()
)

SPLIT_ALIASES = {  # values of a column of splits
    "train": "train",
    "training": "train",
    "learn": "train",
    "dev": "dev",
    "development": "dev",
    "valid": "dev",
    "validation": "dev",
    "val": "dev",
    "test": "test",
    "testing": "test",
    "eval": "test",
    "evaluation": "test",
    "holdout": "test",
}

_LANGUAGE_CODES = frozenset(
    "af am ar as az be bg bn bs ca cs cy da de el en eo es et eu fa fi fr ga gl gu ha he hi hr hu"
    " hy id ig is it ja ka kk km kn ko ky lb lo lt lv mg mk ml mn mr ms mt my nb ne nl nn no or pa"
    " pl ps pt ro ru rw sd si sk sl so sq sr sv sw ta te tg th tk tl tr tt ug uk ur uz vi xh yi yo"
    " zh zu ara ces cmn dan deu ell eng est fas fin fra fre ger glg hau heb hin hun ind isl ita jpn"
    " kor lat lit nld nor pol por ron rus slk slv spa srp swa swe tam tel tha tur ukr urd vie yor"
    " zho zul jp cn kr cz".split()
)
_LANGUAGE_NAMES = frozenset(
    "arabic bengali bulgarian catalan chinese croatian czech danish dutch english estonian finnish"
    " french german greek hebrew hindi hungarian icelandic indonesian italian japanese korean latin"
    " latvian lithuanian malay mandarin norwegian persian polish portuguese romanian russian"
    " serbian slovak slovenian spanish swahili swedish tamil telugu thai turkish ukrainian urdu"
    " vietnamese welsh yoruba zulu deutsch englisch französisch francais français anglais allemand"
    " español espanol ingles inglés italiano русский английский 中文 英文 英语 汉语 日本語".split()
)
_SCRIPT_CODES = frozenset("arab cyrl deva grek hang hans hant hebr jpan kore latn thai".split())
_TEXT_WORDS = frozenset("text sentence sent line src tgt source target translation lang".split())


def is_language_name(column: str) -> bool:
    """Return True if a column is named after a language: en, de_DE, text_fr, translation.zh."""
    words = re.split(r"[\W_]+", column.rpartition(".")[2].strip().casefold())
    words = [word for word in words if word not in _TEXT_WORDS]
    if not words:
        return False
    first, *rest = words
    has_region = len(rest) == 1 and (len(rest[0]) == 2 or rest[0] in _SCRIPT_CODES)
    return (not rest or has_region) and (first in _LANGUAGE_CODES or first in _LANGUAGE_NAMES)


class NameMatch(NamedTuple):
    """A column whose name is usual for a role; a lower rank is a closer match."""

    rank: int  # 0: the role's own name, 1: an alias, 2: an alias as the last word
    column: str


def match_names(role: Role, columns: Iterable[str]) -> Sequence[NameMatch]:
    """Return the columns named like a role, the closest matches first."""
    found = []
    aliases = set(role.aliases)
    last_words = {name for name in (role.name, *role.aliases) if len(name) > 2}
    for column in columns:
        names = {normalise_name(column), normalise_name(column.rpartition(".")[2])}
        if role.name in names:
            found.append(NameMatch(0, column))
        elif aliases & names:
            found.append(NameMatch(1, column))
        elif {name.rpartition("_")[2] for name in names} & last_words:
            found.append(NameMatch(2, column))
    return sorted(found, key=lambda match: match.rank)


def is_time_name(column: str) -> bool:
    """Return True if a column is named like a time."""
    name = normalise_name(column)
    return name in TIME_NAMES or name.rpartition("_")[2] in TIME_NAMES
