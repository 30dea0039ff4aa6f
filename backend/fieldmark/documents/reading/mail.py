"""EML: the headers a reader is shown, the body, and the files attached to it."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default
from functools import partial

from fieldmark.documents.reading.enclosed import Container, Enclosed, shown_name
from fieldmark.documents.reading.markup import html_lines
from fieldmark.documents.reading.pagination import Part, expand_tabs
from fieldmark.documents.reading.text import decode, says_more
from fieldmark.errors import OverLimit

importlib.import_module("email.generator")  # email does when a mail is written, which is after lockdown

SMALL_PICTURE = 64 * 1024
"""A smaller picture that stands in the text is a logo or a signature. A larger one may be a photograph of a receipt."""

_AS_IT_CAME = default.clone(refold_source="none")
_SHOWN = ("From", "To", "Cc", "Reply-To", "Date", "Subject")


def read_mail(data: bytes) -> Container:
    """The mail: its plain text, and its HTML where that says more; the names of its attachments; and these."""
    message = BytesParser(policy=default).parsebytes(data)
    lines = [f"{name}: {' '.join(str(message[name]).split())}" for name in _SHOWN if message[name]]
    lines.append("")
    found = _found(message)
    body = _body(found.texts)
    lines.extend(body)
    shown = "".join(_content(part) for part in message.walk() if part.get_content_type() == "text/html")
    attached: list[EmailMessage] = []
    pictures: list[EmailMessage] = []
    for part in found.files:
        (pictures if _is_small_picture(part, shown) else attached).append(part)
    named = [*(_named("Attachment", part) for part in attached), *(_named("Picture", part) for part in pictures)]
    lines += ["", *named] if named else []
    return Container([Part(lines, body.hidden)], _enclosed(attached))


@dataclass(slots=True)
class _Found:
    """What of a mail is its text, and what is attached."""

    texts: list[EmailMessage] = field(default_factory=list[EmailMessage])
    files: list[EmailMessage] = field(default_factory=list[EmailMessage])


def _found(part: EmailMessage) -> _Found:
    kind = part.get_content_type()
    if part.get_content_maintype() == "multipart" and part.is_multipart():
        inner = [_found(one) for one in part.iter_parts() if isinstance(one, EmailMessage)]
        files = [file for one in inner for file in one.files]
        if kind != "multipart/alternative":
            return _Found([text for one in inner for text in one.texts], files)
        said = [one.texts for one in inner if _says_something(one.texts)]
        plain = [texts for texts in said if all(text.get_content_type() == "text/plain" for text in texts)]
        read = [*plain, *said, []][0]
        # What a mail program shows is the last. The first may be "Your program shows no HTML" and no more.
        if said and said[-1] is not read and says_more(_body(said[-1]), _body(read)):
            read = [*read, *said[-1]]
        return _Found(read, files)
    is_text = kind in ("text/plain", "text/html")
    if is_text and part.get_content_disposition() != "attachment" and not part.get_filename():
        return _Found([part])
    return _Found(files=[part])


def _says_something(texts: list[EmailMessage]) -> bool:
    return any(_content(text).strip() for text in texts)


def _body(texts: list[EmailMessage]) -> Part:
    body = Part()
    for text in texts:
        if text.get_content_type() == "text/html":
            rich = html_lines(_content(text))
            body.extend(rich)
            body.hidden += rich.hidden
        else:
            body.extend(expand_tabs(line) for line in _content(text).splitlines())
    return body


def _content(part: EmailMessage) -> str:
    payload = part.get_payload(decode=True)
    return decode(payload, part.get_content_charset()) if isinstance(payload, bytes) else ""


def _is_small_picture(part: EmailMessage, shown: str) -> bool:
    """Whether it is a picture that stands in the mail's HTML, and no larger than a logo."""
    content_id = str(part["Content-ID"] or "").strip().strip("<>")
    is_shown = bool(content_id) and f"cid:{content_id}" in shown
    return is_shown and part.get_content_maintype() == "image" and len(_bytes(part)) <= SMALL_PICTURE


def _enclosed(attached: list[EmailMessage]) -> Iterator[Enclosed]:
    for part in attached:
        yield Enclosed(_name(part), partial(_unpack, part))


def _unpack(part: EmailMessage, most: int) -> bytes:
    content = _bytes(part)
    if len(content) > most:
        raise OverLimit
    return content


def _bytes(part: EmailMessage) -> bytes:
    if part.is_multipart():  # a mail that was forwarded as a whole
        try:
            return b"".join(one.as_bytes(policy=_AS_IT_CAME) for one in part.iter_parts())
        except (ValueError, LookupError, TypeError, AttributeError):  # headers that cannot be written again
            return b""
    payload = part.get_payload(decode=True)
    return payload if isinstance(payload, bytes) else b""


def _name(part: EmailMessage) -> str:
    if name := part.get_filename():
        return name
    if part.get_content_type() == "message/rfc822":
        inner = next(part.iter_parts(), None) if part.is_multipart() else None
        return f"{(inner['Subject'] if inner is not None else None) or 'mail'}.eml".replace("/", "_")
    return f"attachment.{part.get_content_subtype()}"


def _named(what: str, part: EmailMessage) -> str:
    return f"{what}: {shown_name(_name(part))} ({part.get_content_type()}, {len(_bytes(part)):,} bytes)"
