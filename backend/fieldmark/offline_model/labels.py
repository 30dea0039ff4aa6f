"""Finds labelled values in a document's text: by a vocabulary of labels, and by how values are printed."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

_MONTHS = "jan ene gen|feb fev|mar mrz maa|apr avr abr|may mai mei mag|jun juin giu|jul juil lug|aug aou ago|\
sep set|oct okt ott|nov|dec dez dic"
_SIGNS = {"€": "EUR", "$": "USD", "us$": "USD", "£": "GBP", "¥": "JPY", "rm": "MYR", "zł": "PLN", "₹": "INR"}
_CODES = {"EUR", "USD", "GBP", "JPY", "CHF", "CAD", "AUD", "SEK", "NOK", "DKK", "PLN", "CZK", "HUF", "MYR", "INR"}
CURRENCY = r"(?:US\$|[€$£¥₹]|\b(?:RM|zł|" + "|".join(sorted(_CODES)) + r")(?![^\W\d_]))"
# Kerning may print `2.321 ,00`: a space beside a separator is none. Every repetition is bounded or eats digits.
_NUMBER = r"(?:\d{1,3}(?: ?[.,'’ ] ?\d{3})+(?!\d)|\d{1,15})(?: ?[.,] ?\d{1,4})?"
_AMOUNT = re.compile(rf"[-−(]? ?{CURRENCY}? ?([-−]? ?{_NUMBER})-? ?{CURRENCY}?", re.IGNORECASE)
_DECIMALS = re.compile(r"(?<![.,\d])\d{1,3}(?:[.,]\d{3})*([.,])\d\d(?![\d.,/-])")
_DATES = (
    re.compile(r"(?P<y>\d{4})[-/.](?P<m>\d{1,2})[-/.](?P<d>\d{1,2})(?!\d)"),
    re.compile(r"(?P<a>\d{1,2})(?P<sep>[./-]) ?(?P<b>\d{1,2})[./-] ?(?P<y>\d{4}|\d\d)(?!\d)"),
    re.compile(
        r"(?P<d>\d{1,2})(?:st|nd|rd|th|er|º)?[ .‐-]{0,2}(?:de |di )?(?P<word>[^\W\d_]{3,10})\.?,?[ ‐-]?(?:de |del )?"
        r"(?P<y>\d{4}|\d\d)(?!\d)"
    ),
    re.compile(r"(?P<word>[^\W\d_]{3,10})\.? (?P<d>\d{1,2})(?:st|nd|rd|th)?,? (?P<y>\d{4})(?!\d)"),
)
_CELL = re.compile(r"\S+(?: \S+)*")
_SPACES = str.maketrans({"\t": "    ", "\u00a0": " ", "\u202f": " ", "\u2009": " "})
_LABEL_END = re.compile(r"[\d(%]")
_TITLE = (
    (
        "invoice",
        re.compile(r"\b(?:nr|no|number|nummer|numero|n)\b ?[.:°º]? ?([\w/.-]{0,20}\d[\w/.-]{0,20})", re.IGNORECASE),
    ),
    ("date", re.compile(r"\b(?:vom|dated|du|del|van|of) ([^:]{6,20})")),
)


@dataclass(frozen=True, slots=True)
class Target:
    """A field that a label may stand for. `shape` is the property's JSON schema, where there is one."""

    keys: tuple[str, ...]
    kind: str
    rank: int
    shape: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """A label and what is printed at it: the cells behind it up to the next label, or the one below it."""

    label: str
    printed: list[str]
    page: int
    confidence: float
    how: (
        str  # colon · cells (apart by two spaces or more) · joined (by one space) · row (under a row of labels) · below
    )
    section: str = ""


Labels = dict[str, list[Target]]


def plain(words: str) -> str:
    """Lower case, without accents and punctuation: `USt.-Id.-Nr.` → `ust id nr`."""
    letters = (sign for sign in unicodedata.normalize("NFKD", words.casefold()) if not unicodedata.combining(sign))
    return " ".join(re.findall(r"[^\W_]+", "".join(letters)))


@lru_cache(maxsize=1)
def vocabulary() -> Labels:
    """Every known label with the fields it may stand for."""
    known: Labels = {}
    for field, kind, rank, labels in _lines():
        for label in labels.split(",") if kind != "type" else ():
            known.setdefault(label, []).append(Target(tuple(field.split(".")), kind, int(rank)))
    return known


