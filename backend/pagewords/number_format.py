"""Number formats of spreadsheets (ECMA-376 18.8.31): the text that a cell shows for its value.

Decimal points and thousands separators are English, as in the format itself: the file doesn't contain the locale.
"""

from __future__ import annotations

import calendar
import datetime
import operator
import re
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

MAX_LENGTH = 500  # of a format; Excel allows 255
_DIGITS = Context(prec=2500, rounding=ROUND_HALF_UP)  # a double of 309 digits, and 2 more for each % of a format
_TOKEN = re.compile(
    r"""(?P<quoted>"[^"]*"?)|(?P<escaped>\\.)|(?P<space>_.)|(?P<fill>\*.)|(?P<bracket>\[[^\]]*\]?)|(?P<general>General)"""
    r"""|(?P<half>AM/PM|A/P)|(?P<exponent>E[+-])|(?P<date>y+|m+|d+|h+|s+(?:\.0+)?)|(?P<digit>[0#?])|(?P<other>.)""",
    re.I | re.S,
)
_CONDITION = re.compile(r"\[(<=|>=|<>|<|>|=)\s*(-?\d+(?:\.\d+)?)\]")
_COMPARISONS = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq, "<>": operator.ne
}  # fmt: skip
_ELAPSED = re.compile(r"\[(h+|m+|s+)\]", re.I)
_COLOUR = re.compile(r"\[(black|blue|cyan|green|magenta|red|white|yellow|color ?\d{1,2})\]", re.I)
_LOCALE_DATE_FORMAT = "mm-dd-yy"  # format 14: its order of day and month depends on the user's locale
_LOCALE = re.compile(r"\[\$([^\]-]*)(?:-([0-9a-f]{1,8}))?\]", re.I)
_PLAIN_NUMBER = re.compile(r"\d[\d,]*(?:\.\d*)?|\.\d+")

Date = datetime.datetime | datetime.date | datetime.time | datetime.timedelta


class _Token(NamedTuple):
    kind: str
    text: str


class _Section(NamedTuple):
    tokens: list[_Token]
    condition: tuple[str, float] | None
    is_english: bool
    colour: str = ""


def format_value(value: object, number_format: str) -> str:
    """Return the text that a cell shows; empty if it shows nothing."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    stored = stored_text(value)
    sections = _parse(number_format) if len(number_format) <= MAX_LENGTH else []
    if not sections or number_format == _LOCALE_DATE_FORMAT:
        return stored
    if isinstance(value, int | float):
        return _number(value, sections)
    if isinstance(value, Date):
        return _date(value, sections[0]) or stored
    text = sections[3] if len(sections) > 3 else sections[-1]
    if len(sections) < 4 and _Token("other", "@") not in text.tokens:
        return stored
    return "".join(stored if token == ("other", "@") else token.text for token in text.tokens)


def format_colour(value: object, number_format: str) -> str:
    """Return the name of the colour that a format gives a value, such as `white` or `color2`; empty if it gives
    none."""
    if "[" not in number_format or len(number_format) > MAX_LENGTH or not (sections := _parse(number_format)):
        return ""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _section_of(value, sections)[0].colour
    return sections[0].colour if isinstance(value, Date) or len(sections) < 4 else sections[3].colour


def stored_text(value: object) -> str:
    """Return a cell's value without its format: a date in ISO 8601, a number with up to 15 digits."""
    if isinstance(value, float):
        return f"{value:.15g}"  # as Excel does; 17 would distinguish all doubles
    if isinstance(value, datetime.datetime):
        return value.date().isoformat() if value.time() == datetime.time() else value.isoformat(" ", "seconds")
    return " ".join(str(value).split())


def contains_value(shown: str, value: object) -> bool:
    """Return whether the shown text contains the stored value, so that the value need not be repeated."""
    stored = stored_text(value)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return stored in shown or not isinstance(value, Date | str)
    numbers = _PLAIN_NUMBER.findall(shown)
    if len(numbers) != 1 or "%" in shown or re.match(r"0\d", numbers[0]):
        return False
    number = Decimal(numbers[0].replace(",", ""))
    is_negative = shown[: shown.index(numbers[0])].strip().endswith(("-", "("))
    return (-number if is_negative else number) == Decimal(stored)


@lru_cache(maxsize=1000)
def _parse(number_format: str) -> list[_Section]:
    sections: list[_Section] = []
    tokens: list[_Token] = []
    condition: tuple[str, float] | None = None
    is_english = True
    colour = ""
    for match in _TOKEN.finditer(number_format + ";"):
        kind, text = match.lastgroup or "", match[0]
        if kind == "other" and text == ";":
            sections.append(_Section(tokens, condition, is_english, colour))
            tokens, condition, is_english, colour = [], None, True, ""
        elif kind == "bracket":
            if found := _CONDITION.fullmatch(text):
                condition = found[1], float(found[2])
            elif found := _COLOUR.fullmatch(text):
                colour = found[1].lower().replace(" ", "")
            elif found := _ELAPSED.fullmatch(text):
                tokens.append(_Token("elapsed", found[1].lower()))
            elif found := _LOCALE.fullmatch(text):
                language = int(found[2] or "409", 16)
                is_english = language & 0xFF == 9 and language < 0xF000
                tokens.append(_Token("text", found[1]))
        elif kind in ("quoted", "escaped"):
            tokens.append(_Token("text", text.strip('"') if kind == "quoted" else text[1:]))
        elif kind in ("space", "fill"):
            tokens.append(_Token("text", " " if kind == "space" else ""))
        else:
            tokens.append(_Token(kind, text if kind == "other" else text.lower()))
    return sections if sections != [_Section([], None, True)] else []


