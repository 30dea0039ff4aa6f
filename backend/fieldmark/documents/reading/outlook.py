"""MSG, as Outlook saves mails: the headers a reader is shown, the body, and the files attached to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from oxmsg import Message
from oxmsg.attachment import Attachment

from fieldmark.documents.reading.enclosed import Container, Enclosed, shown_name
from fieldmark.documents.reading.mail import SMALL_PICTURE
from fieldmark.documents.reading.markup import html_lines
from fieldmark.documents.reading.pagination import Part, expand_tabs
from fieldmark.documents.reading.text import says_more
from fieldmark.errors import Damaged, OverLimit

_CONTENT_ID = 0x3712  # the property by which the HTML of a mail names a picture


def read_msg(data: bytes) -> Container:
    """The mail: its plain text, and its HTML where that says more; the names of its attachments; and these."""
    message = Message.load(data)
    plain, rich = message.body or "", message.html_body or ""
    if not message.subject and not plain and not rich and not message.sender:
        raise Damaged("The file is not an Outlook message: it has neither sender, subject nor text.")
    body = Part(map(expand_tabs, plain.splitlines()))
    shown = html_lines(rich) if rich.strip() else Part()
    if says_more(shown, body):
        body = Part([*body, *shown], shown.hidden) if plain.strip() else shown
    attached: list[Attachment] = []
    pictures: list[Attachment] = []
    for one in message.attachments:
        (pictures if _is_small_picture(one, rich) else attached).append(one)
    named = [*(_named("Attachment", one) for one in attached), *(_named("Picture", one) for one in pictures)]
    lines = [*_headers(message), "", *body]
    return Container([Part([*lines, "", *named] if named else lines, body.hidden)], _enclosed(attached))


def _headers(message: Message) -> Iterator[str]:
    sent = message.message_headers
    recipients = ", ".join(f"{one.name} <{one.email_address}>" for one in message.recipients)
    shown = {
        "From": message.sender,
        "To": sent.get("To") or recipients,
        "Cc": sent.get("Cc"),
        "Date": sent.get("Date") or (message.sent_date.isoformat(" ", "seconds") if message.sent_date else None),
        "Subject": message.subject,
    }
    for name, value in shown.items():
        if value:
            yield f"{name}: {' '.join(str(value).split())}"


def _is_small_picture(attachment: Attachment, rich: str) -> bool:
    content_id = attachment.properties.str_prop_value(_CONTENT_ID)
    is_shown = bool(content_id) and f"cid:{content_id}" in rich
    return is_shown and attachment.size <= SMALL_PICTURE


def _enclosed(attached: Sequence[Attachment]) -> Iterator[Enclosed]:
    for one in attached:
        yield Enclosed(_name(one), partial(_unpack, one))


def _unpack(attachment: Attachment, most: int) -> bytes:
    content = attachment.file_bytes or b""
    if len(content) > most:
        raise OverLimit
    return content


def _name(attachment: Attachment) -> str:
    return attachment.file_name or "attachment"


def _named(what: str, attachment: Attachment) -> str:
    return f"{what}: {shown_name(_name(attachment))} ({attachment.mime_type}, {attachment.size:,} bytes)"
