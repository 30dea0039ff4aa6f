"""Numbers in any locale's printing: which values a printed number may have, and where a text has numbers.

A value is written as a canonical decimal: `1250`, `-0.5`, without exponent, leading or trailing zeros.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import NamedTuple

from fieldmark.domain.grounding.folding import HARD_SPACE, UNSPACED, plain

# A longer run of digits is no number anybody typed.
MAX_DIGITS = 40

# Letters that may be glued to a number.
_CURRENCIES = """
eur euro euros usd gbp chf jpy cny rmb inr myr sgd hkd twd krw aud nzd cad mxn brl ars clp cop pen sek nok dkk isk pln
czk huf ron bgn rsd rub uah try ils aed sar qar kwd bhd omr egp mad tnd zar ngn kes ghs thb vnd idr php pkr bdt lkr
rm rs rp kr kn zl kc ft lei lv sfr fr us c a s hk nt r cr dr
"""
_UNITS = """
x kg g mg t lb lbs oz l ml cl dl hl m cm mm km m2 m3 ft in h hr hrs min s sec d w kw kwh wh mwh v a mah hz ghz mhz
gb mb tb kb pc pcs ea st stk stck pz uds un u bx ctn pkt px pt c f k bar
"""
CURRENCIES = frozenset(_CURRENCIES.split())
UNITS = frozenset(_UNITS.split())
_BODY = re.compile(rf"\d+(?:[.,'·{HARD_SPACE}]\d+)*")
_LETTERS_BEFORE = re.compile(r"[^\W\d_]{1,5}\Z")
_LETTERS_AFTER = re.compile(r"[^\W\d_]{1,5}(?![^\W_])")
_GROUPS = re.compile(r"[.,'·\s\x1f]")
_THOUSANDS = re.compile(r"[1-9]\d{0,2}(?:(?P<s>[.,'·\s\x1f])\d{3})(?:(?P=s)\d{3})*")
_LAKHS = re.compile(r"[1-9]\d?(?:,\d\d)+,\d{3}")
_SIGN_BEFORE = re.compile(r"(?:^|[\s(:=*|\"])-[ \n]?\Z")
_CURRENCY_BEFORE = re.compile(r"(?:[^\W\d_]{0,3}[$€£¥₹₩₪₽₺₫₴฿₱₦¢₡₲₵₸₮]|(?<![^\W_])[^\W\d_]{1,4}\.?)[ \n]?\Z")
_CURRENCY_AFTER = re.compile(r"[ \n]?(?:[$€£¥₹₩₪₽₺₫₴฿₱₦¢₡₲₵₸₮]|[^\W\d_]{1,4}(?![^\W_]))")
_VALUE = re.compile(r"[^\d]{0,8}\d[\d.,'·\s\x1f]*[^\d]{0,8}")


class Number(NamedTuple):
    """A printed number: where it stands in the text, and what it may mean, the likelier first."""

    start: int
    end: int
    values: tuple[str, ...]
    weak: bool = False  # it may as well be some thousands of a longer number


def canonical(value: int | float | Decimal) -> str | None:
    """A value as index keys have it; None for what is no finite number of at most MAX_DIGITS digits."""
    try:
        number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    except InvalidOperation:
        return None
    if not number.is_finite() or abs(number.adjusted()) > MAX_DIGITS:
        return None
    text = format(number, "f")
    negative, text = text.startswith("-"), text.lstrip("-")
    whole, _, part = text.partition(".")
    return _signed(_join(whole, part), negative)


@lru_cache(maxsize=8192)
def magnitudes(body: str) -> tuple[str, ...]:
    """What digits with separators may mean, sign aside: `1.250` is 1.25 and 1250, `1.250,00` only 1250."""
    if len(body) > MAX_DIGITS:
        return ()
    if body.isdigit():
        return (_join(body, ""),)
    found: list[str] = []
    last = max(body.rfind(mark) for mark in ".,'·")
    whole, part = body[:last], body[last + 1 :]
    if last >= 0 and part.isdigit():
        mark = body[last]
        if whole.isdigit() or not whole:
            found.append(_join(whole, part))
        elif mark not in whole and _grouped(whole):
            found.append(_join(_GROUPS.sub("", whole), part))
    if _grouped(body):
        found.append(_join(_GROUPS.sub("", body), ""))
    return tuple(dict.fromkeys(found))


def typed(text: str) -> tuple[str, ...]:
    """What a text value that is wholly a number (with sign, currency or percent) may mean; else nothing."""
    folded = plain(text.strip())
    if len(folded) > 2 * MAX_DIGITS or not _VALUE.fullmatch(folded):
        return ()
    found = next(scan(folded, lambda _: True), None)
    if found is None:
        return ()
    start, end, values, _ = found
    around = _CURRENCY_BEFORE.sub("", folded[:start].strip()) + _CURRENCY_AFTER.sub("", folded[end:].strip(), count=1)
    return values if not re.search(r"[^\W_]", around) else ()


def scan(text: str, joined: Callable[[int], bool] = bool) -> Iterator[Number]:
    """The numbers of a plain text, in order. A number that is part of another token (a date, an identifier, a telephone
    number) is none. `joined(at)` tells whether the space at a place is as narrow as one between thousands."""
    bodies = _BODY.finditer(text)
    body = next(bodies, None)
    while body is not None:
        chain = [body]
        body = next(bodies, None)
        if chain[0].end() - chain[0].start() <= 3:
            while (
                body is not None
                and body.start() == chain[-1].end() + 1
                and text[chain[-1].end()] in " \n"
                and _continues(chain, body[0])
                and joined(chain[-1].end())
            ):
                chain.append(body)
                body = next(bodies, None)
        if len(chain) > 1:
            start, end = chain[0].start(), chain[-1].end()
            whole = re.sub(r"\s", HARD_SPACE, text[start:end])
            found = _in_context(text, start, end, magnitudes(whole))
            if found:
                yield from found
                if "," in whole or f"{HARD_SPACE}0" in whole:
                    continue  # nobody prints 1 250,00 or 10 000 and means two numbers
        for one in chain:
            for number in _in_context(text, one.start(), one.end(), magnitudes(one[0])):
                yield number._replace(weak=True) if len(chain) > 1 else number


def _continues(chain: list[re.Match[str]], body: str) -> bool:
    last = chain[-1][0]
    return last.isdigit() and (len(chain) == 1 or len(last) == 3) and body[:3].isdigit() and not body[3:4].isdigit()


def _in_context(text: str, start: int, end: int, values: tuple[str, ...]) -> list[Number]:
    """The number with its sign, or nothing if it is a piece of something else."""
    if not values:
        return []
    before = text[start - 1] if start else "\n"
    after = text[end] if end < len(text) else "\n"
    if before == "\n" and after == "\n" and text[end + 1 : end + 2] not in "-%" and text[start - 2 : start - 1] != "-":
        return [Number(start, end, values)]
    head = text[max(0, start - 12) : start]
    tail = text[end : end + 12]
    if before in ".," and not head[-2:-1].isalnum() and head[-2:-1] != before:
        # ".50": a decimal mark without a nought before it.
        values = (_join("", values[0]),) if text[start:end].isdigit() else values
        start -= 1
        head, before = head[:-1], head[-2:-1] or "\n"
    if not (_parts_before(head, before) and _parts_after(tail, after)):
        return []
    outer = _CURRENCY_BEFORE.sub("", head)
    negative = before == "-" or bool(_SIGN_BEFORE.search(outer))
    beyond = _CURRENCY_AFTER.sub("", tail, count=1) if tail[:1] not in ("-", ")") else tail
    if tail.startswith("-") or beyond.startswith("-"):
        negative = True
        end += 1 if tail.startswith("-") else 0
    minus = tuple(_signed(value, True) for value in values)
    if negative and (before == "-" or _SIGN_BEFORE.search(outer) is None or not outer[-1:].isspace()):
        values = minus
    elif negative or head.endswith("\n-\n"):
        values = (*values, *minus)  # a dash that stands alone may be a minus
    if re.match(r"[ \n]?%", tail):
        values = (*values, *(_hundredth(value) for value in values))
    if not negative and beyond.startswith(")") and outer.endswith("("):
        # Accountants mean a minus, others a remark.
        whole = Number(start - len(head) + len(outer) - 1, end + len(tail) - len(beyond) + 1, minus)
        return [Number(start, end, values), whole]
    return [Number(start - 1 if before == "-" else start, end, values)]


def _parts_before(head: str, before: str) -> bool:
    if before == "\n" or before in ' ("[{=*#~<>|$€£¥+;?!' or not before.isascii():
        return before != "⁄" and (not before.isalnum() or UNSPACED.match(before) is not None)
    if before.isalpha():
        letters = _LETTERS_BEFORE.search(head)
        return letters is not None and (letters[0] in CURRENCIES or letters[0] == "x")
    above = head[-2:-1]
    if before == "-":
        if above == "" or above in '\n (:=*|$€£¥"':
            return True
        letters = _LETTERS_BEFORE.search(head[:-1])
        return letters is not None and letters[0] in CURRENCIES and not head[: letters.start()][-1:].isalnum()
    if before in "^_@&\\":
        return False
    return not above.isdigit()  # "/", ":", "'", ".", ",", "%", ")": between digits they make one token


def _parts_after(tail: str, after: str) -> bool:
    if after in '\n )%"]}*;!?=|$€£¥^#~<>':
        return True
    if not after.isascii():
        return after != "⁄" and (not after.isalnum() or UNSPACED.match(after) is not None)
    if after.isalpha():
        letters = _LETTERS_AFTER.match(tail)
        return letters is not None and (letters[0] in CURRENCIES or letters[0] in UNITS)
    beyond = tail[1:2]
    if after == "-":
        return not beyond.isalnum()
    if after in "_@&\\":
        return False
    return not beyond.isalnum() if after in ".,'" else not beyond.isdigit()


def _grouped(whole: str) -> bool:
    return bool(_THOUSANDS.fullmatch(whole) or _LAKHS.fullmatch(whole))


def _join(whole: str, part: str) -> str:
    whole, part = whole.lstrip("0") or "0", part.rstrip("0")
    return f"{whole}.{part}" if part else whole


def _signed(value: str, negative: bool) -> str:
    return f"-{value}" if negative and value != "0" else value


def _hundredth(value: str) -> str:
    negative, text = value.startswith("-"), value.lstrip("-")
    whole, _, part = text.partition(".")
    whole = whole.rjust(3, "0")
    return _signed(_join(whole[:-2], whole[-2:] + part), negative)