def _section_of(value: float, sections: Sequence[_Section]) -> tuple[_Section, bool]:
    """Return the section for a number, and whether it contains the sign."""
    numeric = sections[:3]
    if any(section.condition for section in numeric):
        index = next((at for at, section in enumerate(numeric) if _holds(section.condition, value)), len(numeric) - 1)
        section_has_sign = index == 1 and numeric[1].condition is None and len(numeric) > 2
    else:
        index = 0 if value > 0 or len(numeric) == 1 else 1 if value < 0 else 2 if len(numeric) > 2 else 0
        section_has_sign = index == 1
    return numeric[index], section_has_sign


def _number(value: float, sections: Sequence[_Section]) -> str:
    section, section_has_sign = _section_of(value, sections)
    if any(token.kind in ("date", "elapsed", "half") for token in section.tokens):
        return stored_text(value)  # a date format for a number outside the range of dates
    with localcontext(_DIGITS):
        number = Decimal(stored_text(value))
        shown = _format_unsigned(abs(number), section.tokens)
    is_signed = number < 0 and not section_has_sign and any(digit in "123456789" for digit in shown)
    return f"-{shown.lstrip()}" if is_signed else shown


def _holds(condition: tuple[str, float] | None, value: float) -> bool:
    return condition is None or _COMPARISONS[condition[0]](value, condition[1])


def _format_unsigned(number: Decimal, tokens: Sequence[_Token]) -> str:
    """Return a non-negative number formatted by the tokens of a section."""
    placeholders = [at for at, token in enumerate(tokens) if token.kind == "digit"]
    if not placeholders:
        general = f"{float(number):.15g}"
        return "".join(
            general if token.kind == "general" or token == ("other", "@") else token.text for token in tokens
        )
    number *= 100 ** sum(token == ("other", "%") for token in tokens)
    exponent = next((at for at, token in enumerate(tokens) if token.kind == "exponent"), None)
    if exponent is not None:
        return _scientific(number, tokens, exponent)
    slash = next((at for at, token in enumerate(tokens) if token == ("other", "/")), None)
    if slash is not None and placeholders[0] < slash:
        return _fraction(number, tokens, slash)
    last = placeholders[-1]
    while last + 1 < len(tokens) and tokens[last + 1] == ("other", ","):
        number, last = number / 1000, last + 1
    point = next((at for at, token in enumerate(tokens) if token == ("other", ".")), None)
    whole = [at for at in placeholders if point is None or at < point]
    decimals = placeholders[len(whole) :]
    before, _, after = f"{number.quantize(Decimal(1).scaleb(-len(decimals))):f}".partition(".")
    is_grouped = any(tokens[at] == ("other", ",") for at in range(whole[0], whole[-1])) if whole else False
    shown = {
        at: "" if token == ("other", ",") and placeholders[0] < at <= last else token.text
        for at, token in enumerate(tokens)
    }
    shown |= _whole_digits(before.lstrip("0"), [(at, tokens[at].text) for at in whole], is_grouped=is_grouped)
    if not whole and point is not None:
        shown[point] = before.lstrip("0") + "."
    is_end = True
    for at, digit in reversed(list(zip(decimals, after, strict=True))):
        is_end = is_end and digit == "0" and tokens[at].text != "0"
        shown[at] = digit if not is_end else " " if tokens[at].text == "?" else ""
    return "".join(shown.values())


def _whole_digits(digits: str, places: Sequence[tuple[int, str]], *, is_grouped: bool) -> dict[int, str]:
    """Return the text of each digit placeholder before the decimal point. The first one takes all remaining digits."""
    left, shown, count = list(digits), dict[int, str](), 0
    for at, kind in reversed(places):
        taken = left[:] if at == places[0][0] else left[-1:]
        del left[len(left) - len(taken) :]
        if not taken and kind == "0":
            taken = ["0"]
        text = ""
        for digit in reversed(taken):
            text = digit + ("," if is_grouped and count and count % 3 == 0 else "") + text
            count += 1
        shown[at] = text or (" " if kind == "?" else "")
    return shown


