"""What is attached to a PDF: an electronic invoice becomes pages, and of the rest it is told that it was not read."""

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
    """The files attached to a PDF."""

    def __init__(self, pdf: Pdf, limits: Limits) -> None:
        self._limits = limits
        self._page_count = pdf.page_count
        self._is_dynamic_form = pdf.is_dynamic_form
        self._invoice = b""
        self._unread: list[str] = []
        for name, content in pdf.attachments(MAX_ATTACHMENTS, MAX_INVOICE_BYTES):
            if not self._invoice and is_einvoice(content) and self._is_readable(content):
                self._invoice = content
            else:
                self._unread.append(name)

    def _is_readable(self, content: bytes) -> bool:
        try:
            return bool(embedded_pages(content, self._page_count, self._limits))
        except Unreadable:
            return False

    def pages(self) -> list[Page]:
        """The pages of the invoice, behind the PDF's own; none if there is no invoice."""
        return embedded_pages(self._invoice, self._page_count, self._limits) if self._invoice else []

    def told_on(self, page: Page) -> Page:
        """The page; the first one with a warning of what was not read."""
        if page.number != 1:
            return page
        told: list[ReadingWarning] = []
        if self._is_dynamic_form:
            told.append(ReadingWarning(WarningCode.FORM_NOT_READ, 1))
        if self._unread:
            excerpt = " ".join(self._unread)[:MAX_EXCERPT]
            told.append(ReadingWarning(WarningCode.ATTACHMENTS_NOT_READ, 1, len(self._unread), excerpt))
        return replace(page, warnings=(*page.warnings, *told))
