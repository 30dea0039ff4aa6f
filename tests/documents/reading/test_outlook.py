"""MSG: headers, body, attachments."""

from __future__ import annotations

from pathlib import Path

from fieldmark.documents.reading.mail import read_msg

# Plain text, HTML with more than that, an attached PDF, an empty file, and a logo that the HTML shows.
MESSAGE = Path(__file__).with_name("mail.msg").read_bytes()
WITHOUT_PLAIN_TEXT = MESSAGE.replace(b"\x1f\x00\x00\x10", b"\x1f\x00\x08\x10").replace(
    "_1000001F".encode("utf-16-le"), "_1008001F".encode("utf-16-le")
)
OTHER_PLAIN_TEXT = MESSAGE.replace("19,50".encode("utf-16-le"), "12,34".encode("utf-16-le"))


def test_headers_and_body_are_read_and_attachments_named() -> None:
    mail = read_msg(MESSAGE)
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


def test_html_body_is_read_without_hidden_text_if_it_has_more_than_the_plain_one() -> None:
    for source, plain in ((OTHER_PLAIN_TEXT, ["Guten Tag,", "Total:  12,34 €"]), (WITHOUT_PLAIN_TEXT, [])):
        (part,) = read_msg(source).parts
        assert part[3 : part.index("Total: 19")] == [*plain, "Guten Tag"] and part.hidden == ["secret"]
