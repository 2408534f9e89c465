"""Detection of the encoding of a text: byte order marks, UTF-8, UTF-16, then charset-normalizer."""

import codecs
import re
from collections import Counter
from typing import NamedTuple

from saccade.errors import DataError

UTF8 = "utf-8"
DETECTION_BYTES = 1 << 16  # of lines that are not ASCII, for charset-normalizer

_BOMS = {  # UTF-32 first: its mark starts with that of UTF-16
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF8: UTF8,
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
_WIDER = {  # encodings that a file is rarely limited to, and the supersets that are in use
    "ascii": UTF8,
    "utf-8-sig": UTF8,
    "big5": "cp950",
    "euc_kr": "cp949",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "shift_jis": "cp932",
    "tis-620": "cp874",
}
_CANDIDATES = (  # of charset-normalizer: the encodings that files are found in
    "cp1250 cp1251 cp1252 cp1253 cp1254 cp1255 cp1256 cp1257 cp1258 cp874 koi8_r koi8_u iso8859_2 "
    "iso8859_5 iso8859_7 iso8859_15 mac_roman mac_cyrillic cp437 cp850 cp852 cp866 gb18030 big5 "
    "cp950 cp932 shift_jis euc_jp cp949 euc_kr"
).split()
# encodings of Latin letters; of those that fit equally well, the first is taken
_LATIN = (
    "cp1252 cp1250 iso8859_15 iso8859_2 cp1254 cp1257 mac_roman cp850 cp852 mac_latin2 "
    "cp1258".split()
)
_ALPHABETS = [  # letters beyond ASCII
    frozenset(letters + letters.upper())
    for letters in (
        "àâæçéèêëîïôœùûüÿ",  # French
        "äöüß",  # German
        "áéíóúüñçªº",  # Spanish
        "áâãàçéêíóôõú",  # Portuguese
        "àèéìíîòóùú",  # Italian
        "àçèéíïòóúü",  # Catalan
        "ëïéèöüóáê",  # Dutch
        "åäöéü",  # Swedish, Finnish
        "æøåéòôü",  # Danish, Norwegian
        "áðéíóúýþæö",  # Icelandic
        "äõöüšž",  # Estonian
        "áéíóöőúüű",  # Hungarian
        "áčďéěíňóřšťúůýž",  # Czech
        "áäčďéíĺľňóôŕšťúýž",  # Slovak
        "ąćęłńóśźż",  # Polish
        "čćđšž",  # Croatian, Slovene
        "ăâîșțşţ",  # Romanian
        "çğıİöşüâîû",  # Turkish
        "ąčęėįšųūž",  # Lithuanian
        "āčēģīķļņšūž",  # Latvian
        "ăâđêôơưàáãèéìíòóõùúý\u0300\u0301\u0303\u0309\u0323",  # Vietnamese, accents combined
    )
]
_PUNCTUATION = frozenset("«»‹›„“”‘’‚–—…°€£§©®™•·¿¡´×±²³½\xa0")
LATIN_SHARE = 0.97  # of the characters beyond ASCII that are letters of one language

_ISO_2022_JP = (b"\x1b$B", b"\x1b$@")  # escapes to two-byte characters
_MULTIBYTE = re.compile(
    rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}"
)
_NON_ASCII = re.compile(rb"[\x80-\xff]")
_LETTER = re.compile(rb"[A-Za-z]")
_AFTER_LETTER = re.compile(rb"([a-z]?)([\x80-\xff])")
_CONTROLS = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")


class DetectedEncoding(NamedTuple):
    """The encoding of a text and the length of its byte order mark."""

    name: str
    is_certain: bool = True  # False: guessed from the letters
    bom_bytes: int = 0


def detect_encoding(content: bytes) -> DetectedEncoding:
    """Return the encoding of a text from its first bytes."""
    for bom, name in _BOMS.items():
        if content.startswith(bom):
            return DetectedEncoding(name, bom_bytes=len(bom))
    if name := _utf16_without_bom(content):
        return DetectedEncoding(name)
    if any(escape in content for escape in _ISO_2022_JP):
        return DetectedEncoding("iso2022_jp", is_certain=False)
    if _is_mainly_utf8(content):
        return DetectedEncoding(UTF8)
    return DetectedEncoding(_guess(content), is_certain=False)


def named_encoding(name: str, content: bytes) -> DetectedEncoding:
    """Return the encoding that the user named; a byte order mark of it is skipped."""
    codec = codec_name(name)
    for bom, marked in _BOMS.items():
        if content.startswith(bom) and (codec == marked or marked.startswith(codec)):
            return DetectedEncoding(marked, bom_bytes=len(bom))
    # without a mark Python's decoder of these takes no stream
    return DetectedEncoding(f"{codec}-le" if codec in ("utf-16", "utf-32") else codec)


