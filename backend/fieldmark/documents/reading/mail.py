"""EML and MSG: the headers that an email program shows, the body, and the attachments."""

from __future__ import annotations

import base64
import importlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from email.errors import CloseBoundaryNotFoundDefect
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import EmailPolicy, default
from functools import partial
from typing import Any, NamedTuple

from oxmsg import Message
from oxmsg.attachment import Attachment

from fieldmark.documents.reading.enclosed import Container, Enclosed, shown_name
from fieldmark.documents.reading.markup import html_lines
from fieldmark.documents.reading.pagination import Part, expand_tabs
from fieldmark.documents.reading.pictures import Picture
from fieldmark.documents.reading.text import decode, encoding_warnings, has_more_text
from fieldmark.domain.reading_warnings import ReadingWarning, WarningCode, skipped_files_warning
from fieldmark.errors import OverLimit, WrongType

importlib.import_module("email.generator")  # the email package imports it late, after lockdown

_CONTENT_ID = 0x3712  # the MSG property with a picture's content id
SMALL_PICTURE = 64 * 1024
"""Bytes. A smaller picture in the text is a logo or signature. A larger one may be a photograph of a receipt."""

_UNCHANGED = default.clone(refold_source="none")
_MAILBOX_LINE = re.compile(rb"(?:\A|(?<=\n\n)|(?<=\n\r\n))From \S+ [^\r\n]{10,100}\r?\n(?=[A-Za-z][A-Za-z0-9-]{0,60}:)")
_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/]")
_MEDIA_TYPE = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+")
# Control codes of Latin-1 to the characters of Windows-1252: `€` is often declared as Latin-1.
_CONTROLS = {code: bytes([code]).decode("cp1252", "ignore") for code in range(0x80, 0xA0)}
_SHOWN_HEADERS = ("From", "To", "Cc", "Reply-To", "Date", "Subject")


class _Policy(EmailPolicy):
    """Python's email policy, tolerating headers that its parser fails on."""

    def header_fetch_parse(self, name: str, value: str) -> Any:
        try:
            return super().header_fetch_parse(name, value)
        except Exception:  # noqa: BLE001 — the parser has bugs of many kinds
            return " ".join(value.split())


class MailFile(NamedTuple):
    """A file in an email. `content_id` is the name by which the email's HTML refers to it."""

    name: str
    media_type: str
    content: bytes
    content_id: str


def read_mail(data: bytes) -> Container:
    """Read an EML file: its plain text, its HTML if that has more text, and its files. A mailbox encloses its
    emails."""
    emails = [email for email in _MAILBOX_LINE.split(data) if email.strip()] if data.startswith(b"From ") else []
    if len(emails) > 1:
        files = [MailFile(f"{number}.eml", "message/rfc822", email, "") for number, email in enumerate(emails, 1)]
        enclosed = [Enclosed(file.name, partial(_unpack, file)) for file in files]
        return Container([Part([f"Mailbox with {len(emails):,} emails"])], enclosed)
    policy: Any = _Policy()  # returns an EmailMessage, which its type does not declare
    message: EmailMessage = BytesParser(policy=policy).parsebytes(data)
    found = _find_texts_and_files(message)
    shown = "".join(
        _content(part)
        for part in message.walk()
        if _media_kind(part) == "text/html" and part.get_content_disposition() != "attachment"
    )
    headers = {name: message[name] for name in _SHOWN_HEADERS}
    body = _body(found.texts)
    body.pictures = html_lines(shown).pictures if shown.strip() else []
    body.warnings += _truncation_warnings(message)
    return _container(headers, body, shown, [_file(part) for part in found.files])


def read_msg(data: bytes) -> Container:
    """Read an Outlook MSG file: its plain text, its HTML if that has more text, and its files."""
    message = Message.load(data)
    plain, html = message.body or "", message.html_body or ""
    if not message.subject and not plain and not html and not message.sender:
        raise WrongType("The file is not an Outlook message: it has neither sender, subject nor text.")
    shown = html_lines(html) if html.strip() else Part()
    body = Part(map(expand_tabs, plain.splitlines()), (), (), shown.pictures)
    if has_more_text(shown, body):
        body = Part([*body, *shown], shown.hidden, (), shown.pictures, shown.struck) if plain.strip() else shown
    return _container(_headers(message), body, html, [_attachment(attachment) for attachment in message.attachments])


def _container(headers: Mapping[str, object], body: Part, html: str, files: Sequence[MailFile]) -> Container:
    """Return the text of an email with the names of its files, and the files except the small pictures in its HTML."""
    shown_headers = ((name, str(value).translate(_CONTROLS)) for name, value in headers.items() if value)
    lines = [f"{name}: {' '.join(value.split())}" for name, value in shown_headers]
    pictures = [file for file in files if _is_small_picture(file, html)]
    attached = [file for file in files if not _is_small_picture(file, html)]
    named = [_file_line("Attachment", file) for file in attached] + [_file_line("Picture", file) for file in pictures]
    lines += ["", *body, *(["", *named] if named else [])]
    shown = [
        *body.pictures,
        *(Picture(file.content_id, partial(_unpack, file, SMALL_PICTURE)) for file in pictures if file.content),
    ]
    return Container(
        [Part(lines, body.hidden, body.warnings, shown, body.struck)],
        [Enclosed(file.name, partial(_unpack, file)) for file in attached],
    )


@dataclass(slots=True)
class _TextsAndFiles:
    texts: list[EmailMessage] = field(default_factory=list[EmailMessage])
    files: list[EmailMessage] = field(default_factory=list[EmailMessage])


