"""MSG: headers, body, attachments."""

from __future__ import annotations

import pytest
from made_msg import BODY, CONTENT, CONTENT_ID, FILE_NAME, HTML, SENDER, SUBJECT, msg

from fieldmark.documents.reading import sniff
from fieldmark.documents.reading.outlook import read_msg
from fieldmark.documents.reading.pages import Limits
from fieldmark.documents.reading.sandbox import read_file
from fieldmark.errors import Unreadable

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


@pytest.mark.anyio
async def test_a_message_is_read_behind_the_lock_and_hands_its_attachments_over(tmp_path) -> None:
    path, folder = tmp_path / "a.msg", tmp_path / "out"
    folder.mkdir()
    path.write_bytes(msg({**HEAD, BODY: "Total: 1"}, [{FILE_NAME: "a.txt", CONTENT: b"x" * 5000}, {FILE_NAME: "b"}]))
    found = await read_file(path, "a.msg", Limits(), unpack_to=folder)
    assert found.media_type == sniff.MSG and "Total: 1" in found.pages[0].text
    assert [(file.name, file.path.read_bytes()) for file in found.enclosed] == [("a.txt", b"x" * 5000)]
    assert [(warning.code, warning.excerpt) for warning in found.warnings] == [("enclosed_damaged", "b")]


@pytest.mark.anyio
async def test_a_message_that_is_cut_off_or_none_is_refused(tmp_path) -> None:
    whole = msg({**HEAD, BODY: "Total: 1" * 2000})
    for data, code in ((whole[:-400], "damaged"), (msg({}), "unsupported")):
        (tmp_path / "a.msg").write_bytes(data)
        with pytest.raises(Unreadable) as raised:
            await read_file(tmp_path / "a.msg", "a.msg", Limits())
        assert raised.value.code == code