def codec_name(name: str) -> str:
    """Return Python's name of an encoding; `DataError` if there is none."""
    try:
        codec = codecs.lookup(name)
        if codec._is_text_encoding:  # not "zip", "rot13"
            return UTF8 if codec.name == "utf-8-sig" else codec.name
    except (LookupError, ValueError):
        pass
    raise DataError(
        f"got the encoding {name!r}, which does not exist; expected a name such as utf-8, latin-1, "
        "cp1252, gb18030, shift_jis, koi8-r or utf-16; try none to have it detected."
    )


def _utf16_without_bom(content: bytes) -> str:
    """Return UTF-16 of one byte order if zero bytes are at even or at odd positions only.

    Latin text has a zero byte in every unit. Text in other scripts has some (spaces, line ends),
    and its other high bytes are control characters (0x04 is Cyrillic) or no UTF-8 (Chinese).
    """
    sample = content[: DETECTION_BYTES & ~1]
    sample = sample[: len(sample) & ~1]
    zeros = sample[0::2].count(0), sample[1::2].count(0)
    low, high = sorted(zeros)
    is_big_endian = zeros[0] > zeros[1]
    high_bytes = sample[0::2] if is_big_endian else sample[1::2]
    are_controls = 2 * len(_CONTROLS.findall(high_bytes)) > len(high_bytes)
    if not high or high < 10 * low or (not are_controls and _is_mainly_utf8(sample)):
        return ""
    name = "utf-16-be" if is_big_endian else "utf-16-le"
    try:
        text = sample.decode(name)
    except UnicodeDecodeError as error:
        if error.end < len(sample):  # not a cut pair of surrogates
            return ""
        text = sample[: error.start].decode(name)
    ordinary = sum(char.isalnum() or char.isspace() or char.isprintable() for char in text)
    return name if ordinary >= 0.95 * len(text) else ""


def _is_mainly_utf8(content: bytes) -> bool:
    """Return True for UTF-8, with fewer invalid bytes than valid sequences if any.

    A file in UTF-8 with some damaged bytes is not a file in another encoding.
    """
    decoder = codecs.getincrementaldecoder(UTF8)()  # the last character may be cut
    try:
        decoder.decode(content)
        return True
    except UnicodeDecodeError:
        valid = len(_MULTIBYTE.findall(content))
        invalid = len(_NON_ASCII.findall(_MULTIBYTE.sub(b"", content)))
        return valid >= invalid


def _guess(content: bytes) -> str:
    """Return an encoding that the letters suggest."""
    from charset_normalizer import from_bytes  # 30 ms, for files that are not UTF-8 only

    sample = _lines_beyond_ascii(content)
    if latin := _latin_encoding(sample):
        return latin
    best = from_bytes(sample, cp_isolation=_CANDIDATES).best()
    name = codecs.lookup(best.encoding).name if best is not None else "cp1252"
    for wider in (_WIDER.get(name, name), name):
        try:
            codecs.getincrementaldecoder(wider)().decode(sample)
            return wider
        except UnicodeDecodeError:
            continue
    return "latin-1"  # decodes every byte


def _latin_encoding(sample: bytes) -> str:
    """Return the encoding with which the letters beyond ASCII are those of one language, if any.

    The encodings of Latin letters differ in some of them only: the bytes of Hungarian "ő" and
    Portuguese "õ" are the same, but no language has "õ" and "ű".
    """
    beyond = _NON_ASCII.findall(sample)
    if 2 * len(beyond) > len(_LETTER.findall(sample)):  # other scripts have few ASCII letters
        return ""
    found, best = "", LATIN_SHARE
    counts = Counter(_AFTER_LETTER.findall(sample))
    for name in _LATIN:
        letters: Counter[str] = Counter()
        for (before, byte), count in counts.items():
            char = byte.decode(name, "replace")
            if not (before and char.isupper()):  # no word has a capital after a small letter
                letters[char] += count
        share = max(
            sum(n for char, n in letters.items() if char in alphabet or char in _PUNCTUATION)
            for alphabet in _ALPHABETS
        ) / len(beyond)
        if share > best:
            found, best = name, share
    return found


def _lines_beyond_ascii(content: bytes) -> bytes:
    """Return lines with bytes beyond ASCII: the others have no evidence."""
    lines, size = [], 0
    for line in content.split(b"\n"):
        if not line.isascii():
            lines.append(line[:DETECTION_BYTES])
            size += len(lines[-1])
            if size >= DETECTION_BYTES:
                break
    return b"\n".join(lines)
