"""EML and MSG: headers, body, attachments."""

from __future__ import annotations

import base64
import struct
from email.message import EmailMessage
from pathlib import Path

import pytest
from oxmsg.storage import Storage, Stream

from pagewords import sniff
from pagewords.mail import SMALL_PICTURE, read_mail, read_msg, read_msg_storage
from pagewords.pagination import Part
from pagewords.reading_warnings import WarningCode


def simple_message() -> EmailMessage:
    mail = EmailMessage()
    mail["From"] = "Ann Grün <ann@example.com>"
    mail["To"] = "billing@example.com"
    mail["Subject"] = "Rechnung für März"
    mail["X-Internal"] = "not shown"
    mail.set_content("Guten Tag,\nTotal:\t19,50 €\n")
    return mail


def mail_lines(source: bytes) -> list[str]:
    (lines,) = read_mail(source).parts
    return lines


def attached_files(source: bytes) -> list[tuple[str, bytes]]:
    return [(name, unpack(1 << 20)) for name, unpack in read_mail(source).enclosed]


def test_headers_and_plain_body_are_read_and_attachments_are_named() -> None:
    mail = simple_message()
    mail.add_alternative("<p>Guten Tag,<table><tr><td>Total:<td>19,50 €</table>", subtype="html")
    mail.add_attachment(b"0123456789", maintype="application", subtype="pdf", filename="RE-1.pdf")
    assert mail_lines(bytes(mail)) == [
        "From: Ann Grün <ann@example.com>",
        "To: billing@example.com",
        "Subject: Rechnung für März",
        "",
        "Guten Tag,",
        "Total:  19,50 €",
        "",
        "Attachment: RE-1.pdf (application/pdf, 10 bytes)",
    ]
    assert attached_files(bytes(mail)) == [("RE-1.pdf", b"0123456789")]


def test_inline_logo_is_not_an_attachment_but_inline_photograph_is() -> None:
    mail = simple_message()
    mail.add_alternative("<p>Total <img src='cid:logo'><img src='cid:photo'>", subtype="html")
    rich = mail.get_payload()[1]
    rich.add_related(b"l" * 100, "image", "png", cid="<logo>", filename="logo.png")
    rich.add_related(b"p" * (SMALL_PICTURE + 1), "image", "jpeg", cid="<photo>", filename="photo.jpg")
    assert [name for name, _ in attached_files(bytes(mail))] == ["photo.jpg"]
    assert mail_lines(bytes(mail))[-1] == "Picture: logo.png (image/png, 100 bytes)"


def test_forwarded_email_is_attached_unchanged() -> None:
    inner = b"From: b@example.com\r\nSubject: An offer: =?utf-8?q?=E2=82=AC?=\r\n\r\nTotal: 7"
    source = (
        b"From: a@example.com\r\nContent-Type: multipart/mixed; boundary=q\r\n\r\n--q\r\n\r\nSee below.\r\n--q\r\n"
        b"Content-Type: message/rfc822\r\n\r\n" + inner + b"\r\n--q--\r\n"
    )
    assert [(name, content.replace(b"\r\n", b"\n")) for name, content in attached_files(source)] == [
        ("An offer: €.eml", inner.replace(b"\r\n", b"\n"))
    ]


def test_pdf_inside_an_alternative_is_attached_and_all_texts_are_read() -> None:
    source = b"""From: a@example.com
Content-Type: multipart/mixed; boundary=m

--m
Content-Type: multipart/alternative; boundary=a

--a

plain
--a
Content-Type: multipart/mixed; boundary=i

--i
Content-Type: text/html

<b>plain</b>
--i
Content-Type: application/pdf; name=a.pdf

%PDF
--i--
--a--
--m

and a footer
--m--
"""
    assert mail_lines(source)[2:4] == ["plain", "and a footer"]
    assert attached_files(source) == [("a.pdf", b"%PDF")]


def test_html_body_is_read_if_it_has_more_text() -> None:
    notice = "Your mail program shows no HTML."
    for shown, more in (
        (f"<p>{notice} <p>Invoice RE-7<table><tr><td>Total<td>19,50</table>", ["Invoice RE-7", "Total   19,50"]),
        ("<p>Your mail program shows no HTML. 7", ["Your mail program shows no HTML. 7"]),  # only a number more
        ("<p>Your <b>mail program</b> shows<br>no HTML.", []),
        ("<p style='display:none'>Total 19,50</p>", []),
    ):
        mail = EmailMessage()
        mail["From"] = "a@example.com"
        mail.set_content(notice)
        mail.add_alternative(shown, subtype="html")
        lines = mail_lines(bytes(mail))
        assert lines[2] == notice and [line for line in lines[3:] if line and line != notice] == more


