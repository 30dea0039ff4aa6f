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