def _find_texts_and_files(part: EmailMessage) -> _TextsAndFiles:
    kind = _media_kind(part)
    if part.get_content_maintype() == "multipart" and part.is_multipart():
        inner = [_find_texts_and_files(each) for each in part.iter_parts() if isinstance(each, EmailMessage)]
        files = [file for each in inner for file in each.files]
        if kind != "multipart/alternative":
            return _TextsAndFiles([text for each in inner for text in each.texts], files)
        non_empty = [each.texts for each in inner if _has_text(each.texts)]
        plain = [texts for texts in non_empty if all(_media_kind(text) == "text/plain" for text in texts)]
        read = [*plain, *non_empty, []][0]
        # Email programs show the last alternative. The first may only say "Your program shows no HTML".
        if non_empty and non_empty[-1] is not read and has_more_text(_body(non_empty[-1]), _body(read)):
            read = [*read, *non_empty[-1]]
        return _TextsAndFiles(read, files)
    is_text = kind in ("text/plain", "text/html")
    if is_text and part.get_content_disposition() != "attachment" and not part.get_filename():
        return _TextsAndFiles([part])
    return _TextsAndFiles(files=[part])


def _has_text(texts: list[EmailMessage]) -> bool:
    return any(_content(text).strip() for text in texts)


def _body(texts: list[EmailMessage]) -> Part:
    body = Part()
    for text in texts:
        content = _content(text)
        is_html = _media_kind(text) == "text/html"
        part = html_lines(content) if is_html else Part(map(expand_tabs, content.splitlines()))
        body.extend(part)
        body.hidden += part.hidden
        body.struck += part.struck
        body.warnings += encoding_warnings(_payload(text), text.get_content_charset(), part)
    body.warnings = list(dict.fromkeys(body.warnings))
    return body


def _content(part: EmailMessage) -> str:
    return decode(_payload(part), part.get_content_charset())


def _payload(part: EmailMessage) -> bytes:
    """Return the content of a part. Truncated base64 is decoded as far as possible."""
    if (letters := _base64(part)) is not None:
        whole = letters[: len(letters) - (len(letters) % 4 == 1)]
        return base64.b64decode(whole + "=" * (-len(whole) % 4))
    payload = part.get_payload(decode=True)
    return payload if isinstance(payload, bytes) else b""


def _base64(part: EmailMessage) -> str | None:
    written: Any = None if part.is_multipart() else part.get_payload()
    is_base64 = str(part.get("Content-Transfer-Encoding", "")).strip().lower() == "base64"
    return _NOT_BASE64.sub("", written.partition("=")[0]) if is_base64 and isinstance(written, str) else None


def _truncation_warnings(message: EmailMessage) -> list[ReadingWarning]:
    """Return the warning that an email, or a text or file in it, is truncated."""
    names: list[str] = []
    for part in message.walk():
        letters = _base64(part)
        is_cut = letters is not None and len(letters) % 4 and "=" not in str(part.get_payload())
        if is_cut or any(isinstance(defect, CloseBoundaryNotFoundDefect) for defect in part.defects):
            names.append(part.get_filename() or _media_kind(part))
    return [skipped_files_warning(WarningCode.CUT_OFF, names)] if names else []


def _media_kind(part: EmailMessage) -> str:
    """Return the media type of a part; `text/plain` if it is malformed."""
    kind = (part.get_content_type().split() or [""])[0]
    is_known = _MEDIA_TYPE.fullmatch(kind) and (part.is_multipart() or not kind.startswith("multipart/"))
    return kind if is_known else "text/plain"


def _is_small_picture(file: MailFile, html: str) -> bool:
    is_shown = bool(file.content_id) and f"cid:{file.content_id}" in html
    may_be_picture = file.media_type.startswith(("image/", "application/octet-stream"))  # Outlook declares few types
    return is_shown and may_be_picture and len(file.content) <= SMALL_PICTURE


def _unpack(file: MailFile, max_bytes: int) -> bytes:
    if len(file.content) > max_bytes:
        raise OverLimit
    return file.content


def _file_line(kind: str, file: MailFile) -> str:
    return f"{kind}: {shown_name(file.name)} ({file.media_type}, {len(file.content):,} bytes)"


def _file(part: EmailMessage) -> MailFile:
    content_id = str(part["Content-ID"] or "").strip().strip("<>")
    return MailFile(_name(part), _media_kind(part), _bytes(part), content_id)


def _bytes(part: EmailMessage) -> bytes:
    if part.is_multipart():  # a forwarded email
        try:
            return b"".join(each.as_bytes(policy=_UNCHANGED) for each in part.iter_parts())
        except (ValueError, LookupError, TypeError, AttributeError):  # headers that cannot be serialised
            return b""
    return _payload(part)


def _name(part: EmailMessage) -> str:
    if name := part.get_filename():
        return name
    if part.get_content_type() == "message/rfc822":
        inner = next(part.iter_parts(), None) if part.is_multipart() else None
        return f"{(inner['Subject'] if inner is not None else None) or 'mail'}.eml".replace("/", "_")
    return f"attachment.{_media_kind(part).partition('/')[2]}"


def _headers(message: Message) -> dict[str, object]:
    sent = message.message_headers
    recipients = ", ".join(f"{recipient.name} <{recipient.email_address}>" for recipient in message.recipients)
    date = message.sent_date.isoformat(" ", "seconds") if message.sent_date else None
    return {
        "From": message.sender,
        "To": sent.get("To") or recipients,
        "Cc": sent.get("Cc"),
        "Date": sent.get("Date") or date,
        "Subject": message.subject,
    }


def _attachment(attachment: Attachment) -> MailFile:
    media_type = attachment.mime_type or "application/octet-stream"
    content_id = attachment.properties.str_prop_value(_CONTENT_ID) or ""
    return MailFile(attachment.file_name or "attachment", media_type, attachment.file_bytes or b"", content_id)