@pytest.mark.parametrize(
    ("plain", "codes"),
    [
        ("Total 19,50 EUR, see https://example.com/?id=77 [1]", []),
        ("Your mail program shows no HTML.", []),
        ("Total 91,50 EUR", [WarningCode.TEXTS_DIFFER]),
        ("Total 19,50 EUR, account 4711", [WarningCode.TEXTS_DIFFER]),
    ],
)
def test_two_texts_of_an_email_with_different_numbers_give_a_warning(plain: str, codes: list[WarningCode]) -> None:
    mail = EmailMessage()
    mail.set_content(plain)
    mail.add_alternative("<p>Total <b>19,50</b> EUR", subtype="html")
    (part,) = read_mail(bytes(mail)).parts
    assert [warning.code for warning in part.warnings] == codes


def test_html_body_is_read_if_it_is_the_only_body() -> None:
    source = b"From: a@example.com\r\nContent-Type: text/html; charset=koi8-r\r\n\r\n<p hidden>x<p>" + "Цена".encode(
        "koi8-r"
    )
    (part,) = read_mail(source).parts
    assert (part, part.hidden) == (["From: a@example.com", "", "Цена"], ["x"])


def test_unknown_charset_and_broken_structure_are_read() -> None:
    source = b'From: a@example.com\nContent-Type: multipart/mixed; boundary="q"\n\n--q\n'
    source += (
        b"Content-Type: text/plain; charset=klingon\nContent-Transfer-Encoding: quoted-printable\n\nGr=C3=B6=C3=9Fe\n"
    )
    assert mail_lines(source)[-1] == "Größe"


@pytest.mark.parametrize("cut", range(6))
def test_truncated_base64_is_decoded_as_far_as_possible(cut: int) -> None:
    source = b"From: a@example.com\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: base64 \n\n"
    written = base64.b64encode("Total: 19,50 €, by May".encode())
    (part,) = read_mail(source + written[: len(written) - cut]).parts
    assert isinstance(part, Part) and "Total: 19,50 €, by May"[: 22 - cut] in part[-1]
    assert [one.code for one in part.warnings] == ([WarningCode.CUT_OFF] if cut % 4 else [])


def test_truncated_email_gives_a_warning_that_names_the_file() -> None:
    source = simple_message()
    source.add_attachment(b"0123456789" * 9, maintype="application", subtype="pdf", filename="RE-1.pdf")
    for data, names in ((bytes(source), []), (bytes(source)[:-60], ["multipart/mixed; RE-1.pdf"])):
        (part,) = read_mail(data).parts
        assert isinstance(part, Part) and [one.excerpt for one in part.warnings] == names
        ((_, content),) = attached_files(data)
        assert (b"0123456789" * 9).startswith(content) and len(content) > 40


@pytest.mark.parametrize(
    "kind",
    ["text", "text/html charset=utf-8", "text/", "/html", "application/", "multipart/mixed", "text/plain/x", ";"],
)
def test_text_under_a_malformed_content_type_is_read(kind: str) -> None:
    source = f"From: a@example.com\nContent-Type: {kind}\n\nTotal: 19.50\n".encode()
    assert mail_lines(source)[-1] == "Total: 19.50" and not attached_files(source)


def test_windows_euro_sign_is_read_if_latin_1_is_declared() -> None:
    source = (
        b"From: a@example.com\nSubject: =?iso-8859-1?q?5_=80?=\nContent-Type: text/plain; charset=iso-8859-1\n\n7 \x80"
    )
    assert mail_lines(source)[1:] == ["Subject: 5 €", "", "7 €"]


# Plain text, HTML with more than that, an attached PDF, an empty file, and a logo that the HTML shows.
MSG_FILE = Path(__file__).with_name("mail.msg").read_bytes()
MSG_WITHOUT_PLAIN_TEXT = MSG_FILE.replace(b"\x1f\x00\x00\x10", b"\x1f\x00\x08\x10").replace(
    "_1000001F".encode("utf-16-le"), "_1008001F".encode("utf-16-le")
)
MSG_WITH_OTHER_PLAIN_TEXT = MSG_FILE.replace("19,50".encode("utf-16-le"), "12,34".encode("utf-16-le"))


def test_outlook_message_is_read_with_attachments() -> None:
    mail = read_msg(MSG_FILE)
    assert mail.parts == [
        [
            "From: <ann@example.com>",
            "Subject: Rechnung für März",
            "",
            "Guten Tag,",
            "Total:  19,50 €",
            "",
            "Attachment: RE-1.pdf (application/octet-stream, 4,800 bytes)",
            "Attachment: empty.txt (application/octet-stream, 0 bytes)",
            "Picture: logo.png (application/octet-stream, 1 bytes)",
        ]
    ]
    assert [(name, len(unpack(9000))) for name, unpack in mail.enclosed] == [("../RE-1.pdf", 4800), ("empty.txt", 0)]


def test_outlook_html_is_read_if_it_has_more_text() -> None:
    for source, plain in ((MSG_WITH_OTHER_PLAIN_TEXT, ["Guten Tag,", "Total:  12,34 €"]), (MSG_WITHOUT_PLAIN_TEXT, [])):
        (part,) = read_msg(source).parts
        assert part[3 : part.index("Total: 19")] == [*plain, "Guten Tag"] and part.hidden == ["secret"]


