"""Numbers, dates and quotes in a text of the agent that nothing in its run proves."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Final

from fieldmark.agents.library.record import Record
from valuegrounding.dates import MONTHS, Day, find_dates
from valuegrounding.folding import fold

_CITED: Final = re.compile(r"\[(\d{1,3}(?:\s*,\s*\d{1,3})*)\]")
_NUMBER: Final = re.compile(r"\d+(?:[.,'’]\d+|[\u00a0\u202f ]\d{3}(?!\d))*")
_DAY_OF_MONTH: Final = re.compile(
    r"\b(?P<day_first>\d{1,2})(?:st|nd|rd|th|\.)?(?: of)? (?P<after>[^\W\d_]{3,9})\b"
    r"|\b(?P<before>[^\W\d_]{3,9}) (?P<day>\d{1,2})(?:st|nd|rd|th)?\b"
)
_LISTED: Final = re.compile(r"^[ \t]*\d{1,2}[.)]\s", re.MULTILINE)
"""The number of an item of a list."""
_QUOTED: Final = re.compile(r"\"([^\"\n]+)\"")


def citation_numbers(*texts: str) -> set[int]:
    """Return the citation numbers that texts refer to.

    >>> sorted(citation_numbers("It leaks [1], and rots [2, 3]. See a[i]."))
    [1, 2, 3]
    """
    return {int(one) for text in texts for found in _CITED.findall(text) for one in found.split(",")}


def unproven_numbers(record: Record, given: Iterable[str], *texts: str) -> list[str]:
    """Return the numbers and dates of texts that are in no quote of the run, in no computed result and not in `given`.
    A date may be formatted differently from its source."""
    known = [*given, *record.searched, *(one.text for one in record.coverage), *record.keys, *record.documents.values()]
    for source in [*record.citations.values(), *record.values]:
        known += [source.quote, source.filename]
    numbers = {abs(value) for value, _ in record.results()}
    numbers |= {Decimal(source.page) for source in record.citations.values()}
    days: set[Day] = set()
    for text in known:
        numbers |= {reading for one in _NUMBER.findall(text) for reading in _readings(one)}
        days |= {day for found in find_dates(fold(text)) for day in found.days}
    numbers |= {Decimal(year) for year, _, _ in days}
    unknown: list[str] = []
    for text in texts:
        left = fold(_LISTED.sub("", _CITED.sub("", text)))
        for found in find_dates(left):
            if days & set(found.days):
                left = left[: found.start] + " " * (found.end - found.start) + left[found.end :]
        left = _DAY_OF_MONTH.sub(lambda found: "" if _is_any_day(found, days) else found[0], left)
        unknown += [one for one in _NUMBER.findall(left) if not numbers & _readings(one)]
    return list(dict.fromkeys(unknown))


def unproven_quotes(text: str, given: Iterable[str]) -> list[str]:
    """Return what a text quotes that is not in `given`."""
    known = [fold(one) for one in given]
    return [one for one in _QUOTED.findall(fold(text)) if not any(one in text for text in known)]


def _readings(said: str) -> set[Decimal]:
    """Return the numbers that digits with separators can represent: 1.250 is 1.25 or 1250."""
    whole, separator, places = re.sub(r"[^0-9.]", "", said.replace(",", ".")).rpartition(".")
    whole = whole.replace(".", "")
    return {Decimal(whole + places), Decimal(f"{whole}.{places}" if separator else places)}


def _is_any_day(found: re.Match[str], days: set[Day]) -> bool:
    """Return whether a date without a year matches one of these days."""
    month = MONTHS.get(found["before"] or found["after"])
    return any((month, int(found["day"] or found["day_first"])) == day[1:] for day in days)