def _scientific(number: Decimal, tokens: Sequence[_Token], exponent: int) -> str:
    mantissa = [token for token in tokens[:exponent] if token.kind in ("digit", "other")]
    point = next((at for at, token in enumerate(mantissa) if token.text == "."), len(mantissa))
    size = max(1, sum(token.kind == "digit" for token in mantissa[:point]))
    decimals = sum(token.kind == "digit" for token in mantissa[point:])
    power = 0 if number == 0 else (number.adjusted() // size) * size
    shown = number.scaleb(-power).quantize(Decimal(1).scaleb(-decimals))
    if shown >= 10**size:
        power += size
        shown = number.scaleb(-power).quantize(Decimal(1).scaleb(-decimals))
    width = sum(token.kind == "digit" for token in tokens[exponent:])
    sign = "-" if power < 0 else "+" if tokens[exponent].text.endswith("+") else ""
    return f"{shown:f}E{sign}{abs(power):0{width}d}"


def _fraction(number: Decimal, tokens: Sequence[_Token], slash: int) -> str:
    above = slash
    while above > 0 and tokens[above - 1].kind == "digit":
        above -= 1
    below = slash + 1
    while below < len(tokens) and (tokens[below].kind == "digit" or tokens[below].text.isdigit()):
        below += 1
    has_whole = any(token.kind == "digit" for token in tokens[:above])
    whole, rest = divmod(Fraction(number), 1) if has_whole else (0, Fraction(number))
    fixed = "".join(token.text for token in tokens[slash + 1 : below])
    if fixed.isdigit() and int(fixed):
        bottom = int(fixed)
        top = round(rest * bottom)
    else:
        nearest = rest.limit_denominator(10 ** min(max(1, below - slash - 1), 6) - 1)
        top, bottom = nearest.numerator, nearest.denominator
    if has_whole and top == bottom:
        whole, top = whole + 1, 0
    shown = (
        f"{top}/{bottom}"
        if not has_whole
        else f"{whole} {top}/{bottom}"
        if top and whole
        else f"{top}/{bottom}"
        if top
        else f"{whole}"
    )
    around = [token.text for token in tokens[:above] if token.kind == "text"], [token.text for token in tokens[below:]]
    return "".join(around[0]) + shown + "".join(around[1])


def _date(value: Date, section: _Section) -> str:
    """Return a date or time as it is shown; empty if its format depends on the user's language."""
    tokens = section.tokens
    names = [token for token in tokens if token.kind == "date" and token.text[0] in "md" and len(token.text) > 2]
    if (names and not section.is_english) or not any(token.kind in ("date", "elapsed") for token in tokens):
        return ""
    if isinstance(value, datetime.timedelta):
        total = value.total_seconds()
        moment = datetime.datetime(1899, 12, 30) + value
    else:
        day = value if isinstance(value, datetime.date) else datetime.date(1899, 12, 30)
        moment = (
            value
            if isinstance(value, datetime.datetime)
            else datetime.datetime.combine(day, value if isinstance(value, datetime.time) else datetime.time())
        )
        total = (moment - datetime.datetime(1899, 12, 30)).total_seconds()
    is_twelve_hour = any(token.kind == "half" for token in tokens)
    shown = ""
    units = [(at, token) for at, token in enumerate(tokens) if token.kind in ("date", "elapsed")]
    for at, token in enumerate(tokens):
        if token.kind == "half":
            letters = ("AM", "PM") if len(token.text) > 3 else ("A", "P")
            shown += letters[moment.hour >= 12]
        elif token.kind == "elapsed":
            seconds = {"h": 3600, "m": 60, "s": 1}[token.text[0]]
            shown += f"{int(total // seconds):0{len(token.text)}d}"
        elif token.kind == "date":
            index = [other for other, _ in units].index(at)
            before = units[index - 1][1].text[0] if index else ""
            after = units[index + 1][1].text[0] if index + 1 < len(units) else ""
            is_minute = token.text[0] == "m" and len(token.text) < 3 and (before == "h" or after == "s")
            shown += _unit(moment, "M" * len(token.text) if is_minute else token.text, is_twelve_hour=is_twelve_hour)
        else:
            shown += token.text
    return shown


def _unit(moment: datetime.datetime, unit: str, *, is_twelve_hour: bool) -> str:
    width = len(unit)
    match unit[0]:
        case "y":
            return f"{moment.year:04d}" if width > 2 else f"{moment.year % 100:02d}"
        case "m" if width > 2:
            name = calendar.month_name[moment.month]
            return name[:3] if width == 3 else name[:1] if width == 5 else name
        case "d" if width > 2:
            name = calendar.day_name[moment.weekday()]
            return name[:3] if width == 3 else name
        case "s" if "." in unit:
            whole, _, fraction = unit.partition(".")
            return f"{moment.second:0{len(whole)}d}." + f"{moment.microsecond:06d}"[: len(fraction)].ljust(
                len(fraction), "0"
            )
        case kind:
            hour = (moment.hour % 12 or 12) if is_twelve_hour else moment.hour
            number = {"m": moment.month, "d": moment.day, "h": hour, "M": moment.minute, "s": moment.second}[kind]
            return f"{number:0{min(width, 2)}d}"