def document_type(text: str) -> tuple[str, float]:
    """What the document calls itself first, and how sure that is."""
    found = _type_words().search(plain(text[:6000]))
    return (found.lastgroup or "document", 0.9 if found.start() < 400 else 0.6) if found else ("document", 0.3)


def _lines() -> list[list[str]]:
    lines = Path(__file__).with_name("vocabulary.txt").read_text("utf-8").splitlines()
    return [line.split(" | ") for line in lines if line and not line.startswith("#")]


@lru_cache(maxsize=1)
def _type_words() -> re.Pattern[str]:
    types = [(name, words.replace(",", "|")) for name, kind, _, words in _lines() if kind == "type"]
    return re.compile(r"\b(?:" + "|".join(f"(?P<{name}>{words})" for name, words in types) + r")\b")


@dataclass(frozen=True, slots=True)
class Habits:
    """How a document writes numbers and dates."""

    decimal: str
    month_first: bool

    @classmethod
    def of(cls, text: str) -> Habits:
        marks = [found[1] for found in _DECIMALS.finditer(text)]
        slashed = [(int(found["a"]), int(found["b"])) for found in _DATES[1].finditer(text) if found["sep"] == "/"]
        american = any(b > 12 for _, b in slashed) or ("$" in text and not any(a > 12 for a, _ in slashed))
        return cls("," if marks.count(",") > marks.count(".") else "." if marks else "", american)

    def amount(self, printed: str) -> tuple[float, str] | None:
        """The number that a text begins with, and its quote; None if more digits or a percent sign follow."""
        found = _AMOUNT.match(printed[:100])
        if not found or re.search(r"[\d%]", printed[found.end() :]) or len(printed) - found.end() > 30:
            return None
        digits = re.sub(r"[^\d.,]", "", found[1])
        marks = re.findall(r"[.,]", digits)
        behind = len(digits) - 1 - digits.rindex(marks[-1]) if marks else 0
        if marks and (marks.count(marks[-1]) > 1 or (behind == 3 and len(marks) == 1 and marks[-1] != self.decimal)):
            digits, behind = digits + ".", 0
        whole = re.sub(r"[.,]", "", digits)
        number = float(f"{whole[: len(whole) - behind]}.{whole[len(whole) - behind :]}")
        negative = (number and re.match(r"\D*[-−(]", found[0])) or found[0].endswith("-")
        return -number if negative else number, found[0].strip()

    def day(self, printed: str) -> tuple[str, str] | None:
        """The date that a text begins with as YYYY-MM-DD, and its quote."""
        for found in filter(None, (pattern.match(printed) for pattern in _DATES)):
            part = found.groupdict()
            if "a" in part:
                swap = self.month_first and part["sep"] == "/"
                part["d"], part["m"] = (part["b"], part["a"]) if swap else (part["a"], part["b"])
            year = int(part["y"]) + (2000 if len(part["y"]) == 2 else 0)
            try:
                return date(
                    year, int(part["m"]) if "m" in part else _month(part["word"]), int(part["d"])
                ).isoformat(), found[0]
            except ValueError:
                continue
        return None

    def value(self, kind: str, seen: Seen) -> tuple[Any, str] | None:
        """What is printed there as a value of this kind, and its quote; None if it is none."""
        if kind in ("money", "tax"):
            amounts = [amount for cell in seen.printed if (amount := self.amount(cell))]
            return amounts[0 if seen.how == "colon" else -1] if amounts and seen.how != "below" else None
        printed = seen.printed[0]
        words = printed.split()
        if kind == "date":
            return self.day(printed)
        if kind == "currency":
            code = currency(words[0])
            return (code, words[0]) if code else None
        if len(printed) > 160 or not re.search(r"\w", printed) or (seen.how == "joined" and kind in ("text", "any")):
            return None
        if kind == "text":
            return (printed, printed) if re.search(r"[^\W\d_]", printed) else None
        if kind == "id":
            words = re.sub(r"^(?:nr|no|n°|nº|#)\b[.:]* ?", "", printed, flags=re.IGNORECASE).split()
            printed = " ".join(words) if len(words) <= 3 else words[0].rstrip(",;.") if seen.how == "colon" else ""
        if kind in ("id", "vat"):
            fits = re.fullmatch(
                r"[^%€$£]*\d[^%€$£]*" if kind == "id" else r"(?:[A-Z]{2} ?)?\d[0-9A-Z .\-/]{6,18}", printed
            )
            one = len(words) == 1 or seen.how != "joined"
            return (printed, printed) if fits and one and not self.day(printed) else None
        return printed, printed


