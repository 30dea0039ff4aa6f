"""Dates and times in any spelling: which days a printed date may mean, and where a text has dates and times.

A day is (year, month, day). Month names are those of English, German, French, Spanish, Italian, Portuguese and Dutch.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from typing import Final, NamedTuple, TypeAlias

from fieldmark.domain.folding import fold
from fieldmark.grounding import units

Day: TypeAlias = tuple[int, int, int]
Order: TypeAlias = str
"""The order of three numbers, `dmy`, `mdy` or `ymd`; empty where a word or the four digits of a year tell it."""
TimeOfDay: TypeAlias = tuple[int, int, int | None]

_NAMES = (
    "january jan januar jänner jän jaen janvier janv enero ene gennaio gen gennajo janeiro januari",
    "february feb februar feber février févr fév fevr fev febrero febbraio febb fevereiro februari",
    "march mar märz mär maerz mrz mars marzo março maart mrt",
    "april apr avril avr abril abr aprile",
    "may mai mayo maggio mag maio mei",
    "june jun juni juin junio giugno giu junho",
    "july jul juli juillet juil julio luglio lug julho",
    "august aug août aout agosto ago augustus",
    "september sep sept septembre septiembre settembre set setembro setiembre",
    "october oct oktober okt octobre octubre ottobre ott outubro out",
    "november nov novembre noviembre novembro",
    "december dec dezember dez décembre déc diciembre dic dicembre dezembro desember",
)
MONTHS = {fold(name): month for month, names in enumerate(_NAMES, 1) for name in names.split()}

_YEAR_FIRST: Final[frozenset[Order]] = frozenset({"ymd"})
_NAMED: Final[frozenset[Order]] = frozenset({""})

_ORDINAL = r"(?:st|nd|rd|th|er|ste|de|º|°|o|a)?"
_GAP = r"[\s\x1f.,/\-']*"
_OF = r"(?:(?:day\s)?(?:de|del|of|di|van|the)\s)?"
_YEAR = r"(\d{4}|\d{2})(?!\d)"
_NUMERIC = re.compile(
    r"(\d(?<!\w\d)(?<!\d[.,:/\-']\d)\d{0,3})(?:(\s?[./\-,·]\s?)(\d{1,2})\s?[./\-,·]\s?(\d{4}|\d{1,2})"
    r"|([\s\x1f])(\d\d)[\s\x1f](\d{4}|\d\d))(?![\d_]|[./\-,:]\d)"
)
# Before three short numbers: they are a version or a paragraph, or a reference that may look like a date.
_VERSION_BEFORE = re.compile(
    r"(?<![^\W_])(?:v|ver|vers|version\w*|release|rel|rev|revision|build|firmware|software|fw|sw|sections?|clause|chapter"
    r"|article|paragraph|abschnitt|kapitel|ziffer|absatz|punkt|artikel|art|abs|chapitre|capitulo|capitolo|версия)"
    r"[\s\x1f.:#]{0,3}\Z|§\s?\Z|(?<![^\W_])v\Z"
)
_REFERENCE_BEFORE = re.compile(
    r"(?<![^\W_])(?:ref|reference|referenz|no|nr|num|nummer|numero|number|az|aktenzeichen|zeichen|order|invoice|rechnung"
    r"|case|file|id|code|tel|telefon|phone|fax|n°|nº)[\s\x1f.:#]{0,3}\Z|#\s?\Z"
)
_LOOK_BACK: Final = 20  # characters
# How surely a date means a day: it is one of two; the text's other dates have another order; it may be no date.
_AMBIGUOUS, _UNUSUAL, _REFERENCE = 0.9, 0.6, 0.6
WITHOUT_YEAR: Final = 0.6
_DAY_FIRST = re.compile(
    rf"(\d(?<![\w.,]\d)\d?){_ORDINAL}{_GAP}{_OF}({units.any_of(MONTHS)})(?![^\W\d_]){_GAP}{_OF}{_YEAR}"
)
_MONTH_FIRST = re.compile(rf"(\d(?<![\d.,]\d)\d?)(?:st|nd|rd|th)?[\s\x1f,.\-/']{{1,3}}{_YEAR}")
_MONTH_BEFORE = re.compile(r"(?<![^\W_])([^\W\d_]{3,11})[\s\x1f.\-/]{0,3}\Z")
_YEAR_BEFORE = re.compile(rf"([12](?<!\d\d)\d{{3}}){_GAP}([^\W\d_]{{3,11}}){_GAP}(\d{{1,2}})(?![\d])")
_EAST_ASIAN = re.compile(r"(\d(?<!\d\d)\d{3})\s?[年년]\s?(\d{1,2})\s?[月월]\s?(\d{1,2})\s?[日일]")
_DAY_AND_MONTH = re.compile(
    rf"(\d(?<![\w.,/\-]\d)\d?){_ORDINAL}\.?\s?{_OF}({units.any_of(MONTHS)})(?![^\W_]|\.?,?\s?\d{{4}})"
)
_DAY_ALONE = re.compile(r"(\d(?<![\d.,]\d)\d?)(?:st|nd|rd|th)?(?![^\W_]|[.:,/\-]\d|,?\s\d{4})")
_TWO_NUMBERS = re.compile(r"(\d(?<![\w.,:/\-]\d)\d)/(\d\d)(?![\w/]|[.:,\-]\d)")
_YEAR_ALONE = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")
_COMPACT = re.compile(
    r"([12](?<![\w.,/\-]\d)(?:(?<=1)9|(?<=2)0)\d\d)(\d\d)(\d\d)(?:(?![\d.,/\-]?\w)|(?=[/\-t_]?\d{6}(?!\d)))"
)
_TIME = re.compile(
    r"(?P<hour>\d(?<![\d:.,]\d)\d?)(?P<mark>[:h]|\.(?=\d\d(?:\.\d\d)?(?![.,]?\d)))(?P<minute>\d\d)"
    r"(?:[:.](?P<second>\d\d))?(?![\d:])(?:\s?(?P<half>[ap])\.?\s?m\b\.?)?"
)
_HOUR_AFTER = re.compile(r"\s?(?:uhr|h|hrs?|hours|horas|heures|klo)(?![^\W_])")
# A word for the hour, or a date; an amount may follow a date, too.
_HOUR_BEFORE = re.compile(
    r"(?:(?<![^\W_])(?:uhrzeit|zeit|um|time|heure|hora|ora|tid|tijd|kl|klo|klokken|klockan)|\d[./-]\d\d?[./-]\d{2,4}"
    r"|[^\W\d_]{3}\.?\s\d{4})[\s.:,;|t-]{1,3}\Z"
)
_MONEY_AFTER = re.compile(rf"\s?(?:[{units.SYMBOLS}%‰]|{units.any_of(units.CURRENCY_LETTERS)}(?![^\W_]))")
_DIGIT = re.compile(r"\d")
_ISO = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d))?(?:[.,]\d+)?\s?(?:Z|[+-]\d\d:?\d\d)?)?")


class PrintedDate(NamedTuple):
    """A printed date: its offsets in the text, and the days that it may mean, each with the order it is read in."""

    start: int
    end: int
    days: tuple[Day, ...]
    orders: Mapping[Day, frozenset[Order]]
    is_reference: bool = False  # by the word before it: it may be no date at all


class DateAndTime(NamedTuple):
    """The days that a text may mean, and its time. A time alone has no days."""

    days: tuple[Day, ...]
    time: TimeOfDay | None


def parse(text: str) -> DateAndTime | None:
    """The meaning of a text if all of it is a date, a time, or a date with a time; else None."""
    text = text.strip()
    if not 4 <= len(text) <= 60 or not _DIGIT.search(text):
        return None
    iso = _ISO.fullmatch(text)
    if iso:
        days = _valid([(int(iso[1]), int(iso[2]), int(iso[3]))])
        time = (int(iso[4]), int(iso[5]), int(iso[6]) if iso[6] else None) if iso[4] else None
        return DateAndTime(days, time) if days else None
    folded = fold(text)
    for start, end, readings in find_times(folded, is_time=True):
        if not re.search(r"[^\W_]", folded[:start] + folded[end:]):
            return DateAndTime((), readings[0])
    for start, end, days, *_ in find_dates(folded):
        rest = folded[:start] + " " + folded[end:]
        if not re.search(r"[^\W_]", rest):
            return DateAndTime(days, None)
        times = list(find_times(rest, is_time=True))
        if len(times) == 1 and not re.search(r"[^\W_]", rest[: times[0][0]] + rest[times[0][1] :]):
            return DateAndTime(days, times[0][2][0])
    return None


def find_dates(text: str) -> Iterator[PrintedDate]:
    """The dates in a folded text."""
    for found in _NUMERIC.finditer(text):
        if not found[3]:
            if len(found[1]) + len(found[7]) == 6:  # with spaces alone, only 25 12 2018 and 2018 12 25 are dates
                yield from _printed(found, _numeric(found[1], found[6], found[7]))
            continue
        is_short = len(found[1]) <= 2 and len(found[4]) == 2
        before = text[max(0, found.start() - _LOOK_BACK) : found.start()] if is_short else ""
        if not before or not (_VERSION_BEFORE.search(before) or text[found.end() : found.end() + 1].isalpha()):
            is_reference = _REFERENCE_BEFORE.search(before) is not None
            yield from _printed(found, _numeric(found[1], found[3], found[4]), is_reference)
    for found in _DAY_FIRST.finditer(text):
        yield from _printed(found, [((year, MONTHS[found[2]], int(found[1])), "") for year in _years(found[3])])
    for found in _MONTH_FIRST.finditer(text):
        named = _MONTH_BEFORE.search(text, max(0, found.start() - 14), found.start())
        month = named and MONTHS.get(named[1])
        if named and month:
            days = _valid([(year, month, int(found[1])) for year in _years(found[2])])
            if days:
                yield PrintedDate(named.start(), found.end(), days, dict.fromkeys(days, _NAMED))
    for found in _YEAR_BEFORE.finditer(text):
        month = MONTHS.get(found[2])
        if month:
            yield from _printed(found, [((int(found[1]), month, int(found[3])), "")])
    # Each pattern begins with its first digit and looks back from there: a search for a class of characters is fast.
    for pattern in (_EAST_ASIAN, _COMPACT) if "年" in text or "년" in text else (_COMPACT,):
        for found in pattern.finditer(text):
            yield from _printed(found, [((int(found[1]), int(found[2]), int(found[3])), "")])


def find_without_year(text: str) -> Iterator[tuple[int, int, int, int]]:
    """The (start, end, month, day) of the days in a folded text without a year behind them.

    As numbers these have two digits each, in either order: `05/02`.
    """
    for found in _DAY_AND_MONTH.finditer(text):
        yield *found.span(), MONTHS[found[2]], int(found[1])
    for found in _DAY_ALONE.finditer(text):
        named = _MONTH_BEFORE.search(text, max(0, found.start() - 14), found.start())
        if named and (month := MONTHS.get(named[1])):
            yield named.start(), found.end(), month, int(found[1])
    for found in _TWO_NUMBERS.finditer(text):
        for month, day in {(int(found[1]), int(found[2])), (int(found[2]), int(found[1]))}:
            yield *found.span(), month, day


def years_in(text: str) -> frozenset[int]:
    return frozenset(int(found[0]) for found in _YEAR_ALONE.finditer(text))


def find_times(text: str, is_time: bool = False) -> Iterator[tuple[int, int, tuple[TimeOfDay, ...]]]:
    """The (start, end, readings) of the times of day in a folded text: `8:13 pm` is 20:13, `8:13` is 8:13.

    `8.13` is one only beside a date or a word like Uhr, or where the text is a time (`is_time`).
    """
    for found in _TIME.finditer(text):
        hour, minute, second = int(found["hour"]), int(found["minute"]), int(found["second"] or 0)
        if found["half"]:
            if not 1 <= hour <= 12:
                continue
            hour = hour % 12 + (12 if found["half"] == "p" else 0)
        elif found["mark"] == "." and not is_time and not _is_at_an_hour(text, found):
            continue
        if hour < 24 and minute < 60:
            yield found.start(), found.end(), ((hour, minute, second if found["second"] else None),)


def _is_at_an_hour(text: str, found: re.Match[str]) -> bool:
    before = text[max(0, found.start() - _LOOK_BACK) : found.start()]
    return _HOUR_AFTER.match(text, found.end()) is not None or (
        _HOUR_BEFORE.search(before) is not None and _MONEY_AFTER.match(text, found.end()) is None
    )


def is_same_time(wanted: TimeOfDay, printed: TimeOfDay) -> bool:
    """Whether a printed time is the wanted one. Seconds that only one of them has must be zero."""
    return wanted[:2] == printed[:2] and (wanted[2] or 0) == (printed[2] or 0)


def _numeric(a: str, b: str, c: str) -> list[tuple[Day, Order]]:
    """The days that three numbers may mean, whichever of them is the year: 02/03/24 may mean six."""
    if len(a) > 2:
        return [] if len(a) == 3 or len(c) > 2 else [((int(a), int(b), int(c)), "")]
    if len(c) == 1:
        return []
    days: list[tuple[Day, Order]] = [((year, int(b), int(a)), "dmy") for year in _years(c)]
    days += [((year, int(a), int(b)), "mdy") for year in _years(c)]
    return days + [((year, int(b), int(c)), "ymd") for year in _years(a)] if len(a) == len(c) == 2 else days


def _years(text: str) -> tuple[int, ...]:
    return (int(text),) if len(text) == 4 else (2000 + int(text), 1900 + int(text))


def _printed(found: re.Match[str], days: list[tuple[Day, Order]], is_reference: bool = False) -> Iterator[PrintedDate]:
    orders: defaultdict[Day, frozenset[Order]] = defaultdict(frozenset)
    for day, order in days:
        if _is_day(day):
            orders[day] |= {order}
    if orders:
        yield PrintedDate(found.start(), found.end(), tuple(orders), orders, is_reference)


def certainties(printed: Iterable[PrintedDate]) -> Iterator[tuple[PrintedDate, Day, float]]:
    """Yield each day that each date may mean, and how surely: 1 where nothing else could be meant.

    Dates that can be read in one order only, as 25/12/2018, tell the order of the others in the text.
    """
    dates = list(printed)
    orders = [frozenset[Order]().union(*one.orders.values()) for one in dates]
    usual = frozenset[Order]().union(*(several for one in orders if len(several := one - _YEAR_FIRST - _NAMED) == 1))
    for one, several in zip(dates, orders, strict=True):
        for day, own in one.orders.items():
            certainty = _REFERENCE if one.is_reference else 1.0
            if several & usual and not own & usual:
                certainty = min(certainty, _UNUSUAL)
            elif not several - own <= _YEAR_FIRST and len(usual) != 1:
                certainty = min(certainty, _UNUSUAL if own == _YEAR_FIRST else _AMBIGUOUS)
            yield one, day, certainty


def _valid(days: list[Day]) -> tuple[Day, ...]:
    return tuple(dict.fromkeys(day for day in days if _is_day(day)))


def _is_day(day: Day) -> bool:
    try:
        date(*day)
    except ValueError:
        return False
    return day[0] >= 1000
