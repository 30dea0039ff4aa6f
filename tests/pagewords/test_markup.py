from __future__ import annotations

import pytest

from pagewords.errors import OverLimit
from pagewords.markup import html_lines, html_parts


def test_block_elements_are_lines_and_inline_elements_are_not() -> None:
    html = "<h1>Invoice &amp; more</h1><p>Hello <b>wor</b>ld,\n  <i>again</i><br>second</p>tail<ul><li>one<li>two</ul>"
    assert html_lines(html) == ["Invoice & more", "Hello world, again", "second", "tail", "• one", "• two"]


HIDDEN_AND_VISIBLE = [  # (hidden, the same but visible)
    *(
        (f"<p style='{hidden}'>{{}}</p>", f"<p style='{shown}'>{{}}</p>")
        for hidden, shown in (
            ("color:#fff", "color:#ddd"),
            ("color:transparent", "color:transparent; text-shadow:0 0 0 #000"),
            ("color:rgba(0,0,0,.02)", "color:rgba(0,0,0,.5)"),
            ("color:hsl(0,0%,98%)", "color:hsl(0,0%,98%); background:#333"),
            ("color:#333; background:rgb(51 51 51)", "color:var(--x); background:#333"),
            ("color:white; background:rgba(0,0,0,.01)", "color:white; background:rgba(0,0,0,.5)"),
            ("-webkit-text-fill-color:#fff", "-webkit-text-fill-color:#fff; background-color:navy"),
            ("position:absolute; left:-9999px", "position:static; left:-9999px"),
            ("position:relative; left:-100%", "position:relative; left:-50%"),
            ("position:fixed; top:-60em", "position:fixed; top:60em"),
            ("text-indent:-9999px", "text-indent:-20px"),
            ("text-indent:100%; overflow:hidden", "text-indent:1em; overflow:hidden"),
            ("margin-left:-9999px", "margin:-5px"),
            ("transform:translateX(-9999px)", "transform:translate(-50%, -50%)"),
            ("transform:scale(0)", "transform:scale(0.5)"),
            ("scale:0", "scale:1"),
            ("position:absolute; clip:rect(0,0,0,0)", "clip:rect(0,0,0,0)"),
            ("position:absolute; clip:rect(1px 1px 1px 1px)", "position:absolute; clip:rect(1px 90px 20px 1px)"),
            ("clip-path:inset(50%)", "clip-path:inset(10%)"),
            ("clip-path:circle(0)", "clip-path:circle(50%)"),
            ("filter:opacity(0)", "filter:opacity(0.5)"),
            ("max-height:0; overflow:hidden", "max-height:0"),
            ("width:1px; height:1px; overflow:hidden", "width:90px; height:12px; overflow:hidden"),
        )
    ),
    (
        "<table bgcolor=#000000><tr><td style='color:#010101'>{}</table>",
        "<table bgcolor=#000000><tr><td style='color:inherit' bgcolor=ffffff>{}</table>",
    ),
    ("<font color=FFFFFF>{}</font>", "<table bgcolor=navy><tr><td><font color=white>{}</font></td></tr></table>"),
    ("<input value='{}' style='color:white'>", "<div style='color:white'><input value='{}'></div>"),
    # attributes and elements
    ("<dialog>{}</dialog>", "<dialog open>{}</dialog>"),
    ("<details>{}</details>", "<details><summary>{}</summary></details>"),
    ("<details><p>{}</p></details>", "<details open><p>{}</p></details>"),
    ("<p hidden=until-found>{}</p>", "<p hidden style='display:block'>{}</p>"),
    ("<div popover>{}</div>", "<div>{}</div>"),
    ("<progress value=7>{}</progress>", "<output>{}</output>"),
    ("<noscript>{}</noscript>", "<template shadowrootmode=open>{}</template>"),
    ("<svg><text display=none>{}</text></svg>", "<svg><text>{}</text></svg>"),
    ("<object data=a.png></object><p hidden>{}</p>", "<object>{}</object>"),
    ("<style>p::before{{content:'{}'; visibility:hidden}}</style><p>", "<style>p::after{{content:'{}'}}</style><p>"),
    # properties
    ('<div style="display:none"><b style="display:block">{}</b></div>', "<div><b>{}</b></div>"),
    ("<p style='visibility:hidden'>{}</p>", "<i style='visibility:hidden'><b style='visibility:visible'>{}</b></i>"),
    ("<p style='opacity:0.01'>{}</p>", "<p style='opacity:0.5'>{}</p>"),
    ("<p style='font-size:1px'>{}</p>", "<p style='font-size:0'><b style='font-size:9px'>{}</b></p>"),
    ("<div style='font-size:10px'><p style='font-size:5%'>{}</p></div>", "<p style='font-size:calc(0px + 9px)'>{}</p>"),
    ("<p style='font:0/0 a'>{}</p>", "<p style='font:bold 12px/1 serif'>{}</p>"),
    ("<p style='display:none;/*display:block*/'>{}</p>", "<p style='/*display:none;*/'>{}</p>"),
    ("<p style='d\\69splay:NON\\65'>{}</p>", "<p style='display:contents'>{}</p>"),
    # rows and cells
    ('<table><tr style="display:none"><td>{}</td></tr></table>', "<table><tr><td>{}</td></tr></table>"),
    # unknown properties hide nothing
    ("<p style='display:none'>{}</p>", "<p style='display:none;display:var(--d)'>{}</p>"),
]
HIDE = "p{opacity:0}"
HIDING_AND_SHOWING_RULES = [  # hiding, showing
    # selectors
    ("div>p{display:none}", "body>p{display:none}"),
    ("p:not(.c){display:none}", "p:not(.a){display:none}"),
    ("p{display:none} p:unheard-of{display:block}", "p:unheard-of{display:none} p%p{display:none}"),
    # of two rules
    ("#i{display:none} p.a{display:block}", "p.a{display:none} #i{display:block}"),
    ("p{display:none!important} #i{display:block}", "#i{display:none} p{display:block!important}"),
    # where a rule is used
    (
        f"@media only screen and (min-width:600px){{{HIDE}}}",
        f"@media only screen and (max-width:600px){{{HIDE}}}",
    ),
    (f"@media (width >= 20em){{{HIDE}}}", f"@media (width < 600px){{{HIDE}}}"),
    (f"@media all{{@supports (display:grid){{{HIDE}}}}}", f"@media all{{@supports not (a:b){{{HIDE}}}}}"),
    (f"<!-- {HIDE} -->", f"/* {HIDE} */"),
    (f"</style><style media=screen>{HIDE}", f"</style><style media=print>{HIDE}"),
    (f"</style><style>{HIDE}", f"</style><template><style>{HIDE}</style></template><style>"),
]


