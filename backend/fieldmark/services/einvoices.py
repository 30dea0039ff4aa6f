"""Compares an embedded e-invoice (XML) with the printed pages: number, sums, dates, currency and account."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import date
from functools import partial
from itertools import chain, islice
from typing import Final, NamedTuple

from rapidfuzz import fuzz, process

from pagewords.pages import Page, clean
from pagewords.reading_warnings import MAX_EXCERPT, ReadingWarning, WarningCode
from valuegrounding import DocumentIndex, dates, units
from valuegrounding.folding import fold

MAX_MISMATCHES: Final = 10
MAX_CHARACTERS: Final = 1_000_000  # of the printed pages in which similar text is searched
_MAX_FACTS: Final = 200
_MAX_CANDIDATES: Final = 1000
_MIN_NUMBER_SIMILARITY: Final = 50  # of 100: any word with a digit could be the invoice's number

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
    """A value of the e-invoice. `values` are the forms to search for; `candidates` finds printed text of the same kind;
    `min_similarity` is in percent."""

    path: str
    value: str
    values: tuple[str | float, ...]
    candidates: Callable[[str], Iterator[str]]
    min_similarity: int = 0
    must_be_printed: bool = True


def find_mismatches(pages: Sequence[Page]) -> list[ReadingWarning]:
    """Return a warning for each value of the e-invoice that no printed page contains, with the most similar printed
    text. Empty if no page has printed text."""
    xml_pages = [page for page in pages if page.is_xml]
    printed = [page for page in pages if not page.is_xml]
    text = "\n".join(page.text for page in printed)[:MAX_CHARACTERS]
    if not xml_pages or not text.strip():
        return []
    index = DocumentIndex(printed)
    known = {day for page in xml_pages for line in _LINE.finditer(page.text) if (day := _day(line[2]))}
    facts: dict[tuple[str | float, ...], tuple[Page, _Fact]] = {}
    facts_by_page = ((page, fact) for page in xml_pages for fact in _facts(page.text, known))
    for one in islice(facts_by_page, _MAX_FACTS):
        facts.setdefault(one[1].values, one)  # the amount due usually equals the grand total
    found = (
        ReadingWarning(WarningCode.INVOICE_DISAGREES, page.number, 1, _excerpt(fact, similar))
        for page, fact in facts.values()
        if not any(index.find(value) for value in fact.values)
        and ((similar := _most_similar(fact, text)) or fact.must_be_printed)
    )
    return list(islice(found, MAX_MISMATCHES))


def _facts(text: str, known: Collection[str]) -> Iterator[_Fact]:
    """Yield the values of an e-invoice that are compared. `known` are all its dates. Sums of 0 are skipped because few
    documents print them."""
    for line in _LINE.finditer(text):
        path, value = line[1], _ATTRIBUTES.sub("", line[2])
        root, _, last = path.rpartition(".")
        last = last.split("[")[0]
        if path in ("ID", "ExchangedDocument.ID", "HeaderExchangedDocument.ID"):
            yield _Fact(path, value, (value,), partial(_matches, _WITH_DIGIT), _MIN_NUMBER_SIMILARITY)
        elif _SUM.search(path):
            if (amount := _number(value)) not in (None, 0):
                yield _Fact(path, value, (amount, abs(amount)), partial(_nearest_amount, abs(amount)))
        elif last == "IBANID" or (last == "ID" and root.endswith("PayeeFinancialAccount")):
            yield _Fact(path, value, (value,), partial(_matches, _IBAN))
        elif last in ("InvoiceCurrencyCode", "DocumentCurrencyCode"):
            yield _Fact(path, value, (value,), _currencies, must_be_printed=False)
        elif _DAYS.fullmatch(path) and (day := _day(value)):
            # Many documents print payment terms without a date, so a due date is a mismatch only if another one is
            # printed.
            is_due = "Due" in path
            candidates = partial(_unknown_days, known if is_due else ())
            yield _Fact(path, day, (day,), candidates, must_be_printed=not is_due)


def _excerpt(fact: _Fact, most_similar: str) -> str:
    """Return the end of the value's path, the value and the most similar printed one: `Sum.Amount: 12.5 ≠ 12,6`."""
    values = clean(f": {fact.value[:60]} ≠ {most_similar[:60] or '–'}")
    return clean(".".join(fact.path.split(".")[-2:]))[-(MAX_EXCERPT - len(values)) :] + values


def _most_similar(fact: _Fact, text: str) -> str:
    candidates = list(dict.fromkeys(islice(fact.candidates(text), _MAX_CANDIDATES)))
    found = process.extractOne(fact.value, candidates, scorer=fuzz.ratio, score_cutoff=fact.min_similarity)
    return found[0] if found else ""


def _matches(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    return (found[0] for found in pattern.finditer(text))


def _nearest_amount(amount: float, text: str) -> Iterator[str]:
    printed = islice(_matches(_AMOUNT, text), _MAX_CANDIDATES)
    nearest = min(printed, key=lambda one: abs(int(re.sub(r"\D", "", one)) / 100 - amount), default=None)
    return iter([nearest] if nearest else [])


def _currencies(text: str) -> Iterator[str]:
    """Yield the printed currencies: codes first, then those next to numbers, ambiguous symbols last."""
    codes = (codes for word in _CODE.finditer(text) if (codes := units.codes_of(fold(word[0]))))
    at_numbers = sorted(units.currencies_in(fold(text)), key=lambda codes: (len(codes), *codes))
    return (min(each) for each in chain(codes, at_numbers))


def _unknown_days(known: Collection[str], text: str) -> Iterator[str]:
    """Yield the printed dates that are not known and not before all known dates."""
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
    """Return a date of the e-invoice (`20221026 (format 102)`, `2022-10-26`) as YYYY-MM-DD. None if it is invalid."""
    found = re.match(r"(\d{4})-?(\d\d)-?(\d\d)(?!\d)", value)
    try:
        return date(*map(int, found.groups())).isoformat() if found else None
    except ValueError:
        return None
