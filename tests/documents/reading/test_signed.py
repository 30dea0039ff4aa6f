from __future__ import annotations

import base64
from email.message import EmailMessage

import pytest

from fieldmark.documents.reading.mail import read_mail
from fieldmark.documents.reading.signed import signed_content
from fieldmark.errors import Damaged, Unsupported

CONTENT = b"<Invoice>Total 88,40</Invoice>"
KIND = bytes.fromhex("06092a864886f70d0107")


def element(tag: int, *contents: bytes) -> bytes:
    content = b"".join(contents)
    size = len(content)
    length = bytes([size]) if size < 128 else bytes([0x82]) + size.to_bytes(2, "big")
    return bytes([tag]) + length + content


def open_element(tag: int, *contents: bytes) -> bytes:
    """Return an element of indefinite length."""
    return bytes([tag, 0x80]) + b"".join(contents) + b"\0\0"


def sign(content: bytes | None, *, in_pieces: bool = False, kind: int = 2) -> bytes:
    """Return a signed file; the certificate and the signature are only bytes."""
    wrap = open_element if in_pieces else element
    pieces = [content[at : at + 7] for at in range(0, len(content), 7)] if content and in_pieces else [content or b""]
    octets = [element(4, piece) for piece in pieces]
    inside = [wrap(0xA0, wrap(0x24, *octets) if in_pieces else octets[0])] if content is not None else []
    encapsulated = wrap(0x30, KIND + b"\x01", *inside)
    signed = wrap(0x30, element(2, b"\x01"), element(0x31), encapsulated, element(0x31, element(0x30, b"signature")))
    return wrap(0x30, KIND + bytes([kind]), wrap(0xA0, signed))


@pytest.mark.parametrize("in_pieces", [False, True])
def test_file_inside_a_signed_file_is_returned(in_pieces: bool) -> None:
    signed = sign(CONTENT, in_pieces=in_pieces)
    coded = base64.encodebytes(signed)
    armoured = b"-----BEGIN PKCS7-----\n" + coded + b"-----END PKCS7-----\n"
    for data in (signed, coded, armoured, sign(signed)):
        assert signed_content(data) == CONTENT


@pytest.mark.parametrize("data", [b"", b"0", b"MI", b"Total 5", CONTENT, base64.encodebytes(b"0" + bytes(99))])
def test_other_file_is_returned_as_it_is(data: bytes) -> None:
    assert signed_content(data) == data


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (sign(None), Unsupported),
        (sign(CONTENT, kind=3), Unsupported),
        (sign(CONTENT)[:-40], Damaged),
        (sign(CONTENT, in_pieces=True)[:-40], Damaged),
        (b"\x30\x80" + KIND + b"\x02" + b"\xa0\x80" * 5_000, Damaged),
        (sign(sign(sign(sign(sign(CONTENT))))), Unsupported),
    ],
)
def test_signature_alone_encrypted_damaged_and_deeply_nested_files_are_refused(
    data: bytes, error: type[Exception]
) -> None:
    with pytest.raises(error):
        signed_content(data)


def test_signed_email_is_read_without_its_signature() -> None:
    inner = EmailMessage()
    inner.set_content("Total 88,40")
    inner.add_attachment(b"%PDF", maintype="application", subtype="pdf", filename="a.pdf")
    outer = EmailMessage()
    outer["From"] = "a@example.com"
    outer.set_content(sign(bytes(inner)), maintype="application", subtype="pkcs7-mime", filename="smime.p7m")
    mail = read_mail(bytes(outer))
    assert mail.parts[0][:3] == ["From: a@example.com", "", "Total 88,40"]
    assert [file.name for file in mail.enclosed] == ["a.pdf"]


def test_signature_beside_an_email_is_not_a_document() -> None:
    mail = EmailMessage()
    mail["From"] = "a@example.com"
    mail.set_content("Total 88,40")
    mail.add_attachment(sign(None), maintype="application", subtype="pkcs7-signature", filename="smime.p7s")
    assert not list(read_mail(bytes(mail)).enclosed)