@pytest.mark.parametrize(("hidden", "shown"), HIDDEN_AND_VISIBLE)
def test_explicitly_hidden_text_is_left_out_and_counted(hidden: str, shown: str) -> None:
    page = html_lines("<h1>before</h1>" + hidden.format("secret 4711"))
    assert (page, page.hidden) == (["before"], ["secret", "4711"])
    page = html_lines("<h1>before</h1>" + shown.format("secret 4711"))
    assert (page, page.hidden) == (["before", "secret 4711"], [])


@pytest.mark.parametrize(("hiding", "showing"), HIDING_AND_SHOWING_RULES)
def test_style_sheet_in_the_file_hides_or_shows_text(hiding: str, showing: str) -> None:
    body = "<div><h2></h2><p id=i class='a b'>secret 4711</p></div>"
    assert html_lines(f"<style>{hiding}</style>{body}").hidden == ["secret", "4711"]
    assert html_lines(f"<style>{showing}</style>{body}") == ["secret 4711"]


@pytest.mark.parametrize(
    ("doubtful", "certain"),
    [
        ("<p style='color:#fff; background:url(a.png)'>{}", "<p style='background:url(a.png)'>{}"),
        ("<p style='color:#fff; background:linear-gradient(red, blue)'>{}", "<p style='color:#fff; background:red'>{}"),
        ("<p style='color:#fff; position:absolute'>{}", "<p style='position:absolute'>{}"),
        ("<link rel=stylesheet href=a.css><p style='color:#fff'>{}", "<link rel=stylesheet href=a.css><p>{}"),
        ("<p style='background:#000'>{}", "<p style='background:#000; color:#eee'>{}"),
    ],
)
def test_text_over_something_unknown_is_read_with_a_warning(doubtful: str, certain: str) -> None:
    for html, words in ((doubtful, ["secret", "4711"]), (certain, [])):
        page = html_lines(html.format("secret 4711"))
        assert (page, page.hidden, page.doubtful) == (["secret 4711"], [], words)


@pytest.mark.parametrize("style", ["mask:linear-gradient(transparent, transparent)", "transform:rotateY(90deg)"])
def test_text_hidden_in_other_ways_is_read(style: str) -> None:
    assert html_lines(f"<p style='{style}'>seen</p>") == ["seen"]


