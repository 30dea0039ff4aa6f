"""EML and MSG: the headers that an email program shows, the body, and the attachments."""

from __future__ import annotations

import base64
import importlib
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from email.errors import CloseBoundaryNotFoundDefect
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import EmailPolicy, default
from email.utils import parseaddr
from functools import partial
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from olefile import OleFileIO
from oxmsg import Message
from oxmsg.attachment import Attachment
from oxmsg.domain.encodings import encoding_from_codepage
from oxmsg.storage import Storage, Stream

from pagewords.answers import MailParts
from pagewords.enclosed import Container, Enclosed, shown_name
from pagewords.errors import OverLimit, WrongType
from pagewords.markup import html_lines
from pagewords.pages import clean
from pagewords.pagination import Part, expand_tabs
from pagewords.pictures import Picture
from pagewords.reading_warnings import MAX_ENCLOSED, ReadingWarning, WarningCode, skipped_files_warning
from pagewords.signed import signed_content
from pagewords.sniff import SUFFIXES
from pagewords.text import decode, encoding_warnings, has_more_text, has_other_numbers

importlib.import_module("email.generator")  # the email package imports it late, after lockdown

_CONTENT_ID = 0x3712  # the MSG property with a picture's content id
_MESSAGE_CODE_PAGE, _HTML_CODE_PAGE, _HTML = 0x3FFD, 0x3FDE, 0x1013
_BINARY, _TEXT_8_BIT, _TEXT_UNICODE = 0x0102, 0x001E, 0x001F
_PROPERTIES, _EMBEDDED_MESSAGE = "__properties_version1.0", "__substg1.0_3701000D"
_MSG_HEADER = 32  # bytes before the properties of a message; 24 if it is in another message
_PROPERTY = struct.Struct("<HH4xI4x")
SMALL_PICTURE = 64 * 1024
"""Bytes. A smaller picture in the text is a logo or signature. A larger one may be a photograph of a receipt."""

_UNCHANGED = default.clone(refold_source="none")
_MAILBOX_LINE = re.compile(rb"(?:\A|(?<=\n\n)|(?<=\n\r\n))From \S+ [^\r\n]{10,100}\r?\n(?=[A-Za-z][A-Za-z0-9-]{0,60}:)")
_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/]")
_MEDIA_TYPE = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+")
# Control codes of Latin-1 to the characters of Windows-1252: `€` is often declared as Latin-1.
_CONTROLS = {code: bytes([code]).decode("cp1252", "ignore") for code in range(0x80, 0xA0)}
_SIGNED = ("application/pkcs7-mime", "application/x-pkcs7-mime")
_SIGNATURES = ("application/pkcs7-signature", "application/x-pkcs7-signature")
_DIFFER = ReadingWarning(WarningCode.TEXTS_DIFFER, None)
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
    headers = {name: message[name] for name in _SHOWN_HEADERS}
    if _media_kind(message) in _SIGNED:
        message = BytesParser(policy=policy).parsebytes(signed_content(_payload(message)))
    found = _find_texts_and_files(message)
    shown = "".join(
        _content(part)
        for part in message.walk()
        if _media_kind(part) == "text/html" and part.get_content_disposition() != "attachment"
    )
    body = _body(found.texts)
    body.pictures = html_lines(shown).pictures if shown.strip() else []
    body.warnings += _truncation_warnings(message)
    if found.differ:
        body.warnings.append(_DIFFER)
    return _container(headers, body, shown, [_file(part) for part in found.files])


