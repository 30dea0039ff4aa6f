"""MSG: headers, body, attachments."""

from __future__ import annotations

from made_msg import BODY, CONTENT, CONTENT_ID, FILE_NAME, HTML, SENDER, SUBJECT, msg

from fieldmark.documents.reading.outlook import read_msg

HEAD: dict[int, str | bytes] = {SENDER: "ann@example.com", SUBJECT: "Rechnung für März"}


def test_the_html_that_a_mail_program_shows_is_read_where_it_says_more() -> None:
    mail = read_msg(msg({**HEAD, BODY: "This mail has HTML.", HTML: b"<p>Total: 19"}, []))
    assert mail.parts[0][3:] == ["This mail has HTML.", "Total: 19"]


def test_headers_and_the_plain_body_are_read_and_attachments_named() -> None:
    source = msg(
        {**HEAD, BODY: "Guten Tag,\r\nTotal:\t19,50 €\r\n", HTML: b"<p>Guten Tag"},
        [{FILE_NAME: "../RE-1.pdf", CONTENT: b"%PDF" * 2000}],
    )
    mail = read_msg(source)
    assert mail.parts == [
        [
            "From: <ann@example.com>",
            "Subject: Rechnung für März",
            "",
            "Guten Tag,",
            "Total:  19,50 €",
            "",
            "Attachment: RE-1.pdf (application/octet-stream, 8,000 bytes)",
        ]
    ]
    assert [(name, unpack(9000)) for name, unpack in mail.enclosed] == [("../RE-1.pdf", b"%PDF" * 2000)]


def test_an_html_body_is_read_without_what_it_hides_and_its_logo_is_no_attachment() -> None:
    html = b"<p>Total: 1<p hidden>secret</p><img src='cid:logo'>"
    mail = read_msg(msg({**HEAD, HTML: html}, [{FILE_NAME: "logo.png", CONTENT: b"x", CONTENT_ID: "logo"}]))
    (part,) = mail.parts
    assert "Total: 1" in part and "secret" not in " ".join(part) and part.hidden == ["secret"]
    assert part[-1].startswith("Picture: logo.png") and list(mail.enclosed) == []