HTML_AND_LINES = [  # and their lines
    *(
        (f"<span style='{style}'>5</span><span style='{style}'>6</span>", lines)
        for style, lines in (
            ("display:block", ["5", "6"]),
            ("display:table", ["5", "6"]),
            ("display:table-row", ["5", "6"]),
            ("display:table-cell", ["5  6"]),
            ("display:list-item", ["• 5", "• 6"]),
            ("display:inline-block", ["5 6"]),
            ("display:flex", ["5", "6"]),
            ("display:grid", ["5", "6"]),
            ("display:inline-flex", ["5 6"]),
            ("float:left", ["5  6"]),
            ("position:absolute", ["5  6"]),
            ("margin-left:10px", ["5 6"]),
            ("padding:0 4px", ["5 6"]),
            ("margin:0 0 0 1em", ["5 6"]),
            ("margin-inline-start:1em", ["5 6"]),
            ("position:relative;left:20px", ["5 6"]),
            # not separated
            ("margin:5px 0", ["56"]),
            ("padding-left:1px", ["56"]),
            ("display:inline", ["56"]),
        )
    ),
    ("<style>.a{display:block}</style><b class=a>5</b><b class=a>6</b>", ["5", "6"]),
    ("<style>#a,#b{float:right}</style><b id=a>5</b><b id=b>6</b>", ["5  6"]),
    ("<style>div{display:inline}</style><div>5</div><div>6</div>", ["56"]),
    ("<p>5<x-y>6</x-y>7 <o:p>8</o:p>9", ["567 89"]),
    ("5<button>6</button><input value=7><input value=8><select multiple><option selected>1<option selected>2</select>",
     ["5 6 7 8 1 2"]),
    # items and cells
    ("<div style='display:flex'><b>Total</b><i>5</i>6</div>", ["Total   5   6"]),
    ("<div style='display:flex'><b style='display:contents'><i>5</i><i>6</i></b></div>", ["5   6"]),
    ("<div style='display:flex; flex-direction:column'><b>5</b><i>6</i></div>", ["5", "6"]),
    ("<div style='display:flex'><div>A<p>B</div><div>1</div></div>", ["A", "B", "1"]),
    ("<b style='display:inline-flex'><i>5</i><i>6</i></b>", ["5  6"]),
    ("<div style='display:grid;grid-template-columns:1fr auto'><b>a</b><b>1</b><b>bb</b><b>2</b></div>",
     ["a    1", "bb   2"]),
    ("<div style='display:grid;grid-template-columns:repeat(2,1fr)'><b>a</b><b>1</b><b>b</b></div>", ["a   1", "b"]),
    ("<style>p{display:table}b{display:table-row}i{display:table-cell}</style><p><b><i>Total</i><i>5</i></b><b><i>x</i><i>6</i></b>",
     ["Total   5", "x       6"]),
    ("<ul style='display:table'><li style='display:table-cell'>5<li style='display:table-cell'>6</ul>", ["5   6"]),
    ("<table>5<form><tr><td>6</td><form><td>7</td></form></tr></form>8<tr><td>9</table>", ["5", "6   7", "8", "9"]),
    # drawings
    ("<svg><text x=1 y=1>5</text><text x=9 y=1>6</text></svg>", ["5", "6"]),
    ("<svg><text><tspan x=0 y=1>5</tspan><tspan x=0 y=9>6</tspan><tspan x=9 y=9>7</tspan>"
     "<tspan x=0 dy=1.2em>8</tspan></text></svg>", ["5", "6  7", "8"]),
    # ruby text
    ("5<ruby>東<rp>(</rp><rt>とう</rt><rp>)</rp>京<rt>きょう</rt></ruby>6", ["5東京 (とうきょう)6"]),
    ("<ruby>100<rt>7</ruby>0", ["100 (7)0"]),
    # generated text
    ("<style>p::before{content:'No. '}p:after{content:attr(data-u) '!' counter(i)/'said'}</style><p data-u=EUR>5",
     ["No. 5EUR!"]),
    ("<style>b::after{content:';';display:block}i::before{content:'\\f101'}</style><b>5</b>6<i>7</i>",
     ["5", ";", "67"]),
    ("5<q>6</q>", ["5“6”"]),
    # spaces and marks of lists
    ("<p style='white-space:pre-line'>5\n6</p>", ["5", "6"]),
    ("<ol style='list-style:none'><li>5</ol><ul style='list-style:upper-roman inside'><li>6<li>7</ul>",
     ["5", "I. 6", "II. 7"]),
]  # fmt: skip


