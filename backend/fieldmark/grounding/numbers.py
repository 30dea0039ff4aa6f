"""Numbers in any locale's spelling: which values a printed number may have, and where a text has numbers.

Values are canonical decimals, as `domain.numbers` spells them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from fieldmark.domain.folding import HARD_SPACE, UNSPACED, fold
from fieldmark.domain.numbers import MAX_DIGITS, decimal, signed
from fieldmark.grounding import units
from fieldmark.grounding.units import CURRENCY_LETTERS, SCALES, SCALES_BEGIN, SCALES_END, SYMBOLS, UNIT_LETTERS, Mark

BODY = re.compile(rf"\d+(?:[.,'·{HARD_SPACE}]\d+)*")
_LETTERS_BEFORE = re.compile(r"[^\W\d_]{1,5}\Z")
_LETTERS_AFTER = re.compile(r"[^\W\d_]{1,5}(?![^\W_])")
_SPACED = re.compile(r"\d(?<![\d.,'\x1f]\d)\d{0,2}(?:[ \n]\d{3})+(?:[.,]\d+)?(?!\d)")
_SPACE = re.compile(r"[ \n]")
_NO_DIGITS = {ord(mark): None for mark in f".,'· \n{HARD_SPACE}"}
_GROUPS = re.compile(r"[.,'·\s\x1f]")
_THOUSANDS = re.compile(r"[1-9]\d{0,2}(?:(?P<s>[.,'·\s\x1f])\d{3})(?:(?P=s)\d{3})*")
_LAKHS = re.compile(r"[1-9]\d?(?:,\d\d)+,\d{3}")
# Not any word: (page 75) is no loss.
_CURRENCY_WORD = f"(?:{'|'.join(sorted(CURRENCY_LETTERS, key=len, reverse=True))})"
_SIGN_BEFORE = re.compile(r"(?:^|[\s(:=*|\"])-[ \n]?\Z")
_MINUS_WORD = re.compile(
    r"(?:(?<![^\W_])(?:minus|moins|menos|meno|минус|мінус)[ \n]|(?:[△▼▽⊖負负]|マイナス|(?<!\w)ー|\(-\))[ \n]?)\Z"
)
_MINUS_BEHIND = re.compile(rf"[ \n]?(?:[{SYMBOLS}]|{_CURRENCY_WORD}(?!\w))?[ \n]?(?:\(-\)|(?<=\S)-(?!\w))")
_UNKNOWN_SIGN = re.compile(r"▲[ \n]?\Z")  # a loss in Japanese accounts, a rise elsewhere
# The dash that belongs to a currency rather than to what stands before it: `EUR- 75,00`.
_CURRENCY_MINUS = re.compile(rf"(?:[{SYMBOLS}]|(?<![^\W_]){_CURRENCY_WORD})-[ \n]\Z")
_RANGE_BEFORE = re.compile(r"[\d%)][ \n]-[ \n]\Z")
_CREDIT = re.compile(r"[ \n]?(?:\(cr\.?\)|cr(?![^\W_]))")
_DEBIT = re.compile(r"[ \n]?(?:\((?:dr|db)\.?\)|(?:dr|db)(?![^\W_]))")
# What makes another number of the digits before it: 7 1/2, 7.5 × 10³, 12⁹⁹, 10³.
_FRACTION = re.compile(r"[ \n](?P<part>\d{1,2})[/⁄](?P<of>\d{1,2})(?![\d/⁄]|[.,]\d)")
_POWER_OF_TEN = re.compile(r"[ \n]?[x×*·][ \n]?10(?:\^|[ \n]?[-+]?\d)")
_RAISED = re.compile(r"-?(?:\^\d)+")
# At most, at least: then the number itself is not the value.
_LIMIT_BEFORE = re.compile(r"(?:(?<![^\s(:])<[ \n]?|(?<![^\s(:])>|[≤≥≦≧][ \n]?|±[ \n]?)\Z")
_CURRENCY_BEFORE = re.compile(rf"(?:[^\W\d_]{{0,3}}[{SYMBOLS}]|(?<![^\W_]){_CURRENCY_WORD}\.?)[ \n]?\Z")
_CURRENCY_AFTER = re.compile(rf"\A[ \n]?(?:[{SYMBOLS}]|{_CURRENCY_WORD}(?![^\W_]))")
# Letters that may be glued to a number.
_GLUED = CURRENCY_LETTERS | UNIT_LETTERS | {"cr"} | {word for word, places in SCALES.items() if places is not None}
_PERCENT = re.compile(r"\A[ \n]?([%‰])")
# How the word before and the word behind a number begin that may say more of it than its digits.
_SPEAKING_BEFORE = frozenset("-(<>≤≥≦≧±tkmмマ△▼▽▲⊖ー負负")
_SPEAKING_AFTER = SCALES_BEGIN | frozenset("-%‰()>cdx×*·")
_DIGIT = re.compile(r"\d")
_AROUND: Final = 24  # characters before and behind a number in which its currency or unit stands
# From a value to how it is printed: in percent, per mille, thousands, lakhs, millions, crores, milliards.
_MOVES: Final = (2, 3, -3, -4, -5, -6, -7, -8, -9)
_VALUE = re.compile(r"[^\d]{0,8}\d[\d.,'·\s\x1f]*[^\d]{0,16}[23]?")


class Number(NamedTuple):
    """A printed number: its offsets in the text, and the values that it may have.

    `shifted` are those that it has by what stands behind it: 0.19 of `19 %`, 3200000 of `3.2 million`.
    """

    start: int
    end: int
    values: tuple[str, ...]
    shifted: tuple[str, ...] = ()


class Amount(NamedTuple):
    """A value that is a number, with what it is a number of."""

    values: tuple[str, ...]
    mark: Mark


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


def parse(text: str) -> Amount | None:
    """The values that a text may have if all of it is a number, with sign, currency, unit or scale; else None."""
    if not _DIGIT.search(text):
        return None
    folded = fold(text.strip())
    if len(folded) > 2 * MAX_DIGITS or not _VALUE.fullmatch(folded):
        return None
    span = next(_space_grouped(folded, lambda _: True), None) or BODY.search(folded)
    if span is None:
        return None
    start, end = span if isinstance(span, tuple) else span.span()
    found = readings_at(folded, start, end, magnitudes(_harden_spaces(folded[start:end])))
    if not found:
        return None
    number = found[-1]
    before, after = folded[: min(start, number.start)], folded[max(end, number.end) :]
    if number.start < start and folded[number.start] in "(<":
        before, after = folded[:start], folded[end:]
    mark = units.mark_of(_MINUS_WORD.sub("", _spaced(before)), _spaced(after))
    if mark is None:
        return None
    values = number.values if mark.unit in ("%", "‰") else (*number.values, *number.shifted)
    return Amount(values, mark) if values else None


class NumberIndex:
    """The numbers of a folded text, by their digits. Signs and surroundings are read only when a value is looked up.

    `joined(at)` tells whether the space at an offset is narrow enough to separate thousands. If so, `1 250,00` is one
    number and its pieces are none; `1 250` may be one or two. `near(at)` tells whether the words around it are on one
    line and not far apart: only then the one says anything of the other.
    """

    def __init__(self, text: str, joined: Callable[[int], bool], near: Callable[[int], bool]) -> None:
        self._text = text
        self._near = near
        self._weak: set[int] = set()  # offsets of numbers that may be a group of a longer number
        self.groups: list[tuple[int, int]] = []  # digits that are grouped by spaces, in order: `1 250,00`
        # Keyed by significant digits: all values of a printed number share them.
        self._by_digits: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        found, note = BODY.finditer(text), self._by_digits
        pieces: set[int] = set()
        for start, end in _space_grouped(text, joined):
            note[_significant_digits(text[start:end])].append((start, end))
            self.groups.append((start, end))
            # 1 250,00 and 10 000 are never two numbers.
            whole = text[start:end]
            certain = "," in whole or re.search(r"\s0", whole)
            (pieces if certain else self._weak).update(found.start() + start for found in BODY.finditer(whole))
        for body in found:
            if not pieces or body.start() not in pieces:
                note[_significant_digits(body[0])].append(body.span())

    def find(self, value: str, most: int, as_printed: bool = False) -> list[tuple[int, int]]:
        """The (start, end) of a canonical value, in order, of at most `most` printings of its digits.

        `as_printed` leaves out what the number is only by a percent sign or a scale behind it.

        A number that is part of another token, such as a date or an identifier, is left out. A number that may be a
        group of a longer one, as 250 in `1 250`, counts only if the value is printed nowhere else.
        """
        text = self._text
        magnitude = value.removeprefix("-")
        # 0.19 is also printed as 19 %, and 3200000 as 3.2 million.
        names = {magnitude, *(_moved(magnitude, places) for places in _MOVES)}
        strong: set[tuple[int, int]] = set()
        weak: set[tuple[int, int]] = set()
        for start, end in self._by_digits.get(_significant_digits(magnitude), ())[:most]:
            body = text[start:end]
            values = magnitudes(_harden_spaces(body))
            if names.isdisjoint(values):
                continue
            for number in readings_at(text, start, end, values, self._near):
                if value in number.values or (not as_printed and value in number.shifted):
                    is_group = start in self._weak and not _SPACE.search(body)
                    (weak if is_group else strong).add((number.start, number.end))
        return sorted(strong or weak)

    def read(self, start: int, end: int) -> list[Number]:
        """The numbers that the digits at these offsets may be, with their sign."""
        return readings_at(self._text, start, end, magnitudes(_harden_spaces(self._text[start:end])), self._near)

    def around(self, start: int, end: int) -> tuple[str, str]:
        """The text before and behind a number, as far as it is near it on its line."""
        text, near = self._text, self._near
        first, last = start, end
        while first > max(0, start - _AROUND) and (text[first - 1] != "\n" or near(first - 1)):
            first -= 1
        while last < min(len(text), end + _AROUND) and (text[last] != "\n" or near(last)):
            last += 1
        return _spaced(text[first:start]), _spaced(text[end:last])


def _spaced(text: str) -> str:
    return text.replace("\n", " ").replace(HARD_SPACE, " ")


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


def readings_at(
    text: str, start: int, end: int, values: tuple[str, ...], near: Callable[[int], bool] = lambda _: True
) -> list[Number]:
    """The number at start..end, with its sign; none if the digits are part of another token, or if what stands beside
    them leaves open what they mean. `values` are the magnitudes of the digits.

    In brackets a number is a minus, as accounts print it. A year, and what has a percent sign or a unit there, may also
    be a remark.
    """
    before = text[start - 1] if start else "\n"
    after = text[end] if end < len(text) else "\n"
    behind = text[end + 1 : end + 7].partition("\n")[0]
    alone = (
        before == "\n"
        and after == "\n"
        and behind[:1] not in _SPEAKING_AFTER
        and behind[-1:] != "-"
        and not ("/" in behind or "⁄" in behind)
    )
    word = text[text.rfind("\n", 0, max(0, start - 1)) + 1 : start]
    if alone and word[:1] not in _SPEAKING_BEFORE and word[-2:-1] != "-":
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
    close = "\n" not in tail[:1] or near(end)
    if _UNKNOWN_SIGN.search(outer) or (_LIMIT_BEFORE.search(outer) and not (outer.endswith("<") and ">" in tail)):
        return []
    if _makes_another(text[start:end], tail if close else ""):
        return []
    negative = before == "-" or bool(_SIGN_BEFORE.search(outer))
    negative = negative or any(_MINUS_WORD.search(one) for one in (outer, head))
    beyond = _CURRENCY_AFTER.sub("", tail, count=1) if tail[:1] not in ("-", ")") else tail
    if (
        tail.startswith("-")
        or (beyond.startswith("-") and "\n" not in tail[:1])
        or (close and _MINUS_BEHIND.match(tail))
    ):
        negative = True
        end += 1 if tail.startswith("-") else 0
    line_before, line_after = _spaced(head), _spaced(tail) if close else ""
    minus = tuple(signed(value, True) for value in values)
    shifted: tuple[str, ...] = ()
    scale = None
    if line_after.lstrip()[:1] in SCALES_BEGIN or line_before.rstrip()[-1:] in SCALES_END:
        scale = units.scale_at(line_before, line_after)
    if scale is None and close and (credit := _CREDIT.match(tail)):
        # A credit: what somebody gets back, on a bill as in a ledger.
        return [Number(start, end + credit.end(), minus)]
    if scale is None and close and _DEBIT.match(tail):
        return []  # a minus at a bank, a plus in a ledger
    if scale is not None and scale[0] is None:
        return []
    if scale is not None and "," in text[start:end] and units.is_unspaced_scale(line_after):
        values = tuple(value for value in values if "." not in value)  # 1,234千円: never a comma of decimals
    if _RANGE_BEFORE.search(head):
        pass  # "10 - 15"
    elif (_CURRENCY_MINUS.search(head) and (before != "\n" or near(start - 1))) or (
        negative and (before == "-" or _SIGN_BEFORE.search(outer) is None or not outer[-1:].isspace())
    ):
        values = minus
    elif negative or head.endswith("\n-\n"):
        values = (*values, *minus)  # a dash with spaces around it may be a minus
    percent = _PERCENT.match(tail)
    if percent:
        shifted = tuple(_moved(value, -2 if percent[1] == "%" else -3) for value in values)
    if scale is not None and scale[0] is not None:
        values, shifted = (), tuple(_moved(value, scale[0]) for value in values)
        minus = tuple(signed(value, True) for value in shifted)
    letters = _LETTERS_AFTER.match(tail.lstrip())
    year = text[start:end].isdigit() and end - start == 4 and text[start : start + 2] in ("19", "20")
    beyond = _PERCENT.sub("", beyond, count=1) if percent else beyond
    # ( 75.00 )
    if close and beyond[:1] in (" ", "\n") and beyond[1:2] == ")":
        beyond = beyond[1:]
    if outer[-2:-1] == "(" and outer[-1] in " \n" and near(start - len(head) + len(outer) - 1):
        outer = outer[:-1]
    for opening, closing in ("()", "<>"):
        if not negative and beyond.startswith(closing) and outer.endswith(opening):
            whole = Number(start - len(head) + len(outer) - 1, end + len(tail) - len(beyond) + 1, minus)
            remark = percent or year or (letters is not None and letters[0] in UNIT_LETTERS - CURRENCY_LETTERS)
            return [Number(start, end, values, shifted), whole] if remark else [whole]
    return [Number(start - 1 if before == "-" else start, end, values, shifted)]


def _makes_another(body: str, tail: str) -> bool:
    """Whether what stands close behind digits makes another number of them, of which they are only the beginning."""
    if _POWER_OF_TEN.match(tail):
        return True
    if not body.isdigit():
        return False
    if raised := _RAISED.match(tail):
        return body == "10" or raised[0].count("^") == 2  # a footnote has one digit, cents have two
    fraction = _FRACTION.match(tail)
    return fraction is not None and int(fraction["part"]) < int(fraction["of"]) in (2, 3, 4, 5, 6, 8, 10, 16, 32, 64)


def _may_precede(head: str, before: str) -> bool:
    """Whether a number may begin behind the character `before`, the last of `head`."""
    if before == "\n" or before in ' ("[{=*#~<>|$€£¥+;?!' or not before.isascii():
        return before != "⁄" and (not before.isalnum() or UNSPACED.match(before) is not None)
    if before.isalpha():
        letters = _LETTERS_BEFORE.search(head)
        return letters is not None and (
            letters[0] in CURRENCY_LETTERS or (letters[0] == "x" and not head[-2:-1].isalpha())
        )
    above = head[-2:-1]
    if before == "-":
        if above == "" or above in '\n (:=*|$€£¥"':
            return True
        letters = _LETTERS_BEFORE.search(head[:-1])
        return letters is not None and letters[0] in CURRENCY_LETTERS and not head[: letters.start()][-1:].isalnum()
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
        return letters is not None and (
            letters[0] in CURRENCY_LETTERS
            or letters[0] in UNIT_LETTERS
            or SCALES.get(letters[0]) is not None
            or letters[0] == "cr"
        )
    beyond = tail[1:2]
    if after == "-":
        return not beyond.isalnum()
    if after in "_@&\\":
        return False
    return not beyond.isalnum() if after in ".,'" else not beyond.isdigit()


def _is_grouped(whole: str) -> bool:
    """Whether digits are grouped in thousands, as `1.250.000`, or in lakhs, as `12,50,000`."""
    return bool(_THOUSANDS.fullmatch(whole) or _LAKHS.fullmatch(whole))


def _moved(value: str, places: int) -> str:
    """The value with its point moved to the right, or to the left."""
    negative, text = value.startswith("-"), value.lstrip("-")
    whole, _, part = text.partition(".")
    if places < 0:
        whole = whole.rjust(1 - places, "0")
        return signed(decimal(whole[:places], whole[places:] + part), negative)
    part = part.ljust(places, "0")
    return signed(decimal(whole + part[:places], part[places:]), negative)