def currency(printed: str) -> str | None:
    """The ISO code of a sign or code."""
    code = _SIGNS.get(printed.casefold(), printed.upper())
    return code if code in _CODES else None


def _month(word: str) -> int:
    named = plain(word)
    return next((at for at, names in enumerate(_MONTHS.split("|"), 1) if named.startswith(tuple(names.split()))), 0)


def sightings(text: str, known: Labels) -> Iterator[Seen]:
    """Every label in the text of `get_document_text` with what is printed at it, in the order of reading."""
    page, section = 1, ""
    # No page has so many columns; each cell looks at the ones behind it.
    spaced = (islice(_CELL.finditer(line.translate(_SPACES)), 40) for line in text.splitlines())
    lines = [cells for line in spaced if (cells := [(cell.start(), cell[0]) for cell in line])]
    for at, cells in enumerate(lines):
        texts = [cell for _, cell in cells]
        if len(texts) == 1 and (header := re.fullmatch(r"--- page (\d+) of \d+ ---", texts[0])):
            page, section = int(header[1]), ""
            continue
        if len(texts) == 1 and ":" not in texts[0]:
            parties = [target.keys[0] for target in vocabulary().get(plain(texts[0]), ()) if target.kind == "text"]
            # Another heading ends a party's block; a line with a number in it is rather its address.
            section = parties[0] if parties else section if re.search(r"\d", texts[0]) else ""
        line = " ".join(texts)[:200]
        if page == 1 and at < 60 and document_type(line)[0] in ("invoice", "credit_note"):
            yield from (
                Seen(name, [found[1]], page, 0.8, "cells") for name, title in _TITLE if (found := title.search(line))
            )
        heads = [":" in cell or head(cell) in known for cell in texts]
        for place, cell in enumerate(texts):
            label, colon, rest = cell.partition(":")
            behind = texts[place + 1 :]
            if not colon and behind and behind[0].startswith(":"):
                colon, behind = ":", [behind[0].lstrip(": "), *behind[1:]]
            stop = next(
                (n for n, other in enumerate(behind) if _is_label(other, known, first=not n and bool(colon))), None
            )
            printed = [value for value in (rest.strip(), *behind[:stop]) if value]
            under = _below(lines, at, place, known)
            if colon and (not label[:1].isalpha() or len(label) > 48 or rest.startswith("//")):
                continue
            if not colon:
                words = cell.split(" ")
                starts = [n for n in range(min(5, len(words) - 1), 0, -1) if plain(" ".join(words[:n])) in known]
                if starts:
                    yield Seen(" ".join(words[: starts[0]]), [" ".join(words[starts[0] :])], page, 0.8, "joined")
            if printed and (colon or head(cell) in known or len(texts) == 2):
                yield Seen(
                    label,
                    printed,
                    page,
                    0.9 if colon else 0.85,
                    "colon" if colon else "cells",
                    section if colon else "",
                )
            # A row of labels over a row of values; not the head of a table of goods, where most cells are no label.
            elif under and heads[place] and (colon or 2 * sum(heads) > len(heads)):
                yield Seen(label, [under], page, 0.75, "row" if all(heads) else "below", section if colon else "")


def head(cell: str) -> str:
    """A label without what is added to it: `Tax 15% on $ 112.90` → `tax`, `Total (EUR)` → `total`."""
    return re.sub(r" (?:eur|euro|usd|gbp|chf|rm|in)$", "", plain(_LABEL_END.split(cell, maxsplit=1)[0]))


def _is_label(cell: str, known: Labels, *, first: bool = False) -> bool:
    return bool(re.match(r"[^\W\d_][^:]{0,47}:", cell)) or (not first and plain(cell) in known)


def _below(lines: list[list[tuple[int, str]]], at: int, place: int, known: Labels) -> str:
    """The cell below a label: of the same place in a row of as many cells, else the one that stands under it."""
    row, (start, label) = lines[at + 1] if at + 1 < len(lines) else [], lines[at][place]
    under = [cell for begin, cell in row if begin < start + len(label) and begin + len(cell) > start]
    found = row[place][1] if len(row) == len(lines[at]) else under[0] if under else ""
    return "" if _is_label(found, known) or found.startswith("---") else found