def mail_parts(data: bytes) -> tuple[MailParts, list[bytes]]:
    """Return who sent an EML file, its subject, and the attachments that can be documents, also those of emails in it.
    Pictures in its text are left out."""
    policy: Any = _Policy()
    message: EmailMessage = BytesParser(policy=policy).parsebytes(data)
    files: list[tuple[str, bytes]] = []
    for part in message.walk():
        name = shown_name(part.get_filename() or "")
        is_inside = part.get_content_disposition() == "inline" or part["Content-ID"] is not None
        kind = part.get_content_maintype()
        is_left_out = kind == "multipart" or (is_inside and kind == "image")
        if is_left_out or PurePosixPath(name).suffix.lower() not in SUFFIXES:
            continue
        if content := _bytes(part):
            files.append((name, content))
        if len(files) > MAX_ENCLOSED:
            files = []
            break
    sender, subject, auto_submitted = (
        " ".join(clean(str(message[header] or "")).split()) for header in ("From", "Subject", "Auto-Submitted")
    )
    parts = MailParts(
        sender=parseaddr(sender)[1][:300],
        subject=subject[:200],
        auto_submitted=auto_submitted.partition(";")[0].strip().lower()[:50],
        file_names=[name for name, _ in files],
    )
    return parts, [content for _, content in files]


def read_msg(data: bytes) -> Container:
    """Read an Outlook MSG file: its plain text, its HTML if that has more text, and its files."""
    file: Any = OleFileIO(data)
    return read_msg_storage(Storage.from_ole(file))  # pyright: ignore[reportUnknownMemberType]


def read_msg_storage(storage: Storage) -> Container:
    """Read the opened tree of an Outlook MSG file."""
    message = Message(_with_unicode_texts(storage, _MSG_HEADER))
    plain, html = message.body or "", message.html_body or ""
    if not message.subject and not plain and not html and not message.sender:
        raise WrongType("The file is not an Outlook message: it has neither sender, subject nor text.")
    shown = html_lines(html) if html.strip() else Part()
    body = Part(map(expand_tabs, plain.splitlines()), (), (), shown.pictures)
    warnings = [_DIFFER] if shown and has_other_numbers(body, shown) else []
    if has_more_text(shown, body):
        lines = [*body, *shown] if plain.strip() else shown
        body = Part(lines, shown.hidden, (), shown.pictures, shown.struck, shown.doubtful)
    body.warnings = [*body.warnings, *warnings]
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
        [Part(lines, body.hidden, body.warnings, shown, body.struck, body.doubtful)],
        [Enclosed(file.name, partial(_unpack, file)) for file in attached if file.media_type not in _SIGNATURES],
    )


@dataclass(slots=True)
class _TextsAndFiles:
    texts: list[EmailMessage] = field(default_factory=list[EmailMessage])
    files: list[EmailMessage] = field(default_factory=list[EmailMessage])
    differ: bool = False  # texts of which an email program shows only one


def _find_texts_and_files(part: EmailMessage) -> _TextsAndFiles:
    kind = _media_kind(part)
    if part.get_content_maintype() == "multipart" and part.is_multipart():
        inner = [_find_texts_and_files(each) for each in part.iter_parts() if isinstance(each, EmailMessage)]
        files = [file for each in inner for file in each.files]
        differ = any(each.differ for each in inner)
        if kind != "multipart/alternative":
            return _TextsAndFiles([text for each in inner for text in each.texts], files, differ)
        non_empty = [each.texts for each in inner if _has_text(each.texts)]
        plain = [texts for texts in non_empty if all(_media_kind(text) == "text/plain" for text in texts)]
        read = [*plain, *non_empty, []][0]
        # Email programs show the last alternative. The first may only say "Your program shows no HTML".
        if non_empty and non_empty[-1] is not read:
            unseen, shown = _body(read), _body(non_empty[-1])
            differ = differ or has_other_numbers(unseen, shown)
            if has_more_text(shown, unseen):
                read = [*read, *non_empty[-1]]
        return _TextsAndFiles(read, files, differ)
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
        body.add_words_of(part)
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
    date = message.sent_date
    is_sent = date is not None and date.year > 1601  # the first year of Outlook's calendar
    return {
        "From": message.sender,
        "To": sent.get("To") or recipients,
        "Cc": sent.get("Cc"),
        "Date": sent.get("Date") or (date.isoformat(" ", "seconds") if date and is_sent else None),
        "Subject": message.subject,
    }


