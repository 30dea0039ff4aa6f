"""HTML: what is seen is read, what is hidden is not, rows stay rows."""

from __future__ import annotations

import pytest

from fieldmark.documents.reading.markup import html_lines, html_parts


def test_blocks_are_lines_and_inline_tags_are_not() -> None:
    html = "<h1>Invoice &amp; more</h1><p>Hello <b>wor</b>ld,\n  <i>again</i><br>second</p>tail<ul><li>one<li>two</ul>"
    assert html_lines(html) == ["Invoice & more", "Hello world, again", "second", "tail", "• one", "• two"]


@pytest.mark.parametrize(
    "hidden",
    [
        "<script>secret</script>",
        "<style>secret</style>",
        "<template>secret</template>",
        "<!-- secret -->",
        "<p hidden>secret</p>",
        '<div style="color:red; display : none">secret</div>',
        '<span style="visibility:hidden">secret</span>',
        '<span style="font-size:0px">secret</span>',
        '<span style="opacity:0.0">secret</span>',
        '<input type="hidden" value="secret">',
        "<iframe>secret</iframe>",
    ],
)
def test_what_is_hidden_is_not_read(hidden: str) -> None:
    assert html_lines(f"<p>before</p>{hidden}<p>after</p>") == ["before", "after"]


AROUND = (
    "<style>.off{display:none} .on .off{display:block} td b{color:#fff} #far{position:absolute;left:-5000px}</style>"
)


@pytest.mark.parametrize(
    ("hidden", "shown"),
    [
        ("<p hidden>{}</p>", "<p>{}</p>"),
        ('<div style="color:red; display : none">{}</div>', '<div style="display:block">{}</div>'),
        ('<div style="display:none"><b style="display:block">{}</b></div>', "<div><b>{}</b></div>"),
        (
            '<span style="visibility:hidden">{}</span>',
            '<i style="visibility:hidden"><b style="visibility:visible">{}</b></i>',
        ),
        ('<span style="font-size:1px">{}</span>', '<p style="font-size:0"><b style="font-size:9px">{}</b></p>'),
        ('<span style="font:0/0 a">{}</span>', '<span style="font:bold 12px/1 serif">{}</span>'),
        ('<span style="opacity:0.01">{}</span>', '<span style="opacity:0.5">{}</span>'),
        ('<span style="color:#fff">{}</span>', '<p style="background:#333"><b style="color:white">{}</b></p>'),
        ('<font color="white">{}</font>', '<div bgcolor="#000080"><font color="white">{}</font></div>'),
        ('<p style="background:navy;color:#000081">{}</p>', '<p style="background:url(x.png);color:#fff">{}</p>'),
        ('<p style="color:rgba(0, 0, 0, 0)">{}</p>', '<p style="color:rgb(20 20 20 / 80%)">{}</p>'),
        ('<p style="position:absolute;left:-9999px">{}</p>', '<p style="position:absolute;left:-9px">{}</p>'),
        ('<p style="text-indent:-400em">{}</p>', '<p style="text-indent:-1em">{}</p>'),
        ('<p style="height:0;overflow:hidden">{}</p>', '<p style="height:20px;overflow:hidden">{}</p>'),
        ('<p style="clip:rect(0,0,0,0);position:absolute">{}</p>', '<p style="clip:auto">{}</p>'),
        ('<p style="transform:scale(0)">{}</p>', '<p style="transform:scale(0.9)">{}</p>'),
        ('<p class="off">{}</p>', '<div class="on"><p class="off">{}</p></div>'),
        ('<p id="far">{}</p>', '<p class="off" style="display:block">{}</p>'),
        ("<table><tr><td><b>{}</b></td></tr></table>", '<table><tr><td bgcolor="#123"><b>{}</b></td></tr></table>'),
        ('<table><tr style="display:none"><td>{}</td></tr></table>', "<table><tr><td>{}</td></tr></table>"),
        ('<table><tr><td style="display:none">{}</td></tr></table>', "<table><tr><td>{}</td></tr></table>"),
        ("<dialog>{}</dialog>", "<dialog open>{}</dialog>"),
    ],
)  # fmt: skip
def test_hidden_text_is_not_read_but_counted_and_its_visible_twin_is_read(hidden: str, shown: str) -> None:
    page = html_lines(AROUND + "<p>before</p>" + hidden.format("secret 4711"))
    assert (page, page.hidden) == (["before"], ["secret", "4711"])
    page = html_lines(AROUND + "<p>before</p>" + shown.format("secret 4711"))
    assert (page, page.hidden) == (["before", "secret 4711"], [])


