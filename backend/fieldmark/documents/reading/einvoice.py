"""Electronic invoices: UBL and CII, alone or inside a PDF (ZUGFeRD, Factur-X), as lines of `path: value`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Any

import lxml.etree  # pyright: ignore[reportMissingTypeStubs]

from fieldmark.documents.reading.pages import Limits, Page, clean
from fieldmark.documents.reading.pagination import Part, paginate
from fieldmark.domain.reading_warnings import MAX_EXCERPT, ReadingWarning, WarningCode
from fieldmark.errors import OverLimit, Unreadable, Unsupported

etree: Any = lxml.etree  # pyright: ignore

# What a printed invoice shows, too: its number and its sums.
_PRINTED_SUMS = frozenset(
    {"GrandTotalAmount", "TaxBasisTotalAmount", "TaxInclusiveAmount", "TaxExclusiveAmount", "PayableAmount"}
)
_NUMBERS = frozenset({"ExchangedDocument.ID", "HeaderExchangedDocument.ID", "ID"})
_AMOUNT = re.compile(r"\d[\d.,'’\u00a0\u202f ]*\d|\d")
MAX_CHARACTERS = 4_000_000
HEADING = "Machine-readable invoice inside the file. Where the printed pages differ from it, the printed pages count."


def einvoice_parts(data: bytes) -> list[Part]:
    """The lines of an electronic invoice that is a file of its own."""
    return [Part(f"{path}: {value}" for path, value in _leaves(data))]


def embedded_pages(data: bytes, printed: Sequence[Page], page_count: int, limits: Limits) -> list[Page]:
    """The pages of an invoice inside a PDF, behind its `page_count` own, with what `printed` pages do not show of it.

    `printed` are all pages of the PDF, or none if they are not known. Raises Unreadable if it cannot be read.
    """
    try:
        leaves = list(_leaves(data))
    except etree.XMLSyntaxError as error:
        raise Unreadable("The invoice inside the PDF is damaged.") from error
    warnings: list[ReadingWarning] = []
    if printed and (missing := list(_not_printed(leaves, printed))):
        excerpt = clean("; ".join(missing))[:MAX_EXCERPT]
        warnings.append(ReadingWarning(WarningCode.INVOICE_DISAGREES, None, len(missing), excerpt))
    part = Part([HEADING, "", *(f"{path}: {value}" for path, value in leaves)], (), warnings)
    pages = paginate([part], "xml", replace(limits, max_pages=max(1, limits.max_pages - page_count)))
    return [_behind(page, page_count) for page in pages]


def _behind(page: Page, page_count: int) -> Page:
    """The page with the number that it has behind the PDF's own, marked as one for machines."""
    number = page.number + page_count
    told = [ReadingWarning(WarningCode.MACHINE_READABLE, number), *(replace(one, page=number) for one in page.warnings)]
    return replace(page, number=number, warnings=tuple(told))


def _leaves(data: bytes) -> Iterator[tuple[str, str]]:
    if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
        raise Unsupported("The XML declares entities, which invoices never do.")
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    characters = 0
    for path, value in _below(etree.fromstring(data, parser), ""):
        characters += len(path) + len(value)
        if characters > MAX_CHARACTERS:  # paths grow with the depth, and each leaf repeats its own
            raise OverLimit(f"The XML invoice fills more than {MAX_CHARACTERS:,} characters.")
        yield path, value


def _below(node: Any, path: str) -> Iterator[tuple[str, str]]:
    """The path and value of each element without elements. Elements of one name are counted from 0."""
    children = [child for child in node if isinstance(child.tag, str)]
    if not children:
        value = " ".join((node.text or "").split())
        said = " ".join(f"{etree.QName(name).localname} {given}" for name, given in node.attrib.items())
        if value:
            yield path, f"{value} ({said})" if said else value
        return
    times = Counter(child.tag for child in children)
    seen: Counter[str] = Counter()
    for child in children:
        name = str(etree.QName(child).localname)
        index = f"[{seen[child.tag]}]" if times[child.tag] > 1 else ""
        seen[child.tag] += 1
        yield from _below(child, f"{path}.{name}{index}" if path else f"{name}{index}")


def _not_printed(leaves: Sequence[tuple[str, str]], printed: Sequence[Page]) -> Iterator[str]:
    """The number and the sums of an invoice that stand on none of the printed pages."""
    text = "\n".join(page.text for page in printed)
    together = "".join(text.split()).casefold()
    amounts = {amount for match in _AMOUNT.finditer(text) for amount in _amounts(match[0])}
    for path, value in leaves:
        value = value.split(" (")[0]
        if path in _NUMBERS and "".join(value.split()).casefold() not in together:
            yield f"{path} {value}"
        elif path.rsplit(".", 1)[-1].split("[")[0] in _PRINTED_SUMS:
            amount = _decimal(value)
            if amount and abs(amount) not in amounts:
                yield f"{path.rsplit('.', 1)[-1]} {value}"


def _amounts(printed: str) -> Iterator[Decimal]:
    """What a printed number may be, whichever mark is its decimal point: `1.250` is 1250 or 1.25."""
    for point, other in ((".", ","), (",", ".")):
        plain = re.sub(r"['’\s]", "", printed).replace(other, "").replace(point, ".")
        if (amount := _decimal(plain)) is not None:
            yield amount


def _decimal(text: str) -> Decimal | None:
    try:
        return Decimal(text[:40])
    except InvalidOperation:
        return None