@pytest.mark.parametrize(
    "header", ["From: a@[1.2.3", "Content-Type: text/plain; charset*=x''%", "Date: \udcff", "To: <@,>"]
)
def test_unparsable_header_does_not_affect_the_rest(header: str) -> None:
    source = f"Subject: Invoice\n{header}\n\nTotal: 19.50\n".encode("utf-8", "surrogateescape")
    lines = mail_lines(source)
    assert "Subject: Invoice" in lines and "Total: 19.50" in lines
    assert "From: a@[1.2.3" in lines or "From" not in header


def test_email_after_a_mailbox_line_is_an_email_and_a_mailbox_encloses_its_emails() -> None:
    email = (
        b"From - Fri May 17 11:00:00 2024\nFrom: a@example.org\nTo: b@example.org\nSubject: Invoice\n"
        b"Content-Transfer-Encoding: base64\n\nR2VzYW10YmV0cmFnIDg4LDQwCg==\n"
    )
    mailbox = read_mail(email + b"\n" + email)

    assert sniff.media_type(email, "a.eml") == sniff.media_type(email + b"\n" + email, "a.mbox") == sniff.EML
    assert "Gesamtbetrag 88,40" in read_mail(email).parts[0]
    emails = [file.unpack(10_000) for file in mailbox.enclosed]
    assert len(emails) == 2
    assert all("Gesamtbetrag 88,40" in read_mail(content).parts[0] for content in emails)


def outlook_storage(
    name: str, texts: dict[int, bytes], code_page: int, *inside: Storage, html: bytes = b"", header: int = 32
) -> Storage:
    """Return a part of an Outlook message with 8-bit texts."""
    properties = b"".join(struct.pack("<HHIII", 0x1E, identifier, 6, 0, 0) for identifier in texts)
    if code_page:
        properties += struct.pack("<HHIII", 3, 0x3FFD, 6, code_page, 0)
    if html:
        properties += struct.pack("<HHIII", 0x102, 0x1013, 6, 0, 0)
    contents = {f"__substg1.0_{identifier:04X}001E": text for identifier, text in texts.items()}
    contents |= {"__properties_version1.0": bytes(header) + properties, "__substg1.0_10130102": html}
    return Storage(name, tuple(Stream(f"{name}/{key}", content) for key, content in contents.items()), inside)


@pytest.mark.parametrize(
    ("code_page", "encoding", "text"),
    [
        (950, "cp950", "總金額 1,250 元"),
        (936, "gb18030", "总金额 1,250 元"),
        (1250, "cp1250", "Částka 1 250 Kč, příjem"),
        (1251, "cp1251", "Итого 1250 рублей"),
        (28592, "iso8859-2", "Częściowa płatność"),
        (0, "cp1251", "Итого к оплате 1250 рублей"),
        (99999, "cp1252", "Größe, für"),
    ],
)
def test_outlook_message_is_read_in_its_code_page(code_page: int, encoding: str, text: str) -> None:
    coded = text.encode(encoding)
    attachment = outlook_storage("__attach_version1.0_#0", {0x3707: coded}, 0, header=8)
    (part,) = read_msg_storage(outlook_storage("", {0x37: coded, 0x1000: coded + b"\n"}, code_page, attachment)).parts
    assert part == [f"Subject: {text}", "", text, "", f"Attachment: {text} (application/octet-stream, 0 bytes)"]
    (part,) = read_msg_storage(outlook_storage("", {0x37: b"A"}, code_page, html=b"<p>" + coded)).parts
    assert part[-1] == text


def test_one_byte_outside_of_the_code_page_loses_one_letter() -> None:
    (part,) = read_msg_storage(
        outlook_storage("", {0x37: b"A", 0x1000: "總金額".encode("cp950") + b"\xff 5"}, 950)
    ).parts
    assert part[-1] == "總金額\ufffd 5"


def test_outlook_message_in_an_outlook_message_is_enclosed_as_an_email() -> None:
    def message(text: str, *inside: Storage, name: str = "__substg1.0_3701000D") -> Storage:
        coded = text.encode("cp1250")
        return outlook_storage(name, {0x37: coded, 0x1000: coded}, 1250, *inside, header=24 if name else 32)

    def attached(number: int, storage: Storage) -> Storage:
        return outlook_storage(f"__attach_version1.0_#{number}", {}, 0, storage, header=8)

    innermost = attached(0, message("Účet 3"))
    outer = message("Účet 1", attached(0, message("Účet 2", innermost)), name="")
    (name, unpack), *others = read_msg_storage(outer).enclosed
    inner = read_mail(unpack(100_000))
    assert name == "Účet 2.eml" and not others
    assert inner.parts[0][:3] == ["Subject: Účet 2", "", "Účet 2"]
    ((name, unpack),) = inner.enclosed
    assert name == "Účet 3.eml"
    assert read_mail(unpack(100_000)).parts == [["Subject: Účet 3", "", "Účet 3"]]