@pytest.mark.parametrize(("html", "lines"), HTML_AND_LINES)
def test_boxes_are_separated_as_in_a_browser(html: str, lines: list[str]) -> None:
    assert html_lines(html) == lines


@pytest.mark.parametrize(
    ("html", "line"),
    [
        ("100<b style='position:relative;top:-.5em'>1</b>", "100¹"),
        ("100<b style='position:relative;bottom:.2em;font-size:60%'>1</b>", "100¹"),
        ("100<b style='position:relative;top:1px'>1</b>", "1001"),
        ("<style>sup{vertical-align:baseline;position:relative;top:-.5em}</style>100<sup>1</sup>", "100¹"),
        ("19<b style='vertical-align:text-top;font-size:60%'>99</b>", "19⁹⁹"),
        ("<table><td style='vertical-align:top;font-size:60%'>19.50</table>", "19.50"),
        ("<b style='display:inline-block;vertical-align:4px'>19.50</b>", "19.50"),
        ("<svg><text>19<tspan dy=-5>99</tspan><tspan dy=5> EUR</tspan></text></svg>", "19⁹⁹ EUR"),
        ("<svg><text>10<tspan baseline-shift=super>2</tspan>5</text></svg>", "10²5"),
        ("<svg><text>10<tspan style='baseline-shift:-3px'>2</tspan></text></svg>", "10₂"),
    ],
)
def test_raised_text_does_not_merge_with_a_number(html: str, line: str) -> None:
    assert html_lines(html) == [line]


@pytest.mark.parametrize(
    ("before", "part"),
    [
        ("<table><tr>", "<td>a</td>"),
        ("<select>", "<option>a"),
        (f"<style>i{{background:url(data:image/svg+xml,%3Csvg%3E%3Ctext%3E{'k' * 50_000})}}</style>", "<i>a</i>"),
    ],
)
def test_shared_styles_are_parsed_once(before: str, part: str) -> None:
    assert html_lines(before + part * 50_000)


def test_generated_text_is_limited() -> None:
    with pytest.raises(OverLimit):
        html_lines(f"<style>i::before{{content:'{'x' * 10_000}'}}</style>{'<i></i>' * 200}")


def test_elements_without_visible_text_are_left_out() -> None:
    inert = (
        "<script>secret</script><style>secret</style><template>secret</template><!-- secret --><iframe>secret</iframe>"
    )
    page = html_lines(f'<p>before</p>{inert}<input type="hidden" value="secret"><svg><title>secret</title></svg>')
    assert (page, page.hidden) == (["before"], [])


@pytest.mark.parametrize("part", ["{", "a", "@media{", "p{color:", "}", "p{color:(", "p:not(", "/*", "'", "[", "@a{"])
def test_endless_style_sheet_takes_little_time(part: str) -> None:
    assert html_lines(f"<style>{part * 20_000}</style><p>seen</p>") == ["seen"]


def test_large_page_with_a_large_style_sheet_is_read() -> None:
    sheet = "".join(f".row .c{at}:hover > a, .c{at} p:first-child{{display:block}}\n" for at in range(300))
    sheet += "*,::before{box-sizing:border-box} i ~ i{font-size:9px} .off{display:none}"
    rows = "".join(f"<tr class=row><td class=c{at}><p>a</p><td class=off>b" for at in range(300))
    page = html_lines(f"<style>{sheet}</style><table>{rows}</table><p>{'<i>a</i>' * 3000}")
    assert (len(page), page.hidden) == (301, ["b"] * 300)


def test_raised_digits_are_not_part_of_the_number() -> None:
    assert html_lines("<p>100<sup><a>1</a></sup> EUR, 12<sup>99</sup>, 5 m<sup>2</sup>") == ["100¹ EUR, 12⁹⁹, 5 m2"]
    assert html_lines("<p><sup>1</sup>250, 10<sub>2</sub>") == ["¹250, 10₂"]
    assert html_lines("<p>12<b style='vertical-align: 4px'>99</b> 10<b style='vertical-align:top'>1</b>") == [
        "12⁹⁹ 101"
    ]
    formula = (
        "<math>{}<msup><mn>10</mn><mn>50</mn></msup><mtext>a<br>b</mtext><mfrac><mn>1</mn><mn>2</mn></mfrac></math>"
    )
    assert html_lines(f"<p>3{formula.format('')}4") == ["3 10⁵⁰ a b 1/2 4"]
    part = html_lines(f"<p>{formula.format('<mrow hidden><mn>7</mn></mrow><img alt=x>')}")
    assert (part, part.hidden) == (["x 10⁵⁰ a b 1/2"], ["7"])


