"""What an invoice for machines says that no printed page of its file shows: number, sums, dates, currency, account."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import date
from functools import partial
from itertools import chain, islice
from typing import Final, NamedTuple

from rapidfuzz import fuzz, process

from fieldmark.documents.reading.pages import Page, clean
from fieldmark.domain.folding import fold
from fieldmark.domain.reading_warnings import MAX_EXCERPT, ReadingWarning, WarningCode
from fieldmark.grounding import DocumentIndex, PageWords, dates, units

MOST_TOLD: Final = 10
MOST_CHARACTERS: Final = 1_000_000  # of the printed pages, in which likely counterparts are looked for
_MOST_FACTS: Final = 200
_MOST_LIKES: Final = 1000
_LIKE_A_NUMBER: Final = 50  # of 100: any word with a digit could be the invoice's number

_LINE = re.compile(r"^(\S{1,2000}): (.{1,200})$", re.MULTILINE)
_ATTRIBUTES = re.compile(r" \([^()]*\)$")
_SUM = re.compile(
    r"(?:GrandTotal|TaxBasisTotal|TaxInclusive|TaxExclusive|Payable|DuePayable)Amount|"
    r"(?:Specified\w*|Legal|Requested)Monetary(?:Summation|Total)\.(?:TaxTotal|LineTotal|LineExtension)Amount"
)
_AMOUNT = re.compile(r"(?<![\d.,])(?:\d{1,3}(?:[.,'’\u00a0\u202f ]\d{3}){1,4}|\d{1,15})[.,]\d\d(?!\d)")
_IBAN = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z\d]{4}){2,7}(?: ?[A-Z\d]{1,3})?\b")
_CODE = re.compile(r"\b[A-Z]{3}\b")
_WITH_DIGIT = re.compile(r"(?<!\S)(?=\S*\d)\S+")
_DAYS = re.compile(
    r"\w*ExchangedDocument\.IssueDateTime\.DateTimeString|IssueDate|DueDate|\S+\.DueDateDateTime\.DateTimeString"
    r"|PaymentMeans(?:\[\d+\])?\.PaymentDueDate"
)


class _Fact(NamedTuple):
    """A value of the invoice: where it stands, as what to look for it, and its like on the printed pages."""

    path: str
    value: str
    wanted: tuple[str | float, ...]
    likes: Callable[[str], Iterator[str]]
    least_like: int = 0
    must_be_printed: bool = True


def disagreements(pages: Sequence[Page]) -> list[ReadingWarning]:
    """A warning for each value that the invoice holds and no printed page shows, with what is printed that is most like
    it. Empty where nothing is printed."""
    for_machines = [page for page in pages if page.engine == "xml"]
    printed = [page for page in pages if page.engine != "xml"]
    text = "\n".join(page.text for page in printed)[:MOST_CHARACTERS]
    if not for_machines or not text.strip():
        return []
    index = DocumentIndex(
        PageWords(page.number, [[w.text, w.x0, w.y0, w.x1, w.y1] for w in page.words]) for page in printed
    )
    known = {day for page in for_machines for line in _LINE.finditer(page.text) if (day := _day(line[2]))}
    facts: dict[tuple[str | float, ...], tuple[Page, _Fact]] = {}
    every = ((page, fact) for page in for_machines for fact in _facts(page.text, known))
    for one in islice(every, _MOST_FACTS):
        facts.setdefault(one[1].wanted, one)  # the sum that is due is most often that of the whole
    found = (
        ReadingWarning(WarningCode.INVOICE_DISAGREES, page.number, 1, _excerpt(fact, like))
        for page, fact in facts.values()
        if not any(index.find(wanted) for wanted in fact.wanted)
        and ((like := _most_like(fact, text)) or fact.must_be_printed)
    )
    return list(islice(found, MOST_TOLD))


def _facts(text: str, known: Collection[str]) -> Iterator[_Fact]:
    """What of the lines of an invoice is compared. `known` are all days in it. A sum of 0 is not: few print it."""
    for line in _LINE.finditer(text):
        path, value = line[1], _ATTRIBUTES.sub("", line[2])
        root, _, last = path.rpartition(".")
        last = last.split("[")[0]
        if path in ("ID", "ExchangedDocument.ID", "HeaderExchangedDocument.ID"):
            yield _Fact(path, value, (value,), partial(_all_of, _WITH_DIGIT), least_like=_LIKE_A_NUMBER)
        elif _SUM.search(path):
            if (amount := _number(value)) not in (None, 0):
                yield _Fact(path, value, (amount, abs(amount)), partial(_nearest, abs(amount)))
        elif last == "IBANID" or (last == "ID" and root.endswith("PayeeFinancialAccount")):
            yield _Fact(path, value, (value,), partial(_all_of, _IBAN))
        elif last in ("InvoiceCurrencyCode", "DocumentCurrencyCode"):
            yield _Fact(path, value, (value,), _currencies, must_be_printed=False)
        elif _DAYS.fullmatch(path) and (day := _day(value)):
            # Of a term of payment many print no day: only one that the invoice does not have speaks against it.
            is_due = "Due" in path
            likes = partial(_days, known if is_due else ())
            yield _Fact(path, day, (day,), likes, must_be_printed=not is_due)


def _excerpt(fact: _Fact, like: str) -> str:
    """The path's end, the value, and what is printed."""
    said = clean(f": {fact.value[:60]}; printed: {like[:60] or 'nothing like it'}")
    return clean(fact.path)[-(MAX_EXCERPT - len(said)) :] + said


def _most_like(fact: _Fact, text: str) -> str:
    """What is printed of the same kind and most like the value; empty if there is none."""
    likes = list(dict.fromkeys(islice(fact.likes(text), _MOST_LIKES)))
    found = process.extractOne(fact.value, likes, scorer=fuzz.ratio, score_cutoff=fact.least_like)
    return found[0] if found else ""


def _all_of(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    return (found[0] for found in pattern.finditer(text))


def _nearest(amount: float, text: str) -> Iterator[str]:
    """The printed amount with two decimals that differs least; empty if there is none."""
    printed = islice(_all_of(_AMOUNT, text), _MOST_LIKES)
    nearest = min(printed, key=lambda one: abs(int(re.sub(r"\D", "", one)) / 100 - amount), default=None)
    return iter([nearest] if nearest else [])


def _currencies(text: str) -> Iterator[str]:
    """The currencies that are printed: codes, then those at numbers, those of a symbol of several last."""
    codes = (codes for word in _CODE.finditer(text) if (codes := units.codes_of(fold(word[0]))))
    at_numbers = sorted(units.currencies_in(fold(text)), key=lambda codes: (len(codes), *codes))
    return (min(each) for each in chain(codes, at_numbers))


def _days(known: Collection[str], text: str) -> Iterator[str]:
    """The printed days that are none of those known, and not before them all."""
    folded, first = fold(text), min(known, default="")
    for found in dates.find_dates(folded):
        days = [date(*day).isoformat() for day in found.days]
        if not any(day in known or day < first for day in days):
            yield folded[found.start : found.end]


def _number(value: str) -> float | None:
    try:
        return float(value) if len(value) < 30 else None
    except ValueError:
        return None


def _day(value: str) -> str | None:
    """A day as the invoice has it (`20221026 (format 102)`, `2022-10-26`), as YYYY-MM-DD."""
    found = re.match(r"(\d{4})-?(\d\d)-?(\d\d)(?!\d)", value)
    try:
        return date(*map(int, found.groups())).isoformat() if found else None
    except ValueError:
        return None