def _attachment(attachment: Attachment) -> MailFile:
    media_type = attachment.mime_type or "application/octet-stream"
    content_id = attachment.properties.str_prop_value(_CONTENT_ID) or ""
    storage: Any = attachment._storage  # pyright: ignore[reportPrivateUsage]
    if inner := next((one for one in storage.storages if one.name == _EMBEDDED_MESSAGE), None):
        message = Message(inner)
        name = f"{message.subject or 'mail'}.eml".replace("/", "_")
        return MailFile(name, "message/rfc822", bytes(_as_email(message)), content_id)
    return MailFile(attachment.file_name or "attachment", media_type, attachment.file_bytes or b"", content_id)


def _as_email(message: Message) -> EmailMessage:
    """Return an Outlook message that is inside another one, which has no file of its own."""
    email = EmailMessage(_UNCHANGED)
    for name, value in _headers(message).items():
        if value:
            email[name] = " ".join(str(value).split())
    email.set_content(message.body or "")
    if message.html_body:
        email.add_alternative(message.html_body, subtype="html")
    for file in map(_attachment, message.attachments):
        kind = file.media_type if _MEDIA_TYPE.fullmatch(file.media_type) else "application/octet-stream"
        if kind == "message/rfc822":
            email.add_attachment(BytesParser(policy=_UNCHANGED).parsebytes(file.content), filename=file.name)
        else:
            main, _, sub = kind.partition("/")
            cid = f"<{file.content_id}>" if file.content_id else None
            email.add_attachment(file.content, main, sub, filename=file.name, cid=cid)
    return email


def _with_unicode_texts(storage: Storage, header: int, code_page: int = 0) -> Storage:
    """Return the storage of a message with its texts in Unicode. Attachments and recipients have its code page. oxmsg
    knows few code pages, and fails at one letter that is not in one."""
    contents = {stream.name: stream.bytes_ for stream in storage.streams}
    table = contents.pop(_PROPERTIES, b"")
    rows = [table[at : at + 16] for at in range(header, len(table) - 15, 16)]
    numbers = {identifier: value for _, identifier, value in map(_PROPERTY.unpack, rows)}
    code_page = numbers.get(_MESSAGE_CODE_PAGE, code_page)
    html_code_page = numbers.get(_HTML_CODE_PAGE, code_page)
    for at, row in enumerate(rows):
        kind, identifier, _ = _PROPERTY.unpack(row)
        name = f"__substg1.0_{identifier:04X}{kind:04X}"
        if identifier in (_MESSAGE_CODE_PAGE, _HTML_CODE_PAGE):
            rows[at] = row[:8] + (65001).to_bytes(4, "little") + row[12:]  # UTF-8
        elif kind == _TEXT_8_BIT and name in contents:
            text = _decode_by_code_pages(contents.pop(name), code_page, html_code_page)
            contents[f"{name[:-4]}{_TEXT_UNICODE:04X}"] = text.encode("utf-16-le", "replace")
            rows[at] = _TEXT_UNICODE.to_bytes(2, "little") + row[2:]
        elif (kind, identifier) == (_BINARY, _HTML) and name in contents:
            text = _decode_by_code_pages(contents[name], html_code_page, code_page)
            contents[name] = text.encode("utf-8", "replace")
    if _HTML_CODE_PAGE not in numbers:
        rows.append(_PROPERTY.pack(3, _HTML_CODE_PAGE, 65001))
    contents[_PROPERTIES] = table[:header].ljust(_MSG_HEADER if header > 8 else header, b"\0") + b"".join(rows)
    streams = tuple(Stream(f"{storage.path}/{name}", content) for name, content in contents.items())
    inner = (
        _with_unicode_texts(one, 24 if one.name == _EMBEDDED_MESSAGE else 8, code_page) for one in storage.storages
    )
    return Storage(storage.path, streams, tuple(inner))


def _decode_by_code_pages(content: bytes, *code_pages: int) -> str:
    """Return a text in the first code page that has all its letters."""
    texts = [decode(content, _code_page_name(code_page)) for code_page in code_pages]
    return next((text for text in texts if "\ufffd" not in text), texts[0])


def _code_page_name(number: int) -> str | None:
    try:
        return encoding_from_codepage(number)
    except Exception:  # noqa: BLE001 - of several kinds: unknown to Microsoft, or to Python
        return f"cp{number}"
