"""MSG, as Outlook saves emails."""

from __future__ import annotations

from oxmsg import Message
from oxmsg.attachment import Attachment

from fieldmark.documents.reading.enclosed import Container
from fieldmark.documents.reading.mail import MailFile, mail_container
from fieldmark.documents.reading.markup import html_lines
from fieldmark.documents.reading.pagination import Part, expand_tabs
from fieldmark.documents.reading.text import says_more
from fieldmark.errors import Damaged

_CONTENT_ID = 0x3712  # the property by which the HTML of an email names a picture


def read_msg(data: bytes) -> Container:
    """Read an email: its plain text, its HTML where that has more, and its files."""
    message = Message.load(data)
    plain, html = message.body or "", message.html_body or ""
    if not message.subject and not plain and not html and not message.sender:
        raise Damaged("The file is not an Outlook message: it has neither sender, subject nor text.")
    body = Part(map(expand_tabs, plain.splitlines()))
    shown = html_lines(html) if html.strip() else Part()
    if says_more(shown, body):
        body = Part([*body, *shown], shown.hidden) if plain.strip() else shown
    return mail_container(_headers(message), body, html, [_file(attachment) for attachment in message.attachments])


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


def _file(attachment: Attachment) -> MailFile:
    media_type = attachment.mime_type or "application/octet-stream"
    content_id = attachment.properties.str_prop_value(_CONTENT_ID) or ""
    return MailFile(attachment.file_name or "attachment", media_type, attachment.file_bytes or b"", content_id)