def test_rules_for_other_media_and_unknown_selectors_hide_nothing() -> None:
    sheet = "@media print{p{display:none}} p:first-child{display:none} a+p{display:none} @media screen{i{display:none}}"
    page = html_lines(f"<style>{sheet}</style><p>seen</p><p><i>not seen</i></p>")
    assert (page, page.hidden) == (["seen"], ["not", "seen"])


def test_of_two_rules_the_more_special_one_holds_and_of_equal_ones_the_later() -> None:
    for first, second in (("a", "b"), ("b", "a"), ("k", "z"), ("z", "k")):
        sheet = f".{first}{{display:none}} .{second}{{display:block}}"
        assert html_lines(f"<style>{sheet}</style><p class='a b k z'>seen</p>") == ["seen"]
        sheet = f".{first}{{display:block}} .{second}{{display:none}}"
        assert html_lines(f"<style>{sheet}</style><p class='a b k z'>secret</p>").hidden == ["secret"]
    assert html_lines("<style>p.off{display:none} .off{display:block}</style><p class=off>a").hidden == ["a"]
    assert html_lines("<style>p{display:none!important}</style><p style='display:block'>a").hidden == ["a"]


def test_white_text_is_seen_where_a_style_sheet_elsewhere_may_paint_the_ground() -> None:
    text = '<p style="color:#fff">secret</p>'
    assert html_lines(text).hidden == ["secret"]
    assert html_lines('<link rel="stylesheet" href="a.css">' + text) == ["secret"]


@pytest.mark.parametrize("part", ["{", "a", "@media{", "p{color:", "}"])
def test_a_style_sheet_that_never_ends_is_no_trap(part: str) -> None:
    assert html_lines(f"<style>{part * 100_000}</style><p>seen</p>") == ["seen"]


@pytest.mark.parametrize("shown", ['style="opacity:0.5"', 'style="font-size:0.9em"', 'style="display:block"', ""])
def test_what_is_shown_is_read(shown: str) -> None:
    assert html_lines(f"<p {shown}>seen</p>") == ["seen"]


def test_a_table_row_is_a_line_with_wide_gaps() -> None:
    html = "<table><tr><th>Label</th><td>Value</td></tr><tbody><tr><td><p>Total</p><td><div>19.50&nbsp;€</div></table>"
    assert html_lines(html) == ["Label   Value", "Total   19.50 €"]


def test_a_page_laid_out_with_tables_keeps_its_blocks_together() -> None:
    html = (
        "<table><tr><td>Acme<br>Main St</td><td><table><tr><td>Date</td><td>1 May</td></tr></table></td></tr></table>"
    )
    assert html_lines(html) == ["Acme", "Main St", "Date   1 May"]


def test_preformatted_text_keeps_its_spaces() -> None:
    assert html_lines("<pre>Total     19.50\n  net</pre>") == ["Total     19.50", "  net"]


def test_the_declared_encoding_is_followed() -> None:
    assert html_parts('<meta charset="koi8-r"><p>Цена</p>'.encode("koi8-r")) == [["Цена"]]
    assert html_parts("<p>Größe</p>".encode()) == [["Größe"]]


def test_xhtml_with_a_prologue_and_markup_that_never_ends_are_read() -> None:
    assert html_lines('<?xml version="1.0" encoding="utf-16"?><html><body><p>x</p></body></html>') == ["x"]
    assert html_lines("<div>" * 200 + "deep") == ["deep"]
