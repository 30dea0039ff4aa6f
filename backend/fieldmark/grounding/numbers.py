"""Numbers in any locale's spelling: which values a printed number may have, and where a text has numbers.

Values are canonical decimals, as `domain.numbers` spells them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

from fieldmark.domain.folding import HARD_SPACE, UNSPACED, fold
from fieldmark.domain.numbers import MAX_DIGITS, decimal, signed

# Letters that may be glued to a number: currencies and units.
_CURRENCIES = """
eur euro euros usd gbp chf jpy cny rmb inr myr sgd hkd twd krw aud nzd cad mxn brl ars clp cop pen sek nok dkk isk pln
czk huf ron bgn rsd rub uah try ils aed sar qar kwd bhd omr egp mad tnd zar ngn kes ghs thb vnd idr php pkr bdt lkr
rm rs rp kr kn zl kc ft lei lv sfr fr
"""
_UNITS = """
g kg mg lb lbs oz l ml cl dl hl m cm mm km m2 m3 ft in h hr hrs min sec kw kwh wh mwh mah hz ghz mhz
gb mb tb kb pc pcs ea st stk stck pz uds ctn pkt px pt bar
"""
CURRENCIES = frozenset(_CURRENCIES.split())
UNITS = frozenset(_UNITS.split())
_BODY = re.compile(rf"\d+(?:[.,'·{HARD_SPACE}]\d+)*")
_LETTERS_BEFORE = re.compile(r"[^\W\d_]{1,5}\Z")
_LETTERS_AFTER = re.compile(r"[^\W\d_]{1,5}(?![^\W_])")
_SPACED = re.compile(r"\d(?<![\d.,'\x1f]\d)\d{0,2}(?:[ \n]\d{3})+(?:[.,]\d+)?(?!\d)")
_SPACE = re.compile(r"[ \n]")
_NO_DIGITS = {ord(mark): None for mark in f".,'· \n{HARD_SPACE}"}
_GROUPS = re.compile(r"[.,'·\s\x1f]")
_THOUSANDS = re.compile(r"[1-9]\d{0,2}(?:(?P<s>[.,'·\s\x1f])\d{3})(?:(?P=s)\d{3})*")
_LAKHS = re.compile(r"[1-9]\d?(?:,\d\d)+,\d{3}")
_SIGN_BEFORE = re.compile(r"(?:^|[\s(:=*|\"])-[ \n]?\Z")
_CURRENCY_BEFORE = re.compile(r"(?:[^\W\d_]{0,3}[$€£¥₹₩₪₽₺₫₴฿₱₦¢₡₲₵₸₮]|(?<![^\W_])[^\W\d_]{1,4}\.?)[ \n]?\Z")
_CURRENCY_AFTER = re.compile(r"[ \n]?(?:[$€£¥₹₩₪₽₺₫₴฿₱₦¢₡₲₵₸₮]|[^\W\d_]{1,4}(?![^\W_]))")
_DIGIT = re.compile(r"\d")
_VALUE = re.compile(r"[^\d]{0,8}\d[\d.,'·\s\x1f]*[^\d]{0,8}")


class Number(NamedTuple):
    """A printed number: its offsets in the text, and the values that it may have."""

    start: int
    end: int
    values: tuple[str, ...]


@lru_cache(maxsize=8192)
def magnitudes(body: str) -> tuple[str, ...]:
    """The values that digits with separators may have: `1.250` is 1.25 or 1250, `1.250,00` only 1250. No signs."""
    if len(body) > MAX_DIGITS:
        return ()
    if body.isdigit():
        return () if len(body) > 2 and body.startswith("0") else (decimal(body, ""),)  # 0123 is an identifier
    found: list[str] = []
    last = max(body.rfind(mark) for mark in ".,'·")
    whole, part = body[:last], body[last + 1 :]
    if last >= 0 and part.isdigit():
        mark = body[last]
        if whole.isdigit() or not whole:
            found.append(decimal(whole, part))
        elif mark not in whole and _is_grouped(whole):
            found.append(decimal(_GROUPS.sub("", whole), part))
    if _is_grouped(body):
        found.append(decimal(_GROUPS.sub("", body), ""))
    return tuple(dict.fromkeys(found))


def parse(text: str) -> tuple[str, ...]:
    """The values that a text may have if all of it is a number, with sign, currency or percent; else none."""
    if not _DIGIT.search(text):
        return ()
    folded = fold(text.strip())
    if len(folded) > 2 * MAX_DIGITS or not _VALUE.fullmatch(folded):
        return ()
    span = next(_space_grouped(folded, lambda _: True), None) or _BODY.search(folded)
    if span is None:
        return ()
    start, end = span if isinstance(span, tuple) else span.span()
    found = readings_at(folded, start, end, magnitudes(_harden_spaces(folded[start:end])))
    if not found:
        return ()
    start, end, values = found[-1]
    around = _CURRENCY_BEFORE.sub("", folded[:start].strip()) + _CURRENCY_AFTER.sub("", folded[end:].strip(), count=1)
    return values if not re.search(r"[^\W_]", around) else ()


class NumberIndex:
    """The numbers of a folded text, by their digits. Signs and surroundings are read only when a value is looked up.

    `joined(at)` tells whether the space at an offset is narrow enough to separate thousands. If so, `1 250,00` is one
    number and its pieces are none; `1 250` may be one or two.
    """

    def __init__(self, text: str, joined: Callable[[int], bool]) -> None:
        self._text = text
        self._weak: set[int] = set()  # offsets of numbers that may be a group of a longer number
        # Keyed by significant digits: all values of a printed number share them.
        self._by_digits: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        found, note = _BODY.finditer(text), self._by_digits
        pieces: set[int] = set()
        for start, end in _space_grouped(text, joined):
            note[_significant_digits(text[start:end])].append((start, end))
            # 1 250,00 and 10 000 are never two numbers.
            whole = text[start:end]
            certain = "," in whole or re.search(r"\s0", whole)
            (pieces if certain else self._weak).update(found.start() + start for found in _BODY.finditer(whole))
        for body in found:
            if not pieces or body.start() not in pieces:
                note[_significant_digits(body[0])].append(body.span())

    def find(self, value: str, most: int) -> list[tuple[int, int]]:
        """The (start, end) of a canonical value, in order, of at most `most` printings of its digits.

        A number that is part of another token, such as a date or an identifier, is left out. A number that may be a
        group of a longer one, as 250 in `1 250`, counts only if the value is printed nowhere else.
        """
        text = self._text
        magnitude = value.removeprefix("-")
        names = {magnitude, _hundredfold(magnitude)}  # 0.19 is also printed as 19 %
        strong: set[tuple[int, int]] = set()
        weak: set[tuple[int, int]] = set()
        for start, end in self._by_digits.get(_significant_digits(magnitude), ())[:most]:
            body = text[start:end]
            values = magnitudes(_harden_spaces(body))
            if names.isdisjoint(values):
                continue
            for number in readings_at(text, start, end, values):
                if value in number.values:
                    is_group = start in self._weak and not _SPACE.search(body)
                    (weak if is_group else strong).add((number.start, number.end))
        return sorted(strong or weak)


def _significant_digits(text: str) -> str:
    return text.translate(_NO_DIGITS).strip("0")


def _harden_spaces(body: str) -> str:
    return _SPACE.sub(HARD_SPACE, body)


def _space_grouped(text: str, joined: Callable[[int], bool]) -> Iterator[tuple[int, int]]:
    """The (start, end) of digits that are grouped by spaces: `1 250,00`."""
    for chain in _SPACED.finditer(text):
        start, end = chain.span()
        for space in _SPACE.finditer(text[start:end]):
            at = chain.start() + space.start()
            if not joined(at):
                if any(character.isspace() for character in text[start:at]):
                    yield start, at
                start = at + 1
        if any(character.isspace() for character in text[start:end]):
            yield start, end


def readings_at(text: str, start: int, end: int, values: tuple[str, ...]) -> list[Number]:
    """The number at start..end, with its sign; none if the digits are part of another token.

    `values` are the magnitudes of the digits. There are two numbers for `(9.00)`: a remark, or a minus.
    """
    before = text[start - 1] if start else "\n"
    after = text[end] if end < len(text) else "\n"
    alone = before == "\n" and after == "\n" and text[end + 1 : end + 2] not in "-%)"
    if alone and text[text.rfind("\n", 0, max(0, start - 1)) + 1 : start][:1] not in "-(":
        return [Number(start, end, values)]
    head = text[max(0, start - 12) : start]
    tail = text[end : end + 12]
    if before in ".," and not head[-2:-1].isalnum() and head[-2:-1] != before:
        # ".50": a decimal point without a zero before it.
        values = (decimal("", values[0]),) if text[start:end].isdigit() else values
        start -= 1
        head, before = head[:-1], head[-2:-1] or "\n"
    if not (_may_precede(head, before) and _may_follow(tail, after)):
        return []
    if before.isalpha() and after.isalpha() and before != "x" and after != "x" and before.isascii() and after.isascii():
        return []  # "KR3M" is neither three crowns nor three metres
    outer = _CURRENCY_BEFORE.sub("", head)
    negative = before == "-" or bool(_SIGN_BEFORE.search(outer))
    beyond = _CURRENCY_AFTER.sub("", tail, count=1) if tail[:1] not in ("-", ")") else tail
    if tail.startswith("-") or beyond.startswith("-"):
        negative = True
        end += 1 if tail.startswith("-") else 0
    minus = tuple(signed(value, True) for value in values)
    if negative and (before == "-" or _SIGN_BEFORE.search(outer) is None or not outer[-1:].isspace()):
        values = minus
    elif negative or head.endswith("\n-\n"):
        values = (*values, *minus)  # a dash with spaces around it may be a minus
    if re.match(r"[ \n]?%", tail):
        values = (*values, *(_hundredth(value) for value in values))
    if not negative and beyond.startswith(")") and outer.endswith("("):
        # In accounts brackets are a minus; elsewhere they are a remark.
        whole = Number(start - len(head) + len(outer) - 1, end + len(tail) - len(beyond) + 1, minus)
        return [Number(start, end, values), whole]
    return [Number(start - 1 if before == "-" else start, end, values)]


def _may_precede(head: str, before: str) -> bool:
    """Whether a number may begin behind the character `before`, the last of `head`."""
    if before == "\n" or before in ' ("[{=*#~<>|$€£¥+;?!' or not before.isascii():
        return before != "⁄" and (not before.isalnum() or UNSPACED.match(before) is not None)
    if before.isalpha():
        letters = _LETTERS_BEFORE.search(head)
        return letters is not None and (letters[0] in CURRENCIES or (letters[0] == "x" and not head[-2:-1].isalpha()))
    above = head[-2:-1]
    if before == "-":
        if above == "" or above in '\n (:=*|$€£¥"':
            return True
        letters = _LETTERS_BEFORE.search(head[:-1])
        return letters is not None and letters[0] in CURRENCIES and not head[: letters.start()][-1:].isalnum()
    if before in "^_@&\\":
        return False
    return not above.isdigit()  # "/", ":", "'", ".", ",", "%" or ")" between digits makes them one token


def _may_follow(tail: str, after: str) -> bool:
    """Whether a number may end before the character `after`, the first of `tail`."""
    if after in '\n )%"]}*;!?=|$€£¥^#~<>':
        return True
    if not after.isascii():
        return after != "⁄" and (not after.isalnum() or UNSPACED.match(after) is not None)
    if after.isalpha():
        if after == "x" and (tail[1:2].isdigit() or not tail[1:2].isalnum()):
            return True  # 35.5x25.5
        letters = _LETTERS_AFTER.match(tail)
        return letters is not None and (letters[0] in CURRENCIES or letters[0] in UNITS)
    beyond = tail[1:2]
    if after == "-":
        return not beyond.isalnum()
    if after in "_@&\\":
        return False
    return not beyond.isalnum() if after in ".,'" else not beyond.isdigit()


def _is_grouped(whole: str) -> bool:
    """Whether digits are grouped in thousands, as `1.250.000`, or in lakhs, as `12,50,000`."""
    return bool(_THOUSANDS.fullmatch(whole) or _LAKHS.fullmatch(whole))


def _hundredfold(value: str) -> str:
    whole, _, part = value.partition(".")
    part = part.ljust(2, "0")
    return decimal(whole + part[:2], part[2:])


def _hundredth(value: str) -> str:
    negative, text = value.startswith("-"), value.lstrip("-")
    whole, _, part = text.partition(".")
    whole = whole.rjust(3, "0")
    return signed(decimal(whole[:-2], whole[-2:] + part), negative)
