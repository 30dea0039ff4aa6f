"""Detect the encoding of a text: by its byte order mark, by the pattern of UTF-16 or UTF-32, by the escapes of Japanese
emails, or by the language that it gives."""

from __future__ import annotations

import codecs
import math
import re
import unicodedata
from typing import NamedTuple

import chardet

_SAMPLE = 65_536
_MAX_ODD = 0.01  # share of characters that texts do not contain
_MIN_FOREIGN = 0.2  # share of bytes that UTF-16 has and that other texts lack, if the text is not mostly ASCII
_MIN_ZEROS, _MIN_ZEROS_OF_ASCII = 2, 0.4
_MAX_READINGS = 14
_MAX_EVIDENCE = 8_000  # bytes of lines beyond ASCII, from which the code page is detected
_WESTERN = "cp1252"
# Code pages that programs of people still write. Each more would cost certainty.
_CODE_PAGES = (
    *(f"windows-125{number}" for number in range(8)),
    *("cp874", "cp932", "euc-jp", "gb18030", "cp949", "big5"),
    *("cp437", "cp737", "cp850", "cp852", "cp857", "cp860", "cp866"),
    *("cp858", "cp862", "cp865", "iso8859-2", "iso8859-5", "iso8859-7", "iso8859-9", "iso8859-15", "koi8-r", "koi8-u"),
    *("macroman", "maccyrillic", "macgreek", "maclatin2", "macturkish"),
)
_WEIGHT_OF_ODD = 6.0
_WESTERN_BONUS = 6.0  # divided by the cube of the number of characters beyond ASCII
_MIN_CONFIDENCE = 0.002
_SURE = 0.1  # least lead over the next reading, as a logarithm
_SURE_CHINESE = 1.5  # the same of GB 18030, in which most Japanese text is Chinese
_MIN_LETTERS = 4  # different characters beyond ASCII: fewer are probable in several code pages
_ESCAPED = re.compile(rb"\x1b\$[@B][!-~]{2}")  # ISO-2022-JP
_COMMON_SYMBOLS = frozenset("£€¥¢§©®™°±×÷½¼¾«»¿¡·•№")
_JOINING = frozenset("’‘'·-–—\u00a0\u00ad")
_UNSPACED_SCRIPTS = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "FULLWIDTH", "HALFWIDTH")
# UTF-32's begins with UTF-16's, so it comes first.
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


class CodePage(NamedTuple):
    """The most probable code page of a text, and whether it is clearly more probable than the next."""

    encoding: str
    is_sure: bool


def unicode_encoding(data: bytes) -> tuple[bytes, str]:
    """Return the byte order mark and the encoding that it declares. UTF-16, UTF-32 and ISO-2022-JP without a mark have
    an empty mark. Otherwise both are empty."""
    for mark, encoding in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return mark, encoding
    sample = data[:_SAMPLE]
    unmarked = (
        ("iso2022_jp_ext",) if _ESCAPED.search(sample) else ("utf-32-le", "utf-32-be") if b"\0\0" in sample else ()
    )
    for encoding in unmarked:
        try:
            text = codecs.getincrementaldecoder(encoding)().decode(sample)
        except ValueError:
            continue
        if text and _share_of_odd(text) <= _MAX_ODD:
            return b"", encoding
    return b"", _unmarked_utf16(sample)


def _share_of_odd(text: str) -> float:
    odd = sum(unicodedata.category(letter) in ("Cc", "Cn", "Co") and letter not in "\t\r\n\f" for letter in text)
    return odd / len(text)


def _unmarked_utf16(sample: bytes) -> str:
    """Return the encoding of UTF-16 without a mark, else an empty string. Spaces, digits and line ends have a zero byte
    in every script."""
    zeros = sample[::2].count(0), sample[1::2].count(0)
    if max(zeros) < _MIN_ZEROS or max(zeros) <= 4 * min(zeros):
        return ""
    encoding = "utf-16-le" if zeros[1] > zeros[0] else "utf-16-be"
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(sample)
    except ValueError:
        return ""
    foreign = sum(byte >= 0x80 or (byte < 0x20 and byte not in b"\0\n\r") for byte in sample)
    is_unlike_others = foreign > _MIN_FOREIGN * (len(sample) - sum(zeros))
    is_probable = max(zeros) > _MIN_ZEROS_OF_ASCII * len(text) or is_unlike_others
    return encoding if is_probable and _share_of_odd(text) <= _MAX_ODD else ""


def detect_code_page(data: bytes) -> CodePage:
    """Return the code page of a text that is not Unicode and declares none. Little evidence is for Windows-1252."""
    evidence = b"\n".join(line for line in data.splitlines() if not line.isascii())[:_MAX_EVIDENCE]
    results = chardet.detect_all(evidence, ignore_threshold=True, include_encodings=_CODE_PAGES)
    found = {codecs.lookup(one["encoding"]).name: one["confidence"] for one in results if one["encoding"]}
    readings: dict[str, tuple[float, str]] = {}
    for name in dict.fromkeys([_WESTERN, *list(found)[:_MAX_READINGS]]):
        text = codecs.getincrementaldecoder(name)("replace").decode(evidence)
        if text not in readings:
            readings[text] = _score(text, name, found.get(name, 0.0)), name
    (score, name), *others = sorted(readings.values(), reverse=True)
    is_ahead = not others or score - others[0][0] > (_SURE_CHINESE if name == "gb18030" else _SURE)
    letters = {letter for text, (_, of) in readings.items() if of == name for letter in text if not letter.isascii()}
    return CodePage(name, is_ahead and len(letters) >= _MIN_LETTERS)


def _score(text: str, encoding: str, confidence: float) -> float:
    letters = [at for at, letter in enumerate(text) if not letter.isascii()]
    odd = sum(_is_odd(text[at - 1 : at] or " ", text[at], text[at + 1 : at + 2] or " ") for at in letters)
    count = max(1, len(letters))
    bonus = _WESTERN_BONUS / count**3 if encoding == _WESTERN else 0.0
    return math.log(max(confidence, _MIN_CONFIDENCE)) + bonus - _WEIGHT_OF_ODD * odd / count


def _is_odd(before: str, letter: str, after: str) -> bool:
    """Return whether a character is unlikely between its neighbours: a capital within a word, a symbol between letters,
    a letter beside a digit or beside one of another script."""
    kind = unicodedata.category(letter)
    if kind in ("Lu", "Ll", "Lo") and letter not in "ªº":
        if kind == "Lu" and before.islower():
            return True
        if kind != "Lo" and (before.isdigit() or after.isdigit()):
            return True
        script = unicodedata.name(letter, "").split(" ")[0].split("-")[0]
        has_latin = any(other.isascii() and other.isalpha() for other in (before, after))
        return has_latin and script != "LATIN" and script not in _UNSPACED_SCRIPTS
    if kind[0] in "LM" or letter in _JOINING:
        return False
    return (
        kind[0] == "C" or (before.isalpha() and after.isalpha()) or (kind[0] == "S" and letter not in _COMMON_SYMBOLS)
    )
