"""The files attached to a PDF: an electronic invoice becomes pages, the others are reported as not read."""

from __future__ import annotations

from dataclasses import replace

from fieldmark.documents.reading.einvoice import embedded_pages
from fieldmark.documents.reading.pages import MIB, Limits, Page
from fieldmark.documents.reading.pdf import Pdf
from fieldmark.documents.reading.sniff import is_einvoice
from fieldmark.domain.reading_warnings import MAX_EXCERPT, ReadingWarning, WarningCode
from fieldmark.errors import Unreadable

MAX_ATTACHMENTS = 100
MAX_INVOICE_BYTES = 5 * MIB


class Attachments:
    """The files attached to a PDF. `pages` are those of the invoice, after the PDF's own; empty if there is none."""

    def __init__(self, pdf: Pdf, limits: Limits) -> None:
        self.pages: list[Page] = []
        self._warnings: list[ReadingWarning] = []
        unread: list[str] = []
        for name, content in pdf.attachments(MAX_ATTACHMENTS, MAX_INVOICE_BYTES):
            if not self.pages and is_einvoice(content):
                self.pages = _readable_pages(content, pdf.page_count, limits)
                if self.pages:
                    continue
            unread.append(name)
        if pdf.is_dynamic_form:
            self._warnings.append(ReadingWarning(WarningCode.FORM_NOT_READ, 1))
        if unread:
            excerpt = " ".join(unread)[:MAX_EXCERPT]
            self._warnings.append(ReadingWarning(WarningCode.ATTACHMENTS_NOT_READ, 1, len(unread), excerpt))

    def with_warnings(self, page: Page) -> Page:
        """Return the page; the first page of a PDF with a warning of what was not read."""
        return replace(page, warnings=(*page.warnings, *self._warnings)) if page.number == 1 else page


def _readable_pages(invoice: bytes, page_count: int, limits: Limits) -> list[Page]:
    try:
        return embedded_pages(invoice, page_count, limits)
    except Unreadable:
        return []
