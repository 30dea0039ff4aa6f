"""EML: headers, body, names of attachments."""

from __future__ import annotations

from email.message import EmailMessage

from fieldmark.documents.reading.mail import mail_parts
from fieldmark.domain.reading_warnings import WarningCode


def message() -> EmailMessage:
    mail = EmailMessage()
    mail["From"] = "Ann Grün <ann@example.com>"
    mail["To"] = "billing@example.com"
    mail["Subject"] = "Rechnung für März"
    mail["X-Internal"] = "not shown"
    mail.set_content("Guten Tag,\nTotal:\t19,50 €\n")
    return mail


def test_headers_and_the_plain_body_are_read_and_attachments_named() -> None:
    mail = message()
    mail.add_alternative("<p>rich</p>", subtype="html")
    mail.add_attachment(b"0123456789", maintype="application", subtype="pdf", filename="RE-1.pdf")
    (lines,) = mail_parts(bytes(mail))
    (warning,) = lines.warnings
    assert (warning.code, warning.count, warning.excerpt) == (WarningCode.ATTACHMENTS_NOT_READ, 1, "RE-1.pdf")
    assert lines == [
        "From: Ann Grün <ann@example.com>",
        "To: billing@example.com",
        "Subject: Rechnung für März",
        "",
        "Guten Tag,",
        "Total:  19,50 €",
        "",
        "Attachment: RE-1.pdf (application/pdf, 10 bytes)",
    ]


def test_an_html_body_is_read_where_there_is_no_other() -> None:
    source = b"From: a@example.com\r\nContent-Type: text/html; charset=koi8-r\r\n\r\n<p>" + "Цена".encode("koi8-r")
    assert mail_parts(source) == [["From: a@example.com", "", "Цена"]]


def test_what_an_html_body_hides_is_left_out_and_counted() -> None:
    source = b'From: a@example.com\nContent-Type: text/html\n\n<p style="display:none">secret 4711</p><p>Total: 1'
    (part,) = mail_parts(source)
    assert part.warnings == []
    assert (part[-1], part.hidden) == ("Total: 1", ["secret", "4711"])


def test_an_unknown_charset_and_a_broken_structure_are_no_reason_to_give_up() -> None:
    source = (
        b'From: =?unknown-8bit?q?x?= <a@example.com>\nContent-Type: multipart/mixed; boundary="q"\n\n--q\n'
        b"Content-Type: text/plain; charset=klingon\nContent-Transfer-Encoding: quoted-printable\n\nGr=C3=B6=C3=9Fe\n"
    )
    (lines,) = mail_parts(source)
    assert lines[-1] == "Größe"