@pytest.mark.parametrize("mark", ["<s>", "<del>", "<p style='text-decoration:line-through red'>", "<i class=x>"])
def test_struck_out_text_is_left_out_with_a_warning(mark: str) -> None:
    page = html_lines(f"<style>.x {{text-decoration-line: line-through}}</style><div>now 49 {mark}was <b>99</b>")
    assert (page, page.struck, page.hidden) == (["now 49"], ["was", "99"], [])


def test_list_numbers_and_check_boxes_are_read() -> None:
    assert html_lines("<ol start=3><li>a<ol type=i><li>b<li>c</ol><li value=9>d<li>e</ol><ul><li>f</ul>") == [
        "3. a", "i. b", "ii. c", "9. d", "10. e", "• f"
    ]  # fmt: skip
    assert html_lines("<input type=checkbox checked>Yes <input type=radio>No") == ["☒ Yes ☐ No"]


def test_selected_option_and_text_of_a_drawing_are_read() -> None:
    options = "<option>one<option selected>two<option>three"
    assert html_lines(f"Size: <select>{options}</select> cm") == ["Size: two cm"]
    assert html_lines("<select><optgroup><option>one<option>two</optgroup></select>") == ["one"]
    assert html_lines("<svg><text>Total <tspan>19.50</tspan></text></svg>") == ["Total 19.50"]


def test_table_row_is_a_line_with_wide_gaps() -> None:
    html = "<table><tr><th>Label</th><td>Value</td></tr><tbody><tr><td><p>Total</p><td><div>19.50&nbsp;€</div></table>"
    assert html_lines(html) == ["Label   Value", "Total   19.50 €"]


def test_layout_table_keeps_its_blocks_and_preformatted_text_its_spaces() -> None:
    dated = "<table><tr><td>Date</td><td>1 May</td></tr></table>"
    html = f"<table><tr><td>Acme<br>Main St</td><td>{dated}</td></tr></table><pre>Total     19.50\n  net</pre>"
    assert html_lines(html) == ["Acme", "Main St", "Date   1 May", "Total     19.50", "  net"]


def test_declared_encoding_is_used() -> None:
    assert html_parts('<meta charset="koi8-r"><p>Цена</p>'.encode("koi8-r")) == [["Цена"]]
    assert html_parts("<p>Größe</p>".encode()) == [["Größe"]]


def test_xhtml_with_a_prologue_and_unclosed_markup_are_read() -> None:
    assert html_lines('<?xml version="1.0" encoding="utf-16"?><html><body><p>x</p></body></html>') == ["x"]
    assert html_lines("<div>" * 200 + "deep") == ["deep"]


@pytest.mark.parametrize("spans", ["", " rowspan=1000 colspan=999999999", " rowspan=-1 colspan=x"])
def test_values_are_under_their_heading_in_tables_with_merged_cells(spans: str) -> None:
    lines = html_lines(
        "<table><tr><th rowspan=2>Item</th><th colspan=2>Quantity</th><th rowspan=2>Amount</th></tr>"
        "<tr><th>Ordered</th><th>Delivered</th></tr>"
        "<tr><td rowspan=2>Plates</td><td>5</td><td>4</td><td>50.00</td></tr>"
        "<tr><td>21</td><td>20</td><td>70.00</td></tr>"
        f"<tr><td colspan=3>Total</td><td>120.00</td></tr><tr><td{spans}>End</td></tr></table>"
    )

    ordered, delivered = lines[1].index("Ordered"), lines[1].index("Delivered")
    assert (lines[3].index("21"), lines[3].index("20")) == (ordered, delivered)
    assert len({lines[0].index("Amount"), lines[3].index("70.00"), lines[4].index("120.00")}) == 1


def test_row_span_ends_with_its_row_group_and_a_span_of_zero_reaches_its_end() -> None:
    table = (
        "<table><tbody><tr><td rowspan=9>Plates<td>5<td>50.00</tr><tr><td>7<td>70.00</tr></tbody>"
        "<tbody><tr><td rowspan=0>Cups<td>3<td>30.00</tr><tr><td>2<td>20.00</tr></tbody>"
        "<tbody><tr><td>Forks<td>1<td>10.00</tr></tbody></table>"
    )
    assert html_lines(table) == [
        "Plates   5   50.00",
        "         7   70.00",
        "Cups     3   30.00",
        "         2   20.00",
        "Forks    1   10.00",
    ]
