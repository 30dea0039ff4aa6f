"""Numbers in any locale: digits, with the signs, brackets, currency, unit and scale printed beside them.

`read_number` reads a number once: it consumes the tokens beside the digits, on either side, one after the other. Values
and printed numbers are read by the same function. Values are canonical decimals, see `domain.numbers`.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import cache, cached_property, lru_cache
from typing import Final, Literal, NamedTuple

from valuegrounding import units
from valuegrounding.conventions import DocumentKind, conventions_of, kind_of
from valuegrounding.dates import DATE_AFTER, DATE_BEFORE
from valuegrounding.decimals import MAX_DIGITS, canonical_decimal, join_decimal, with_sign
from valuegrounding.folding import HARD_SPACE, UNSPACED, fold
from valuegrounding.qualifiers import CREDIT, DEBIT, LIMIT_AFTER, LIMIT_WORD
from valuegrounding.units import SYMBOLS, Codes, any_of

BODY = re.compile(rf"\d+(?:[.,'·{HARD_SPACE}]\d+)*")
_SPACED = re.compile(r"\d(?<![\d.,'\x1f]\d)\d{0,2}(?:[ \n]\d{3})+(?:[.,]\d+)?(?!\d)")
# OCR may put a space beside a separator: `1, 234.56`, `1.234, 56`, `1,719.3 3`, `1234 .56`, `1234. 56`.
_SPLIT = re.compile(
    r"\d(?<![\d.,'\x1f]\d)\d{0,2}(?:(?:,[ \n]|[ \n],[ \n]?)\d{3}(?:,\d{3})*\.\d\d?"
    r"|(?:\.[ \n]|[ \n]\.[ \n]?)\d{3}(?:\.\d{3})*,\d\d?"
    r"|(?:,\d{3})+(?:[ \n]?\.[ \n]\d\d|[ \n]\.\d\d|\.\d[ \n]\d)|(?:\.\d{3})+(?:[ \n]?,[ \n]\d\d|[ \n],\d\d|,\d[ \n]\d)"
    r"|\d{0,6}[ \n][.,]\d\d|(?:\d{0,3}|(?:[ \n\x1f]\d{3})+)[ \n]?[.,][ \n]\d\d)(?![\d.,]\d|\d)"
)
_SPLIT_SPACE = re.compile(r"(?:(?<=[.,])|(?<=[.,]\d))[ \n]|[ \n](?=[.,])")
# It may also be two numbers of a list or of two sentences.
_LOOSE_SPLIT = re.compile(r"\d+[ \n]?[.,][ \n]\d\d")
_SPACE = re.compile(r"[ \n]")
# A sign of money or a Swedish colon in place of the decimal mark: `12€50`, `1 234:50`, `75:50 kr`.
_MIDDLE_MARK = re.compile(
    rf"\d(?<![\w.,:/'\-]\d)(?:\d{{0,2}}(?:[ \n\x1f]\d{{3}})+:|\d{{0,5}}(?:[{SYMBOLS}]"
    r"|:(?=\d\d[ \n]?(?:kr|sek)(?![^\W_]))))\d\d(?!\w|[.,:]\d)"
)
_MIDDLE = re.compile(rf"([\d \n\x1f]+)([:{SYMBOLS}])(\d\d)")
_WHOLE_AFTER = re.compile(r"[.,:]-{1,2}(?!\w)")  # 1.250,-
_NO_DIGITS = {ord(mark): None for mark in f".,'·: \n{HARD_SPACE}{SYMBOLS}"}
_GROUPS = re.compile(r"[.,'·\s\x1f]")
_THOUSANDS = re.compile(r"[1-9]\d{0,2}(?:(?P<s>[.,'·\s\x1f])\d{3})(?:(?P=s)\d{3})*")
# Either with three decimals, or with a separator of thousands.
_EITHER_MARK = re.compile(r"[1-9]\d{0,2}[.,]\d{3}")
# 1'234,567.50 in Latin America: only before decimals, since 1'234,567 may have three of them.
_MILLIONS = re.compile(r"[1-9]\d{0,2}'\d{3}(?P<s>[.,])\d{3}(?:(?P=s)\d{3})*")
_LAKHS = re.compile(r"[1-9]\d?(?:,\d\d)+,\d{3}")
_YEAR = re.compile(r"(?:19|20)\d\d")
_CONTEXT_CHARACTERS: Final = 24  # read on either side of a number
# Possible shifts of the decimal point: percent, per mille, hundreds, thousands, lakhs, millions, crores, …
_SHIFTS: Final = (2, 3, -2, -3, -4, -5, -6, -7, -8, -9)
_MAX_TOKEN_CHARACTERS: Final = 16  # of a token before a number
_IGNORED_AROUND: Final = " +-()<>=:;,.*#~|!?^'\"[]{}"
_DENOMINATORS: Final = frozenset({2, 3, 4, 5, 6, 8, 10, 16, 32, 64, 100})
# Certainty of a number that is a limit or the end of a range, and of one after a dash with a space.
_LIMIT_CERTAINTY, _EITHER_SIGN_CERTAINTY = 0.6, 0.9
_MIN_CENTS: Final = 10  # numbers with two decimals that outweigh the document's language
_OTHER_READING_CERTAINTY: Final = 0.4  # of 1.25 at `1.250`, unless the document has decimal points; of 250 at `1 250`
_SHORT_NUMBER_BESIDE = (re.compile(r"(?<!\S)\d{1,3}[ \n]\Z"), re.compile(r"[ \n]\d{1,3}(?!\S)"))
_COUNT_BEFORE = re.compile(
    r"(?<![^\W_])(?:qty|quantity|quantities|pcs|pieces|units|count|menge|anzahl|stuck|stk|antal|qte|quantite|nombre|cant"
    r"|cantidad|qta|quantita|quantidade|aantal|ilosc)[.:]?[ \n\x1f]\Z"
)
_MINUS_WORDS: Final = """
minus moins menos meno минус мінус miinus minuse minusz eksi μειον سالب ناقص מינוס ऋण ลบ tru
"""
_MINUS_WORD = any_of(_MINUS_WORDS.split())
_NEGATIVE: Final = r"neg(?:ati(?:ve|v|vo|va|ef|f))?\.?"
_END_OF_CELL: Final = r"(?![^\W_])(?=\Z|[ ]?[.,;:)\]*])"
_CURRENCY = rf"(?:[^\W\d_]{{0,3}}[{SYMBOLS}]|{any_of(units.CURRENCY_LETTERS)}(?![^\W\d_]))"
_SCALED = any_of(units.SCALED_CURRENCIES)
_LONG_SCALE = any_of(word for word, places in units.SCALES.items() if places and len(word) > 2)
_UNIT = any_of(units.UNIT_OF)
_PART_OF_UNIT = any_of(("oz", "in", "inch", "inches", "min", "mins", "sec", "s"))
# Cents printed after the currency: `12 € 50`, `12 Euro 50 Cent`, `$12 and 50 cents`, `12元5角`.
_CENT_WORD = any_of(units.CENT_WORDS)
_CENTS_APART: Final = rf"""(?P<whole>\d(?<![\w.,:/'\-]\d)\d{{0,5}}(?:[.,'\x1f]\d{{3}})*)
    (?:[ \n]?(?P<money>{_CURRENCY}|f)\.?[ \n]?|[ \n])(?:(?:and|und|et|y|e|og|och|en|i)[ \n])?
    (?P<part>\d\d?)(?:[ \n]?角(?:[ \n]?(?P<fen>\d)[ \n]?分)?|(?P<word>[ \n]?{_CENT_WORD}(?![^\W_])))?
    (?!\w|[.,:/\-]\d)"""
# `1億2345万円`, `1万2345円`. In Chinese 1万2 may be 12000, so fewer than three digits at the end need yen.
_MYRIADS = re.compile(
    r"(?=[\d,]{1,5}[ \n]?[億亿억万萬만])(?:(?P<oku>\d(?<![\w.,]\d)(?:,?\d){0,3})[ \n]?[億亿억][ \n]?)?"
    r"(?:(?P<man>\d(?<![\d.,]\d)(?:,?\d){0,3})[ \n]?[万萬만][ \n]?)?"
    r"(?:(?P<sen>[1-9])[ \n]?[千仟천][ \n]?)?"
    r"(?P<rest>\d(?:,?\d){2,3}(?!\d)|\d\d?(?=[ \n]?[円圓]))?(?![\d.,]\d|\d|[ \n]?[千百万萬만億亿억])"
)
_ALPHABETIC = re.compile(rf"[^\W\d_]|[{SYMBOLS}]")
_PARTS: Final = (("oku", 10**8), ("man", 10**4), ("sen", 1000), ("rest", 1))
_FRANCS: Final = frozenset({"FRF"})
_HELLER_AFTER = re.compile(r"[ \n]?(?:h|kr)(?![^\W_])")
_WITHOUT_CENTS: Final = ("JPY", "KRW", "VND", "cent")
_UNIT_AFTER = re.compile(rf"[ \n]?(?P<unit>(?P<money>{_CURRENCY})|[%‰]|{_UNIT}(?![^\W_]))")
_MONEY_BEFORE = re.compile(rf"{_CURRENCY}\.?[ \n]?\Z")

# The token directly before a number, or before the tokens already consumed. The last group names its kind.
_BEFORE: Final = rf"""(?:
    (?P<minus>[(\[][ ]?(?:-|{_MINUS_WORD}|{_NEGATIVE})[ ]?[)\]]|\./\.|-/-|(?<![^\W_]){_MINUS_WORD}(?=[ ])|[△▼▽⊖負负]
        |マイナス|마이너스|(?<!\w)ー)
    |(?P<either>(?<![^\W_])(?:{_NEGATIVE}[.:]?|{_MINUS_WORD}:|minder:?)(?=[ ]))
    |(?P<unsure>▲)                                # a loss in Japanese accounts, a rise elsewhere
    |(?P<limit>[≤≥≦≧±]|(?<![^\s(:])[<>]=?|(?<![^\W_]){LIMIT_WORD}(?=[ ]))  # at most, at least, give or take
    |(?P<sign>(?<![^\s(:=*|>+"{SYMBOLS}])-)
    |(?P<open>[(<])
    |(?P<plus>\+)
    |(?P<scaled>(?<![^\W_]){_SCALED})[.:]?
    |(?P<scale>(?<![^\W_])(?<!\d[ ]){_LONG_SCALE})\.?     # Mio. € 1,5
    |(?P<percent>(?<![^\s(:=])[%‰](?![ ]))          # %18
    |(?P<money_minus>(?<![^\W_]){_CURRENCY}-)
    |(?P<money>(?<![^\W\d_]){_CURRENCY})[.:]?
    )[ ]?\Z"""
# The token directly after a number, or after the tokens already consumed.
_AFTER: Final = rf"""[ ]?(?:
    (?P<power>[x×*·][ ]?10(?:(?P<exponent>-?(?:\^\d){{1,2}}|(?:\^|e)[-+]?\d{{1,2}})(?![\w^]|[.,]\d)
        |[\^e]|[ ]?[-+]?\d))
    |(?P<raised>-?(?:\^\d)+)
    |(?P<fraction>[ ]?(?<=[ ])(?P<part>\d{{1,2}})[/⁄](?P<of>100|\d{{1,2}})(?![\d/⁄]|[.,]\d))
    |(?P<credit>-?\((?:cr|{CREDIT})\.?\)|-?cr(?![^\W_])|[贷貸]|{CREDIT}{_END_OF_CELL})
    |(?P<debit>-?\((?:dr|db|{DEBIT})\.?\)|-?(?:dr|db)(?![^\W_])|借|{DEBIT}{_END_OF_CELL})
    |(?P<overdrawn>\(od\)|o/?d(?![^\W_]))
    |(?P<minus>[(\[][ ]?(?:-|{_MINUS_WORD}|{_NEGATIVE})[ ]?[)\]]|(?:\./\.|-/-)(?![ ]?[\w(-])
        |{_MINUS_WORD}{_END_OF_CELL})
    |(?P<either>[~*_.][ ]?-(?!\w)|(?:{_MINUS_WORD}|{_NEGATIVE})(?![^\W_])(?![ ]?[\d(+\-{SYMBOLS}]))
    |(?P<whole>[.,:]-{{1,2}}(?!\w))               # 1.250,-
    |(?P<sign>-(?!\w))
    |(?P<percent>[%‰]|{any_of(units.PERCENT_WORDS)}(?![^\W_]))
    |(?P<scaled>{_SCALED}(?![^\W_]))
    |(?P<unspaced>(?P<scale_word>{any_of(units.UNSPACED_SCALES)})(?P<more>[ ]?\d)?)
    |(?P<unit>(?P<unit_name>{_UNIT})(?P<per>/[^\W\d_]{{1,5}}(?:\^?[23])?)?(?!\^|[^\W_]|[ ]?/[ ]?{_UNIT}(?![^\W_]))
        (?P<second>[ ]?\d{{1,2}}(?:[.,]\d+)?[ ]?{_PART_OF_UNIT}(?![^\W_]))?)
    |(?P<scale>{any_of(units.SCALES)}(?![^\W_]))\.?
    |(?P<money>{_CURRENCY})
    |(?P<close>[)>])
    |(?P<limit>{LIMIT_AFTER})
    )"""
# German debit (Soll) and credit (Haben), and D and C, in accounts only: elsewhere they are seconds, hours or sizes.
_SIDE_AFTER = re.compile(
    r"[ ]?(?:(?P<debit>\([sd]\)|(?:s|soll|d|af)(?![^\W_]))|(?P<credit>\([hc]\)|(?:h|haben|c|bij)(?![^\W_])))"
)
# The same before a number, unless it belongs to the number before it: `400.00 DR 75.00`.
_SIDE_BEFORE = re.compile(r"(?<![^\W_])(?:(?P<credit>cr|h|贷|貸)|(?P<debit>dr|db|s|借)|(?P<overdrawn>o/?d))[.:]?[ ]?\Z")
_DEBIT_BEFORE = re.compile(rf"(?<![^\W_]){DEBIT}[ ]\Z")
_KINDS_WITH_SIDES: Final = ("account", "ledger")
_UNSPACED_BEFORE: Final = rf"\d[ ]?{any_of(units.UNSPACED_SCALES)}\Z"
_STARS = re.compile(r"(?<=[^\s*])\*+\Z")  # before an amount on a cheque: `-***75.00`
_DIGIT_BEFORE = re.compile(r"\d[)\-%]?(?P<gap> ?)\Z")
_DIGIT_AFTER = re.compile(r"\.?(?P<gap> ?)[-(]?\d")
# The other end of a range without spaces.
_END_AFTER = re.compile(r"-(\d{1,9}(?:[.,]\d{1,3})?)(?![\w\-]|[/.,:]\w)")
_END_BEFORE = re.compile(r"(?<![\w.,:/\-])(\d{1,9}(?:[.,]\d{1,3})?)-\Z")
_RANGE_BEFORE = re.compile(r"[\d%)] ?\Z")
# Words and dots of a range. A hyphen without spaces is excluded because it may be part of an identifier.
_RANGE_WORD: Final = r"[ ]?(?:\.{2,3}|[~〜～]|(?<=[ ])(?:bis|to|til|till|tot|do|au|al|ate|до)(?=[ ]))[ ]?"
_RANGE_END = re.compile(rf"\d[ ]?(?:%|[^\W\d_]{{1,3}}|[{SYMBOLS}])?{_RANGE_WORD}\Z")
_RANGE_START = re.compile(rf"{_RANGE_WORD}(?:[^\W\d_]{{0,3}}[ ]?|[{SYMBOLS}])\d")
# A bracket directly after a word, as in `Screws (100)`, and the next number after it.
_WORD_BEFORE_BRACKET = re.compile(r"(?P<word>[^\W\d_]{1,20})[ \n\x1f]\([^\s\d()]{0,4}[ \n\x1f]?\Z")
_AMOUNT_AFTER_BRACKET = re.compile(r"[^)\n]{0,4}\)[ \n\x1f][-(]?[^\s\w(]?[-(]?\d")
_LETTER_MONEY = re.compile(rf"(?<![^\W_])([{''.join(units.LETTER_CURRENCIES)}]) ?\Z")
_PRICE_AFTER = re.compile(rf"@[ ]?[{SYMBOLS}]?\d")
# A segment of an EDIFACT message, up to the number: `MOA+86:417.10'`.
_SEGMENT_BEFORE = re.compile(r"(?<![^\s'])[a-z]{3}\+[\w+:.,\-]*[+:]-?\Z")
_BEFORE_COMMA: Final = ("", " ", "(", "-", *SYMBOLS)
_CENTS = re.compile(r"[.,]\d\d\Z")
_POWER_AFTER = re.compile(r"e|[ \n\x1f]?[x×*·]")
_EXPONENT = re.compile(r"e([-+]?\d{1,2})(?![^\W_]|[.,]\d)")
_FRACTION = re.compile(
    r"(?:(?P<whole>\d(?<![\w.,/⁄:'-]\d)\d{0,5})(?:[ \n\x1f] ?|[ \n](?:&|and|und|et|y|e)[ \n]|(?=\^)))?"
    r"\^?(?P<part>\d\d?)(?P<bar>[/⁄])\^?(?P<of>100|\d\d?)(?![\d/⁄]|[.,]\d)"
)
# A mark that is no decimal mark, between two numbers that may be one: `1234· 56`, `12,—50`, `12=50`. A point or comma
# with spaces may be one too: `1.234 ,56`. So may a space after a currency: `Fr. 12 50`.
_ODD_MARK: Final = r"(?:[ ]?[·=^~][ ]?|[.,:][ ]?[-—–][ ]?|[ ][.,][ ]?)"
_PART_AFTER = re.compile(rf"{_ODD_MARK}\d\d(?![\w.,:/])")
_PART_BEFORE = re.compile(rf"\d{_ODD_MARK}\Z")
_SPACE_BEFORE_PART = re.compile(r"[ ]\d\d(?![\w.,:/%\-]|[ ]?\d)")
_UNITS_OR_SCALES: Final = frozenset({"m", "t", "mm"})  # `3 m` is a length, `$3m` is three million or three thousand
_SCALES_OF_MONEY: Final = frozenset({"mm", "b", "bin", "md", "mds", "tn", "bil"})  # other meanings without a currency

# A slash of fractions, a character that the reader does not know, and lines that may be drawn for a minus.
_UNCLEAR_MARKS: Final = frozenset("⁄\ufffd─━╌╴╶⎯⸺ˉ¯⚊־᠆﹍¬")

_Tokens = dict[str, re.Match[str]]


@cache
def _pattern(verbose: str) -> re.Pattern[str]:
    """Compile one of the long patterns above at its first use: that takes milliseconds."""
    return re.compile(verbose, re.VERBOSE)


class Number(NamedTuple):
    """A printed number: its offsets, its possible values, and its currency or unit.

    `shifted` holds the values after applying the percent sign or scale beside it: 0.19 for `19 %`, 3200000 for `3.2
    million`. `currency` holds the possible currency codes. A `unit` may also be % or ‰. `certainty` is below 1 if
    something beside the number may change its meaning: a limit, a range, a dash. `is_limit` is set for `<5` and `≥ 5`.
    `reading` is the certainty of the value that was looked up: `1.250` may be 1.25 or 1250.
    """

    start: int
    end: int
    values: tuple[str, ...]
    shifted: tuple[str, ...] = ()
    currency: Codes | None = None
    unit: str | None = None
    certainty: float = 1.0
    is_limit: bool = False
    reading: float = 1.0


class ParsedNumber(NamedTuple):
    """The number in a text, with the text around it. Brackets may give two numbers: `(75)` is -75, or 75 as a
    remark."""

    numbers: tuple[Number, ...] = ()
    before: str = ""
    after: str = ""


@lru_cache(maxsize=8192)
def possible_values(body: str) -> tuple[str, ...]:
    """Return the values that digits with separators may have: `1.250` is 1.25 or 1250, `1.250,00` only 1250."""
    if len(body) > MAX_DIGITS:
        return ()
    if body.isdigit():
        return () if len(body) > 2 and body.startswith("0") else (join_decimal(body, ""),)  # 0123 is an identifier
    found: list[str] = []
    last = max(body.rfind(mark) for mark in ".,'·")
    whole, part = body[:last], body[last + 1 :]
    if last >= 0 and part.isdigit():
        mark = body[last]
        if whole.isdigit() and not (mark == "'" and len(part) == 3):
            found.append(join_decimal(whole, part))
        elif mark not in whole and (_is_grouped(whole) or (mark in ".," and _MILLIONS.fullmatch(whole))):
            found.append(join_decimal(_GROUPS.sub("", whole), part))
    if _is_grouped(body):
        found.append(join_decimal(_GROUPS.sub("", body), ""))
    return tuple(dict.fromkeys(found))


def parse(text: str, kind: DocumentKind | None = None) -> Number | None:
    """Return the number that a text is, with sign, currency, unit or scale, or None if it contains anything else. The
    document's kind decides the sign of a credit or debit."""
    folded = fold(text.strip())
    body = BODY.search(folded)
    if body is None or len(folded) > 2 * MAX_DIGITS:
        return None
    start, end = next(
        _find_fractions(folded, lambda _: True), next(_find_space_grouped(folded, lambda _: True), body.span())
    )
    found = read_number(_with_plain_spaces(folded[:start]), folded[start:end], _with_plain_spaces(folded[end:]), kind)
    if not found.numbers or (found.before + found.after).strip(_IGNORED_AROUND):
        return None
    number = found.numbers[-1]
    if number.is_limit:
        return None
    values = number.values if number.unit in ("%", "‰") else (*number.values, *number.shifted)
    if number.reading < 1.0:  # a credit or debit
        values = tuple(value for value in values if value.startswith("-"))
    return number._replace(values=values) if values else None


class NumberIndex:
    """The numbers of a folded text, keyed by their digits. The text beside them is read only when a value is looked up.

    `are_joined(at)` returns whether the space at an offset is narrow enough to separate thousands. If so, `1 250,00` is
    one number; `1 250` may be one or two. `are_near(at)` returns whether the words around it are on one line and close
    enough to belong together. `are_in_cell(at)` returns whether only a space separates them.
    """

    def __init__(
        self,
        text: str,
        are_joined: Callable[[int], bool],
        are_near: Callable[[int], bool],
        are_in_cell: Callable[[int], bool],
    ) -> None:
        self._text = text
        self._are_near = are_near
        self._are_in_cell = are_in_cell
        self._weak: dict[int, float] = {}  # certainty of numbers that may be a group of a longer number, by offset
        # Digits that are grouped by spaces, and fractions: `1 250,00`, `7 1/2`.
        self.groups = sorted(
            [
                *_find_space_grouped(text, are_joined),
                *_find_fractions(text, are_joined),
                *_find_middle_marks(text, are_joined),
                *_find_cents_apart(text, are_joined),
                *_find_myriads(text, are_joined),
            ]
        )
        # Keyed by significant digits: all values of a printed number share them.
        self._by_digits: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        pieces: set[int] = set()
        for start, end in self.groups:
            whole = text[start:end]
            values = _parse_digits(whole) if _is_fraction(whole) or _ALPHABETIC.search(whole) else (whole,)
            for value in values:
                self._by_digits[_significant_digits(value)].append((start, end))
            # 1 250,00 and 10 000 are never two numbers.
            parts = [piece.start() + start for piece in BODY.finditer(whole)]
            if _is_certainly_one(whole):
                pieces.update(parts)
            else:
                are_likely = _LOOSE_SPLIT.fullmatch(whole) or _ALPHABETIC.search(whole)
                certainty = _EITHER_SIGN_CERTAINTY if are_likely else _OTHER_READING_CERTAINTY
                self._weak.update(dict.fromkeys(parts, certainty))
        for body in BODY.finditer(text):
            if body.start() not in pieces:
                self._by_digits[_significant_digits(body[0])].append(body.span())

    def find_padded(self, value: str, limit: int) -> list[Number]:
        """Return where a whole number is printed with leading zeros: 4 at `0004`."""
        found: list[Number] = []
        digits = value.removeprefix("-")
        for start, end in self._by_digits.get(_significant_digits(digits), ())[:limit]:
            zeros = self._text[start:end].removesuffix(digits)
            if zeros and not zeros.strip("0") and start + len(zeros) + len(digits) == end:
                found += [number for number in self.read(start, end, digits) if value in number.values]
        return found

    def find(self, value: str, limit: int, as_printed: bool = False) -> list[Number]:
        """Return the matches of a canonical value, in order. At most `limit` occurrences of its digits are checked.

        `as_printed` excludes values computed from a percent sign or scale. A number that may be a group of a longer
        one, such as 250 in `1 250`, is returned only if nothing else matches, with low certainty.
        """
        magnitude = value.removeprefix("-")
        printed_as = {magnitude, *(_shift_point(magnitude, places) for places in _SHIFTS)}
        strong: set[Number] = set()
        weak: set[Number] = set()
        for start, end in self._by_digits.get(_significant_digits(magnitude), ())[:limit]:
            is_moved = self._text[start - 1 : start] in (".", ",") or _POWER_AFTER.match(self._text, end)  # .5, 1.2e+03
            if not is_moved and printed_as.isdisjoint(_parse_digits(self._text[start:end])):
                continue
            for number in self.read(start, end):
                values = number.values if value in number.values else () if as_printed else number.shifted
                if value in values:
                    is_group = start in self._weak and not _SPACE.search(self._text[start:end])
                    # (Two readings, and both again with the opposite sign.)
                    is_either = len({one.removeprefix("-") for one in values}) == 2
                    is_whole = values.index(value) % 2 == 1
                    reading = self._certainty_of_reading(self._text[start:end], is_whole) if is_either else 1.0
                    if is_group:
                        number = number._replace(certainty=min(number.certainty, self._weak[start]))
                    elif not self._is_likely_one(start, end, number):
                        reading = _OTHER_READING_CERTAINTY
                    (weak if is_group else strong).add(number._replace(reading=min(number.reading, reading)))
        return sorted(strong or weak, key=lambda number: number[:2])

    @cached_property
    def kind(self) -> DocumentKind | None:
        return kind_of(self._text)

    def _certainty_of_reading(self, body: str, is_whole: bool) -> float:
        """Return the certainty that digits with one separator before the last three are a whole number, or are not."""
        if not _EITHER_MARK.fullmatch(body):
            return 1.0
        mark = "." if "." in body else ","
        if self._decimal_mark is not None:
            return 1.0 if is_whole == (mark != self._decimal_mark) else _OTHER_READING_CERTAINTY
        return 1.0 if is_whole and mark == "," else _OTHER_READING_CERTAINTY

    def _is_likely_one(self, start: int, end: int, number: Number) -> bool:
        """Return whether digits with a space are likely one number: beside a currency or unit, or because the document
        groups other numbers by spaces. Between short numbers they may be several."""
        whole, text = self._text[start:end], self._text
        if not _SPACE.search(whole) or _is_certainly_one(whole):
            return True
        before, after = _SHORT_NUMBER_BESIDE
        if _WHOLE_AFTER.match(text, end):
            return True
        if _SPLIT_SPACE.search(whole) or before.search(text, max(0, start - 5), start) or after.match(text, end):
            return False
        if _COUNT_BEFORE.search(text, max(0, start - _CONTEXT_CHARACTERS), start):
            return False  # `Qty 2 500 EUR`
        is_unit = number.unit is not None and number.unit not in units.UNITS_LIKE_WORDS
        return number.currency is not None or is_unit or self._has_spaces_between_thousands

    @cached_property
    def _has_spaces_between_thousands(self) -> bool:
        groups = [self._text[start:end] for start, end in self.groups]
        return any(not _is_fraction(whole) and _is_certainly_one(whole) for whole in groups)

    @cached_property
    def _decimal_mark(self) -> str | None:
        """The decimal mark that the document's numbers show, or else its language and currencies; None if nothing
        does."""
        sure, likely = Counter[str](), Counter[str]()
        for body in BODY.finditer(self._text):
            marks = [mark for mark in body[0] if mark in ".,"]
            digits = body[0].rpartition(marks[-1])[2] if marks else ""
            if len(set(marks)) == 2 and marks.count(marks[-1]) == 1:
                sure[marks[-1]] += 1
            elif len(marks) > 1 and len(set(marks)) == 1 and _THOUSANDS.fullmatch(body[0]):
                sure["." if marks[0] == "," else ","] += 1
            elif len(marks) == 1 and len(digits) == 2:
                likely[marks[0]] += 1
        mark = _prevailing(sure)
        if mark is not None:
            return mark
        mark, usual = _prevailing(likely), conventions_of(self._text).decimal_mark
        # `12.50` may also be a time, and `25.12` a date.
        is_sure = mark is not None and (usual in (None, mark) or likely[mark] >= _MIN_CENTS)
        return mark if is_sure else usual if mark is None else None

    def read(self, start: int, end: int, digits: str | None = None) -> list[Number]:
        """Return the numbers that the digits at these offsets may be. `digits` are the digits without leading zeros."""
        text, are_near = self._text, self._are_near
        first, last = start, end
        while first > max(0, start - _CONTEXT_CHARACTERS) and (text[first - 1] != "\n" or are_near(first - 1)):
            first -= 1
        while last < min(len(text), end + _CONTEXT_CHARACTERS) and (text[last] != "\n" or are_near(last)):
            last += 1
        body = text[start:end] if digits is None else digits
        before, after = _with_plain_spaces(text[first:start]), _with_plain_spaces(text[end:last])
        numbers = read_number(before, body, after, self.kind).numbers
        if any(number.values and number.values[0].startswith("-") for number in numbers):
            numbers = self._numbers_in_brackets(start, end, numbers)
        # It may be two numbers that are printed close together.
        if _SPACE.search(body) and "," not in body and not ((apart := _cents_apart(body)) and _has_cent_word(apart)):
            numbers = tuple(
                number._replace(certainty=min(number.certainty, _EITHER_SIGN_CERTAINTY)) for number in numbers
            )
        shift = end - len(body)
        return [number._replace(start=start + number.start, end=shift + number.end) for number in numbers]

    def _numbers_in_brackets(self, start: int, end: int, numbers: tuple[Number, ...]) -> tuple[Number, ...]:
        """Return the numbers that digits in brackets may be, the most likely first. After a word of the same cell the
        brackets are seldom a minus, as in `thirty-six (36) months`. An amount may be either: `Net loss (1,250)`."""
        text = self._text
        word = _WORD_BEFORE_BRACKET.search(text, max(0, start - _CONTEXT_CHARACTERS), start)
        is_currency = word is not None and word["word"] in units.CURRENCY_LETTERS
        if word is None or not self._are_in_cell(word.end("word")) or (is_currency and len(word["word"]) <= 3):
            return numbers
        if len(numbers) == 1 and _AMOUNT_AFTER_BRACKET.match(text, end):
            return numbers  # in a row of amounts: `Net loss (1,250) 2,300`
        is_amount = not text[start:end].isdigit() and not is_currency
        negative = numbers[-1]._replace(certainty=_EITHER_SIGN_CERTAINTY if is_amount else _LIMIT_CERTAINTY)
        if len(numbers) > 1:
            return (numbers[0], negative)
        values = tuple(value.removeprefix("-") for value in negative.values)
        plain = negative._replace(
            start=0, end=end - start, values=values, certainty=_EITHER_SIGN_CERTAINTY if is_amount else 1.0
        )
        return (negative, plain) if is_amount else (plain, negative)


@lru_cache(maxsize=8192)
def read_number(before: str, body: str, after: str, kind: DocumentKind | None = None) -> ParsedNumber:
    """Read the number with these digits, and the text before and after them. Offsets are relative to the digits.

    Returns no number if the digits belong to another token, or if the text beside them leaves their meaning open.
    """
    if end_of_range := _read_end_of_range(before, body, after, kind):
        return end_of_range
    values = _parse_digits(body)
    start, end = 0, len(body)
    if before.endswith(".") and body.isdigit() and not (before[-2:-1].isalnum() or before[-2:-1] == "."):
        values, start, before = (join_decimal("", body),), -1, before[:-1]  # .50
    elif before.endswith(",") and body.isdigit() and before[-2:-1] in _BEFORE_COMMA and not after.startswith(","):
        values, start, before = (join_decimal("", body),), -1, before[:-1]  # ,50 but not an empty cell of a CSV
    exponent = _EXPONENT.match(after)
    if exponent and body.isdigit() and exponent[1].isdigit():
        exponent = None  # 12E3 is an identifier
    if exponent:
        end, after = exponent.end() + end, after[exponent.end() :]
    letter = _LETTER_MONEY.search(before) if _CENTS.search(body) else None
    if letter:
        before = before[: letter.start()]
    is_in_segment = _SEGMENT_BEFORE.search(before) is not None
    left, right = _read_tokens_before(before, body, kind), _read_tokens_after(after, body, kind)
    if (
        not values
        or not (_can_start_number(before, left, "percent" in right) and _can_end_number(after, right, is_in_segment))
        or _is_part_of_other_number(body, left, right)
    ):
        return ParsedNumber()
    if _is_letter(before[-1:]) and _is_letter(after[:1]):
        return ParsedNumber()  # "KR3M" is neither three crowns nor three metres

    opening, closing = left.get("open") or left.get("limit"), right.get("close")
    is_bracketed = opening is not None and closing is not None and opening[0][0] + closing[0][-1] in ("()", "<>")
    unit, currency = _unit(left, right), _currency(before, after, left, right)
    if letter:
        currency = units.LETTER_CURRENCIES[letter[1]]
    elif (middle := _MIDDLE.fullmatch(body)) and middle[2] != ":":
        currency = units.codes_of(middle[2])
    elif (apart := _cents_apart(body)) and apart["money"]:
        currency = _codes_apart(apart)
    places = int(exponent[1]) if exponent else _scale_places(before, left, right, kind)
    if "power" in right and places is not None:
        exponent = right["power"]
        places += int(re.sub(r"[\^e+]", "", exponent["exponent"]))
    if places is None:
        return ParsedNumber()

    if "whole" in right:
        values = values[-1:]  # 1.250,- has no decimals
    if "unspaced" in right and "," in body:
        values = tuple(value for value in values if "." not in value)  # 1,234千円: never a decimal comma
    shifted: tuple[str, ...] = ()
    if unit in ("%", "‰"):
        shifted = tuple(_shift_point(value, -2 if unit == "%" else -3) for value in values)
    elif places or exponent:
        values, shifted = (), tuple(_shift_point(value, places) for value in values)
    is_minus, is_either, is_range = _sign(before, body, after, left, right)
    booked = _booked_signs(left, right, kind)
    is_minus = is_minus or booked == (True,)
    if _CENTS.search(body) and not is_minus and not booked and _DEBIT_BEFORE.search(before):
        is_either = True  # `Debit/Soll 50.00`
    if start < 0 and "sign" in left and "money" in left:
        is_minus, is_either = False, True  # `CHF -.50` may be 50 cents
    before_rest = before[: min((token.start() for token in left.values()), default=len(before))]
    after_rest = after[max((token.end() for token in right.values()), default=0) :]

    if is_bracketed and not is_minus and not booked:
        assert opening is not None
        assert closing is not None
        whole_start = start - len(before) + opening.start()
        whole = Number(whole_start, end + closing.end(), _negate(values or shifted), (), currency, unit)
        plain = Number(start, end, values, shifted, currency, unit)
        is_remark = (unit is not None and next(iter(right)) != "close") or _YEAR.fullmatch(body) is not None
        return ParsedNumber((plain, whole) if is_remark else (whole,), before_rest, after_rest)
    if is_minus:
        values, shifted = _negate(values), _negate(shifted)
    elif is_either or len(booked) > 1:
        values, shifted = (*values, *_negate(values)), (*shifted, *_negate(shifted))
    first = next(iter(right), None)
    if first in ("credit", "debit", "overdrawn") and booked:
        end += right[first].end()
    elif after.startswith("-") and is_minus:
        end += 1
    start -= before.endswith("-")
    # `Shop > 75` may be breadcrumb navigation, `9.99+` a mark on a receipt, and `at most 5` a text that ends in 5.
    is_limit = "limit" in left and left["limit"][0] != "> " and not left["limit"][0][0].isalpha()
    is_limit |= "limit" in right
    is_range |= _RANGE_END.search(before_rest) is not None or _RANGE_START.match(after_rest) is not None
    certainty = (
        _LIMIT_CERTAINTY
        if "limit" in left
        or "limit" in right
        or is_range
        or (after.startswith("+") and kind != "account" and not is_in_segment)
        else _EITHER_SIGN_CERTAINTY
        if is_either or _may_be_part(before, body, after, left, right)
        else 1.0
    )
    reading = _OTHER_READING_CERTAINTY if len(booked) > 1 and not is_minus else 1.0
    number = Number(start, end, values, shifted, currency, unit, certainty, is_limit, reading)
    return ParsedNumber((number,), before_rest, after_rest)


def _may_be_part(before: str, body: str, after: str, left: _Tokens, right: _Tokens) -> bool:
    """Return whether digits may be the whole or the cents of an amount whose decimal mark was printed or read oddly."""
    if right.keys() - {"raised", "money"}:
        return False
    if _CENTS.search(body) is None and (
        _PART_AFTER.match(after) or ("money" in left and _SPACE_BEFORE_PART.match(after))
    ):
        return True
    return len(body) == 2 and body.isdigit() and _PART_BEFORE.search(before) is not None


def _read_end_of_range(before: str, body: str, after: str, kind: DocumentKind | None) -> ParsedNumber | None:
    """Return the number that is an end of a range without spaces: `70-99 mg/dl`, `20-25 %`. Without a currency or unit
    it may be an identifier: `4711-4712`."""
    if other := _END_AFTER.match(after):
        low, high, after = body, other[1], after[other.end() :]
    elif other := _END_BEFORE.search(before):
        low, high, before = other[1], body, before[: other.start()]
    else:
        return None
    values = possible_values(low), possible_values(high)
    if not all(values) or Decimal(values[0][0]) >= Decimal(values[1][0]):
        return None
    found = read_number(before, body, after, kind)
    return ParsedNumber(
        tuple(
            one._replace(start=0, end=len(body), certainty=_LIMIT_CERTAINTY)
            for one in found.numbers[:1]
            if one.unit is not None or one.currency is not None
        ),
        found.before,
        found.after,
    )


def _read_tokens_before(text: str, body: str, kind: DocumentKind | None) -> _Tokens:
    """Return the tokens before a number, keyed by kind, the nearest first."""
    found: _Tokens = {}
    text = _STARS.sub("", text)
    side = _SIDE_BEFORE.search(text) if _CENTS.search(body) else None  # CR 12 is an identifier
    if side and side[0][0] in "sh" and kind not in _KINDS_WITH_SIDES:
        side = None
    if side and side.lastgroup is not None and not _RANGE_BEFORE.search(text, 0, side.start()):
        found[side.lastgroup], text = side, text[: side.start()]
    while (
        (token := _pattern(_BEFORE).search(text, max(0, len(text) - _MAX_TOKEN_CHARACTERS)))
        and token.lastgroup is not None
        and token.lastgroup not in found
        and not (token.lastgroup == "scale" and "money" not in found)
    ):
        found[token.lastgroup] = token
        text = text[: token.start()]
    return found


def _read_tokens_after(text: str, body: str, kind: DocumentKind | None) -> _Tokens:
    found: _Tokens = {}
    at = 0
    has_sides = kind in _KINDS_WITH_SIDES and _CENTS.search(body) is not None
    while (
        (token := (has_sides and _SIDE_AFTER.match(text, at)) or _pattern(_AFTER).match(text, at))
        and token.lastgroup is not None
        and token.lastgroup not in found
    ):
        if token.lastgroup == "fraction" and not int(token["part"]) < int(token["of"]) in _DENOMINATORS:
            break
        found[token.lastgroup] = token
        at = token.end()
    return found


def _can_start_number(before: str, left: _Tokens, is_rate: bool) -> bool:
    nearest = next(iter(left.values()), None)
    character, above = before[-1:], before[-2:-1]
    if nearest is not None or character in ("", " ") or character in '"[{=*#~>|;?!':
        return True
    if character.isalpha():
        return bool(UNSPACED.match(character)) or (character == "x" and not above.isalpha())
    if not character.isascii():
        return (character not in _UNCLEAR_MARKS or above == character) and not character.isalnum()
    if character == "@":
        return above in ("", " ", "(") or above.isdigit() or is_rate  # 2@5.79, VAT@20%
    if character in "/:" and (DATE_BEFORE.search(before) or _SEGMENT_BEFORE.search(before)):
        return True
    if character == "\\":
        return above in ("", " ", "(")  # a yen sign in Japanese fonts
    # "/", ":", "'", ".", ",", "%" or ")" between digits makes them one token.
    return character not in "-^_@&" and not above.isdigit()


def _can_end_number(after: str, right: _Tokens, is_in_segment: bool) -> bool:
    nearest = next(iter(right.values()), None)
    character, beyond = after[:1], after[1:2]
    if nearest is not None and not nearest[0].startswith(" ") and character.isalpha():
        if nearest.lastgroup == "unit":
            return nearest["unit_name"] in units.GLUED_UNITS
        return nearest.lastgroup != "scale" or units.SCALES[nearest["scale"]] is not None
    if nearest is not None or character in ("", " ") or character in '"]}*;!?=|#~<':
        return True
    if character.isalpha():
        is_times = character == "x" and (beyond.isdigit() or not beyond.isalnum())  # 35.5x25.5
        return bool(UNSPACED.match(character)) or is_times
    if not character.isascii():
        return (character not in _UNCLEAR_MARKS or beyond == character) and not character.isalnum()
    if character == "'" and is_in_segment:
        return True
    if character in "-.,'":
        return not beyond.isalnum()
    if not beyond.isdigit():
        return character not in "_@&\\"
    return (is_in_segment and character in "+:") or bool(DATE_AFTER.match(after) or _PRICE_AFTER.match(after))


def _is_letter(character: str) -> bool:
    return character.isascii() and character.isalpha() and character != "x"


def _is_part_of_other_number(body: str, left: _Tokens, right: _Tokens) -> bool:
    """Return whether the digits only begin another number (7 1/2, 7.5 × 10³, 12⁹⁹), or their sign is ambiguous."""
    is_open = "power" in right and not right["power"]["exponent"]
    if "unsure" in left or is_open:
        return True
    raised = (
        right["raised"][0].count("^") if "raised" in right else 0
    )  # a superscript footnote has one digit, superscript cents have two
    return body.isdigit() and ("fraction" in right or raised == 2 or (raised > 0 and body == "10"))


def _sign(before: str, body: str, after: str, left: _Tokens, right: _Tokens) -> tuple[bool, bool, bool]:
    """Return whether a number is negative; whether its sign is ambiguous, because of a dash with spaces; and whether
    such a dash makes it a range with a similar number. `4711 - 75.00` is not a range."""
    dash, dash_after = left.get("sign"), right.get("sign")
    if dash_after is not None and body.count(".") == 0 and _is_yen(before, left):
        dash_after = None  # ends an amount of yen or won: `¥1,250-`
    is_apart = dash is not None and dash[0].endswith(" ")
    is_apart_after = dash_after is not None and dash_after[0].startswith(" ")
    is_minus = (
        not {"minus", "money_minus"}.isdisjoint(left)
        or "minus" in right
        or (dash is not None and not is_apart)
        or (dash_after is not None and not is_apart_after)
    )
    before_joins = dash is not None and is_apart and _RANGE_BEFORE.search(before, 0, dash.start()) is not None
    joins = dash_after is not None and is_apart_after and _DIGIT_AFTER.match(after, dash_after.end()) is not None
    is_either = (is_apart and not before_joins) or (is_apart_after and not joins)
    is_either = is_either or "either" in left or "either" in right
    others = [*BODY.findall(before)[-1:]] if before_joins else []
    others += [*BODY.findall(after)[:1]] if joins else []
    is_range = any((_CENTS.search(other) is None) == (_CENTS.search(body) is None) for other in others)
    return is_minus, is_either, is_range


def _is_yen(before: str, left: _Tokens) -> bool:
    money = units.codes_of(left["money"]["money"]) if "money" in left else None
    return before.rstrip().endswith("\\") or (money is not None and not money.isdisjoint(("JPY", "KRW")))


def _booked_signs(left: _Tokens, right: _Tokens, kind: DocumentKind | None) -> tuple[bool, ...]:
    """Return whether a number marked as credit, debit or overdrawn is negative. It may be either if the document does
    not show whose account it is; empty without such a mark."""
    marks = [tokens for tokens in (right, left) if not tokens.keys().isdisjoint(("credit", "debit", "overdrawn"))]
    if not marks or _cr_means_crore(left, right, kind):
        return ()
    if kind == "account":
        return ("credit" not in marks[0],)
    return ("credit" in marks[0],) if kind == "bill" and "overdrawn" not in marks[0] else (False, True)


def _unit(left: _Tokens, right: _Tokens) -> str | None:
    if "percent" in left and "percent" not in right:
        return left["percent"]["percent"]
    if "percent" in right:
        return units.PERCENT_WORDS.get(right["percent"]["percent"], right["percent"]["percent"])
    token = right.get("unit")
    if token is None or ("money" in left and units.codes_of(token["unit_name"]) is not None):
        return None
    return token["unit"] if token["second"] else units.unit_name(token["unit_name"], token["per"])


def _currency(before: str, after: str, left: _Tokens, right: _Tokens) -> Codes | None:
    """Return the currency of a number. If a currency is printed on both sides, one of them belongs to the neighbouring
    number."""
    one, other = left.get("money"), right.get("money")
    own = units.codes_of(one["money"]) if one else _other_currency(left)
    following = units.codes_of(other["money"]) if other else _other_currency(right)
    if "unit" in right and other is None:
        return own
    is_glued = one is not None and not one[0].endswith(" "), other is not None and not other[0].startswith(" ")
    taken = one and _DIGIT_BEFORE.search(before, 0, one.start()), other and _DIGIT_AFTER.match(after, other.end())
    if own and following and own != following:
        if is_glued[0] != is_glued[1]:
            return own if is_glued[0] else following
        if bool(taken[0]) != bool(taken[1]):
            return following if taken[0] else own
        return own & following
    if own and not following:
        return None if taken[0] and not is_glued[0] and not taken[0]["gap"] else own  # "9.00$ 8.00": the neighbour's
    return None if taken[1] and not is_glued[1] and not taken[1]["gap"] else following  # "9.00 $8.00"


def _other_currency(tokens: _Tokens) -> Codes | None:
    if "money_minus" in tokens:
        return units.codes_of(tokens["money_minus"]["money_minus"][:-1])
    return units.codes_of(tokens["scaled"]["scaled"][1:]) if "scaled" in tokens else None


def _scale_places(before: str, left: _Tokens, right: _Tokens, kind: DocumentKind | None) -> int | None:
    """Return by how many places a scale word shifts the decimal point, or None if that is ambiguous."""
    has_money = "money" in left or "money" in right or "money_minus" in left
    if _pattern(_UNSPACED_BEFORE).search(before):
        return None  # the 5000 of 3万5000
    if "scaled" in left or "scaled" in right:
        return units.SCALED_CURRENCIES[(left.get("scaled") or right["scaled"])["scaled"]]
    if "unspaced" in right:
        return None if right["unspaced"]["more"] else units.UNSPACED_SCALES[right["unspaced"]["scale_word"]]
    if "scale" in left:
        return units.SCALES[left["scale"]["scale"]]
    if "scale" in right:
        word = right["scale"]["scale"]
        return 0 if word in _SCALES_OF_MONEY and not has_money else units.SCALES[word]
    if "unit" in right and right["unit"]["unit"] in _UNITS_OR_SCALES and has_money:
        return None
    if "unit" in right and right["unit"]["unit"] == "l" and _is_rupees(left):
        return 5  # lakh
    return 7 if _cr_means_crore(left, right, kind) else 0


def _cr_means_crore(left: _Tokens, right: _Tokens, kind: DocumentKind | None) -> bool:
    """Return whether `Cr` after an amount in rupees means crore (ten million) and not credit."""
    return kind is None and "credit" in right and _is_rupees(left)


def _is_rupees(left: _Tokens) -> bool:
    return "money" in left and "INR" in (units.codes_of(left["money"]["money"]) or ())


def _prevailing(marks: Counter[str]) -> str | None:
    """Return the decimal mark that is much more frequent than the other."""
    return next((mark for mark, other in ((".", ","), (",", ".")) if marks[mark] > 3 * marks[other]), None)


def _parse_digits(body: str) -> tuple[str, ...]:
    if middle := _MIDDLE.fullmatch(body):
        return (join_decimal(_GROUPS.sub("", middle[1]), middle[3]),)
    if myriads := _myriads(body):
        return (str(sum(int(myriads[one].replace(",", "")) * times for one, times in _PARTS if myriads[one])),)
    if apart := _cents_apart(body):
        part = apart["part"].zfill(2) if apart["word"] else apart["part"] + (apart["fen"] or "0")
        return (join_decimal(_GROUPS.sub("", apart["whole"]), part[:2]),)
    if fraction := _FRACTION.fullmatch(body):
        value = int(fraction["whole"] or 0) + Decimal(int(fraction["part"])) / int(fraction["of"])
        return (one,) if (one := canonical_decimal(value)) else ()
    return possible_values(_SPACE.sub(HARD_SPACE, _SPLIT_SPACE.sub("", body)))


def _with_plain_spaces(text: str) -> str:
    return text.replace("\n", " ").replace(HARD_SPACE, " ")


def _significant_digits(text: str) -> str:
    return text.translate(_NO_DIGITS).strip("0")


def _find_space_grouped(text: str, are_joined: Callable[[int], bool]) -> Iterator[tuple[int, int]]:
    """Yield the (start, end) of digits that are grouped by spaces: `1 250,00`."""
    for split in _SPLIT.finditer(text):
        is_loose = _LOOSE_SPLIT.fullmatch(split[0]) is not None
        whole = BODY.match(split[0])
        is_short = whole is not None and (len(whole[0]) < 3 or _YEAR.fullmatch(whole[0]) is not None)
        has_money = _is_after_money(text, split.start(), are_joined) or _is_before_unit(
            text, split.end(), are_joined, "money"
        )
        if is_loose and is_short and not has_money:
            continue  # `1. 12 chairs`
        if all(are_joined(split.start() + space.start()) for space in _SPACE.finditer(split[0])):
            yield split.span()
    for chain in _SPACED.finditer(text):
        start, end = chain.span()
        for space in _SPACE.finditer(text[start:end]):
            at = chain.start() + space.start()
            if not are_joined(at):
                if any(character.isspace() for character in text[start:at]):
                    yield start, at
                start = at + 1
        if any(character.isspace() for character in text[start:end]):
            yield start, end


def _find_fractions(text: str, are_joined: Callable[[int], bool]) -> Iterator[tuple[int, int]]:
    """Yield the (start, end) of fractions with a finite decimal value: `7 1/2`, `½`. `1/2` alone may be a count."""
    for found in _FRACTION.finditer(text):
        part, of = int(found["part"]), int(found["of"])
        is_alone = not found["whole"]
        if not (0 < part < of in _DENOMINATORS and of % 3):
            continue
        if not is_alone and (text[found.end("whole")] == "^" or are_joined(found.end("whole"))):
            yield found.span()
        elif found["bar"] == "⁄" and not text[found.start("part") - 1 : found.start("part")].isalnum():
            yield found.start("part"), found.end()


def _find_middle_marks(text: str, are_joined: Callable[[int], bool]) -> Iterator[tuple[int, int]]:
    for found in _MIDDLE_MARK.finditer(text):
        if all(are_joined(found.start() + space.start()) for space in _SPACE.finditer(found[0])):
            yield found.span()


def _find_cents_apart(text: str, are_joined: Callable[[int], bool]) -> Iterator[tuple[int, int]]:
    for found in _pattern(_CENTS_APART).finditer(text):
        start, end = found.span()
        codes = _codes_apart(found)
        if not (found["whole"].isdigit() or _is_grouped(found["whole"])):
            continue
        if found["money"] and (codes is None or not codes.isdisjoint(_WITHOUT_CENTS)):
            continue
        is_after_money = _is_after_money(text, start, are_joined)
        if not _has_cent_word(found):
            # The h of a heller and the kr of a kurus are also an hour and a crown.
            has_unit = _is_before_unit(text, end, are_joined, "unit") and not _HELLER_AFTER.match(text, end)
            is_year = _YEAR.fullmatch(found["whole"]) is not None
            if not found["money"] or is_after_money or len(found["part"]) == 1 or is_year or has_unit:
                continue  # `€ 12 € 50`, `12 EUR 50 EUR`, `2024 EUR 50`
        elif not found["money"] and not is_after_money:
            continue
        if all(are_joined(start + space.start()) for space in _SPACE.finditer(found[0])):
            yield start, end


def _find_myriads(text: str, are_joined: Callable[[int], bool]) -> Iterator[tuple[int, int]]:
    for found in _MYRIADS.finditer(text):
        if _has_parts(found) and all(are_joined(found.start() + space.start()) for space in _SPACE.finditer(found[0])):
            yield found.span()


def _myriads(body: str) -> re.Match[str] | None:
    found = _MYRIADS.match(body + "円") if _ALPHABETIC.search(body) else None
    return found if found and found.end() == len(body) and _has_parts(found) else None


def _has_parts(myriads: re.Match[str]) -> bool:
    return sum(myriads[part] is not None for part, _ in _PARTS) > 1


def _is_after_money(text: str, at: int, are_joined: Callable[[int], bool]) -> bool:
    is_money = _MONEY_BEFORE.search(text, max(0, at - 6), at) is not None
    return is_money and (text[at - 1] != "\n" or are_joined(at - 1))


def _is_before_unit(text: str, at: int, are_joined: Callable[[int], bool], kind: Literal["money", "unit"]) -> bool:
    found = _UNIT_AFTER.match(text, at)
    return found is not None and found[kind] is not None and (text[at] != "\n" or are_joined(at))


def _codes_apart(apart: re.Match[str]) -> Codes | None:
    """Return the currency before cents; F is that of French francs only there."""
    money = apart["money"]
    return _FRANCS if money == "f" else units.codes_of(money) if money else None


def _has_cent_word(apart: re.Match[str]) -> bool:
    return apart["word"] is not None or "角" in apart[0]


def _cents_apart(body: str) -> re.Match[str] | None:
    return _pattern(_CENTS_APART).fullmatch(body) if _ALPHABETIC.search(body) else None


def begins_fraction(text: str, at: int) -> bool:
    """Return whether the digits at an offset of a folded text are the whole part of a mixed number such as `7 1/2`."""
    found = _FRACTION.match(text, at)
    return found is not None and found["whole"] is not None and int(found["part"]) < int(found["of"]) in _DENOMINATORS


def _is_certainly_one(whole: str) -> bool:
    """Return whether digits with a space are never two numbers: `1 250,00`, `10 000`, `7 1/2`."""
    if _MIDDLE.fullmatch(whole):
        return True
    if _myriads(whole):
        return True
    if apart := _cents_apart(whole):
        return _has_cent_word(apart)
    return not _SPLIT_SPACE.search(whole) and ("," in whole or bool(re.search(r"\s0", whole)) or _is_fraction(whole))


def _is_fraction(whole: str) -> bool:
    return "/" in whole or "⁄" in whole


def _is_grouped(whole: str) -> bool:
    return bool(_THOUSANDS.fullmatch(whole) or _LAKHS.fullmatch(whole))


def _negate(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(with_sign(value, True) for value in values)


def _shift_point(value: str, places: int) -> str:
    whole, _, part = value.partition(".")
    if places < 0:
        whole = whole.rjust(1 - places, "0")
        return join_decimal(whole[:places], whole[places:] + part)
    part = part.ljust(places, "0")
    return join_decimal(whole + part[:places], part[places:])
