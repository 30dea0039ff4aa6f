from __future__ import annotations

import base64
from email.message import EmailMessage

import pytest

from generated_files import PKCS7, sign
from pagewords.errors import Damaged, Unsupported
from pagewords.mail import read_mail
from pagewords.signed import signed_content

CONTENT = b"<Invoice>Total 88,40</Invoice>"


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
        (b"\x30\x80" + PKCS7 + b"\x02" + b"\xa0\x80" * 5_000, Damaged),
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
