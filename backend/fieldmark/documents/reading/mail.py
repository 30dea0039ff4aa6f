"""EML: the headers a reader is shown, the body, and the names of the attachments."""

from __future__ import annotations

from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default

from fieldmark.documents.reading.markup import html_lines
from fieldmark.documents.reading.pages import clean
from fieldmark.documents.reading.pagination import Part, expand_tabs
from fieldmark.documents.reading.text import decode
from fieldmark.domain.reading_warnings import MAX_EXCERPT, ReadingWarning, WarningCode

_SHOWN = ("From", "To", "Cc", "Reply-To", "Date", "Subject")


def mail_parts(data: bytes) -> list[Part]:
    """The lines of a mail: its plain body, or the HTML one where there is no other. Attachments are only named."""
    message = BytesParser(policy=default).parsebytes(data)
    lines = [f"{name}: {' '.join(str(message[name]).split())}" for name in _SHOWN if message[name]]
    lines.append("")
    body = _body(message)
    lines.extend(body)
    attachments = list(message.iter_attachments()) if message.is_multipart() else []
    if not attachments:
        return [Part(lines, body.hidden)]
    lines += ["", *map(_attachment, attachments)]
    names = clean(" ".join((part.get_filename() or part.get_content_type()) for part in attachments[:20]))
    warning = ReadingWarning(WarningCode.ATTACHMENTS_NOT_READ, None, len(attachments), names[:MAX_EXCERPT])
    return [Part(lines, body.hidden, [warning])]


def _body(message: EmailMessage) -> Part:
    plain = message.get_body(("plain",))
    if isinstance(plain, EmailMessage):
        lines = [expand_tabs(line) for line in _content(plain).splitlines()]
        if any(line.strip() for line in lines):
            return Part(lines)
    rich = message.get_body(("html",))
    return html_lines(_content(rich)) if isinstance(rich, EmailMessage) else Part()


def _content(part: EmailMessage) -> str:
    payload = part.get_payload(decode=True)
    return decode(payload, part.get_content_charset()) if isinstance(payload, bytes) else ""


def _attachment(part: EmailMessage) -> str:
    payload = part.get_payload(decode=True)
    size = f", {len(payload):,} bytes" if isinstance(payload, bytes) else ""
    return f"Attachment: {part.get_filename() or 'without a name'} ({part.get_content_type()}{size})"
