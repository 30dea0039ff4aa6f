"""HTML: what is seen is read, what is hidden is not, rows stay rows."""

from __future__ import annotations

import pytest

from fieldmark.documents.reading.markup import html_lines, html_parts
from fieldmark.errors import Unreadable


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
    sheet = "@media print{p{display:none}} p:unheard-of{display:none} a%p{display:none} @media screen{i{display:none}}"
    page = html_lines(f"<style>{sheet}</style><p>seen</p><p><i>not seen</i></p>")
    assert (page, page.hidden) == (["seen"], ["not", "seen"])


@pytest.mark.parametrize(
    ("selector", "hidden", "shown"),
    [
        ("[data-x]", "<p data-x>{}</p>", "<p data-y>{}</p>"),
        ("p[title=a]", "<p title=a>{}</p>", "<p title=b>{}</p>"),
        ("[class^=off]", "<p class='off-1'>{}</p>", "<p class='on off-1'>{}</p>"),
        ("[title$='.b' i]", "<p title='a.B'>{}</p>", "<p title='a.Bc'>{}</p>"),
        ("[title*=bc]", "<p title=abcd>{}</p>", "<p title=acbd>{}</p>"),
        ("[title~=b]", "<p title='a b'>{}</p>", "<p title='a bc'>{}</p>"),
        ("[lang|=en]", "<p lang=en-GB>{}</p>", "<p lang=eng>{}</p>"),
        ("[*|title]", "<p title=a>{}</p>", "<p>{}</p>"),
        ("p:not(.on)", "<p class=a>{}</p>", "<p class=on>{}</p>"),
        ("p:not(.a, .b)", "<p>{}</p>", "<p class=b>{}</p>"),
        (":is(h2, p).a", "<p class=a>{}</p>", "<p>{}</p>"),
        (":where(.a p)", "<div class=a><b><p>{}</p></b></div>", "<p class=a>{}</p>"),
        (".a > p", "<div class=a><p>{}</p></div>", "<div class=a><div><p>{}</p></div></div>"),
        (".a p", "<div class=a><div><p>{}</p></div></div>", "<div class=a></div><p>{}</p>"),
        (".a + p", "<h2 class=a></h2><p>{}</p>", "<h2 class=a></h2><h3></h3><p>{}</p>"),
        (".a ~ p", "<h2 class=a></h2><h3></h3><p>{}</p>", "<p>{}</p><h2 class=a></h2>"),
        (".a > h2 .b", "<div class=a><h2><b class=b>{}</b></div>", "<div class=a><ul><h2><b class=b>{}</b></ul></div>"),
        ("i:first-child", "<p><i>{}</i></p>", "<p><b></b><i>{}</i></p>"),
        ("i:last-of-type", "<p><i></i><i>{}</i></p>", "<p><i>{}</i><i></i></p>"),
        ("i:nth-child(2n+1 of .a)", "<p><b></b><i class=a>{}</i></p>", "<p><b class=a></b><i class=a>{}</i></p>"),
        ("p:has(> u)", "<p><u></u>{}</p>", "<p><b><u></u></b>{}</p>"),
        ("p:has(.u:hover), i", "<p><i>{}</i></p>", "<p><b class=u></b>{}</p>"),
        ("p:hover, p:lang(de)", "<p lang=de-AT>{}</p>", "<p lang=en>{}</p>"),
        ("p.a:read-only:defined", "<p class=a>{}</p>", "<p>{}</p>"),
        ("p.a:dir(ltr)", "<p class=a>{}</p>", "<p class=a dir=rtl>{}</p>"),
        ("p.a::selection, i", "<p class=a><i>{}</i></p>", "<p class=a>{}</p>"),
        ("P.\\61 ", "<p class=a>{}</p>", "<p class=b>{}</p>"),
    ],
)
def test_selectors_of_all_kinds_are_followed(selector: str, hidden: str, shown: str) -> None:
    for template, lines, left_out in ((hidden, [], ["secret", "4711"]), (shown, ["secret 4711"], [])):
        page = html_lines(f"<style>{selector}{{display:none}}</style><div>{template.format('secret 4711')}</div>")
        assert (page, page.hidden) == (lines, left_out)


GONE = "p{display:none}"


@pytest.mark.parametrize(
    ("hidden", "shown"),
    [
        (f"<style media=screen>{GONE}", f"<style media=print>{GONE}"),
        (f"<style media='print, all'>{GONE}", f"<style media='speech'>{GONE}"),
        (f"<style type='text/css'>{GONE}", f"<style type='text/x-template'>{GONE}"),
        (f"<style>@media screen{{{GONE}}}", f"<style>@media print{{{GONE}}}"),
        (f"<style>@media not print{{{GONE}}}", f"<style>@media not screen{{{GONE}}}"),
        (f"<style>@media only screen and (min-width:600px){{{GONE}}}", f"<style>@media (max-width:37.5em){{{GONE}}}"),
        (f"<style>@media (400px <= width < 9000px){{{GONE}}}", f"<style>@media (width < 400px){{{GONE}}}"),
        (f"<style>@media (hover) and (not (width < 9px)){{{GONE}}}", f"<style>@media not (hover){{{GONE}}}"),
        (f"<style>@media (height < 1px) or (color){{{GONE}}}", f"<style>@media (monochrome){{{GONE}}}"),
        (
            f"<style>@media (prefers-color-scheme:light){{{GONE}}}",
            f"<style>@media (prefers-color-scheme:dark){{{GONE}}}",
        ),
        (f"<style>@media screen{{@media (width){{{GONE}}}}}", f"<style>@media screen{{@media print{{{GONE}}}}}"),
        (f"<style>@supports (display:grid){{{GONE}}}", f"<style>@supports not (display:grid){{{GONE}}}"),
        (f"<style>@layer a{{{GONE}}}", f"<style>@keyframes a{{{GONE}}} @font-face{{{GONE}}}"),
        (f"<style>@media all{{}} {GONE}", f"<template><style>{GONE}</style></template><style>"),
        (f"<style>a{{color:red;}} }} q{{}} {GONE}", f"<style>/* {GONE} */"),
        (f"<style><!-- {GONE} -->", f"<style>q{{content:'{GONE}'}}"),
        (f"<style>@import 'data:text/css,{GONE}';", f"<style>@import 'data:text/css,{GONE}' print;"),
        (f"<link rel=stylesheet href='data:text/css,{GONE}'><style>", "<link rel=stylesheet href='a.css'><style>"),
        (
            "<link rel=stylesheet href='data:text/css;base64,cHtkaXNwbGF5Om5vbmV9'><style>",
            f"<link rel=stylesheet media=print href='data:text/css,{GONE}'><style>",
        ),
        ("<style>div{p{display:none}}", "<style>i{p{display:none}}"),
        ("<style>div{& > p{display:none}}", "<style>i{& > p{display:none}}"),
        ("<style>h2, div{> p{color:red; &.a{display:none}}}", "<style>div{> p{color:red; &.b{display:none}}}"),
        ("<style>p{@media screen{display:none}}", "<style>p{@media print{display:none}}"),
        ("<style>@scope (div){p{display:none}}", "<style>@scope (i){p{display:none}}"),
    ],
)  # fmt: skip
def test_a_rule_counts_where_it_holds_on_a_screen(hidden: str, shown: str) -> None:
    for head, lines, left_out in ((hidden, [], ["secret", "4711"]), (shown, ["secret 4711"], [])):
        page = html_lines(f"{head}</style><div><p class=a>secret 4711</p></div>")
        assert (page, page.hidden) == (lines, left_out)


@pytest.mark.parametrize(
    ("hiding", "showing"),
    [
        ("p{display:none} *{display:block}", "p{display:none} p{display:block}"),
        (".a.b{display:none} .a{display:block}", ".a{display:none} .a.b{display:block}"),
        ("#i{display:none} p.a.b.k.z{display:block}", "p.a.b.k.z{display:none} #i{display:block}"),
        ("p[title]{display:none} p{display:block}", "p{display:none} p[title]{display:block}"),
        (":is(#i,q){display:none} p.a.b{display:block}", ":where(#i,q){display:none} p{display:block}"),
        ("p{display:none!important} #i{display:block}", "p{display:none} p{display:block!important}"),
        (
            "p{display:none ! important} #i{display:block!important;display:none!important}",
            "#i{display:none!important} p#i{display:block!important}",
        ),
        ("@layer a{#i{display:block}} p{display:none}", "@layer a{#i{display:none}} p{display:block}"),
        (
            "@layer a,b; @layer b{p{display:none}} @layer a{#i{display:block}}",
            "@layer b{#i{display:none}} @layer c{p{display:block}}",
        ),
        (
            "@layer a{p{display:none!important}} #i{display:block!important}",
            "@layer a{p{display:block!important}} #i{display:none!important}",
        ),
        (
            "@layer a{p{display:none} @layer c{#i{display:block}}}",
            "@layer a.c{#i{display:none}} @layer a{p{display:block}}",
        ),
        ("p{display:none;display:nonsense}", "p{display:none;display:block}"),
        ("p{color:#fff;color:nonsense}", "p{color:#fff;color:#777}"),
        ("p{background:#000;color:#000}", "p{background:#000;background-color:#fff;color:#000}"),
        ("p{font-size:9px;font:0/0 serif}", "p{font:0/0 serif;font-size:9px}"),
        ("p{opacity:0;opacity:much}", "p{opacity:0;opacity:1}"),
        ("p{display:block;all:unset;display:none}", "p{display:none;all:unset}"),
    ],
)  # fmt: skip
def test_the_cascade_decides_between_rules(hiding: str, showing: str) -> None:
    body = "<p id=i class='a b k z' title=t>secret 4711</p>"
    assert html_lines(f"<style>{hiding}</style>{body}").hidden == ["secret", "4711"]
    assert html_lines(f"<style>{showing}</style>{body}") == ["secret 4711"]


@pytest.mark.parametrize(
    ("hidden", "shown"),
    [
        ("--d:none;display:var(--d)", "--d:block;display:var(--d)"),
        ("--D:NONE;--d:block;DISPLAY:VAR(--D)", "--d:none;--D:block;display:var(--D)"),
        ("display:var(--unset, none)", "display:none;display:var(--unset)"),
        ("--a:var(--b);--b:none;display:var(--a)", "--a:var(--a);display:none;display:var(--a)"),
        ("font-size:calc(1px * 0)", "font-size:calc(2px * 6)"),
        ("font-size:clamp(0px, 0.1vw, 1px)", "font-size:clamp(9px, 0.1vw, 20px)"),
        ("font-size:12px;font-size:0em", "font-size:0;font-size:12px"),
        ("position:absolute;left:calc(0px - 9999px)", "position:absolute;left:calc(9999px - 9990px)"),
        ("position:absolute;left:-100%", "position:absolute;left:-10%"),
        ("position:fixed;inset:-999em auto auto 0", "left:-9999px"),
        ("position:absolute;right:99999px", "position:absolute;right:9px"),
        ("-webkit-text-fill-color:transparent", "color:white;-webkit-text-fill-color:black"),
        ("color:hsl(0 0% 100%)", "color:hsl(0 0% 50%)"),
        ("color:oklch(100% 0 0)", "color:oklch(50% 0 0)"),
        ("color:rgb(0 0 0 / 2%)", "color:rgb(0 0 0 / 90%)"),
        ("color:#ffffff00", "color:#000000ff"),
        ("background:rgba(0,0,0,.02);color:#fff", "background:rgba(0,0,0,.5);color:#fff"),
        ("color:white;background:none", "color:white;background:linear-gradient(navy, black)"),
        ("content-visibility:hidden", "content-visibility:auto"),
        ("filter:opacity(0)", "filter:opacity(80%)"),
        ("scale:0", "scale:1.5"),
        ("translate:-9999px", "translate:-9px"),
        ("transform:translate3d(0, -9999px, 0)", "transform:translate3d(0, -9px, 0)"),
        ("transform:rotateX(90deg)", "transform:rotateX(10deg)"),
        ("transform:matrix(0,0,0,0,0,0)", "transform:matrix(1,0,0,1,0,0)"),
        ("position:absolute;clip:rect(1px 1px 1px 1px)", "clip:rect(0,0,0,0)"),
        ("position:absolute;clip:rect(0px, 0px, 99px, 0px)", "position:absolute;clip:rect(0px, 90px, 99px, 0px)"),
        ("clip-path:circle(0)", "clip-path:circle(0.5%)"),
        ("clip-path:polygon(0 0, 0 0, 0 0)", "clip-path:polygon(0 0, 9px 0, 0 9px)"),
        ("overflow:hidden;width:0", "width:0"),
        ("overflow-x:clip;max-height:1px", "overflow:visible;height:0"),
        ("margin:0 0 0 -5000px", "margin:0 -5000px 0 0"),
        ("display:none;/*display:block*/", "/*display:none;*/"),
        ("DISPLAY:NONE", "DISPLAY:BLOCK"),
        ("d\\69splay:non\\65", "display:contents"),
    ],
)
def test_however_a_value_is_written_it_hides_or_shows(hidden: str, shown: str) -> None:
    assert html_lines(f'<p style="{hidden}">secret 4711</p>').hidden == ["secret", "4711"]
    assert html_lines(f'<p style="{shown}">secret 4711</p>') == ["secret 4711"]


def test_what_attributes_hide_a_style_sheet_may_show() -> None:
    assert html_lines("<p hidden style='display:block'>a<p hidden>b") == ["a"]
    assert html_lines("<style>dialog{display:block}</style><dialog>a</dialog>") == ["a"]
    assert html_lines("<p hidden=until-found>a").hidden == ["a"]


def test_opacity_adds_up_and_a_line_of_text_has_no_height_to_cut() -> None:
    assert html_lines("<div style='opacity:.2'><p style='opacity:.2'>a</div>").hidden == ["a"]
    assert html_lines("<p><span style='overflow:hidden;height:0'>a</span>") == ["a"]


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


@pytest.mark.parametrize("part", ["{", "a", "@media{", "p{color:", "}", "p{color:(", "p:not(", "/*", "'", "[", "@a{"])
def test_a_style_sheet_that_never_ends_is_no_trap(part: str) -> None:
    assert html_lines(f"<style>{part * 100_000}</style><p>seen</p>") == ["seen"]


DEEP = "<div class=a>" + "<div>" * 200 + "<b>x</b>"
LONG = "<p>" + "<i></i>" * 30_000 + "<i>x</i>"


@pytest.mark.parametrize(
    ("sheet", "body", "reason"),
    [
        ("p{color:red}" * 200_000, "x", "characters of CSS"),
        ("p,q{color:red}" * 20_000, "x", "selectors"),
        ("p{" * 1000, "x", "rules within more than"),
        ("div .a" + " div" * 12 + " b{display:none}", DEEP, "steps"),
        (".q ~ i ~ i ~ i{display:none}", LONG, "steps"),
        ("i:nth-last-of-type(n+2):nth-of-type(n+2){display:none}", LONG, "steps"),
        ("p:has(.q) i, i:has(~ .q), p:has(i ~ .q){display:none}", LONG, "steps"),
        ("*:not(.q):not(.r){color:red}" * 9_000, LONG, "steps"),
        ("p" + ":not(.a)" * 1000 + "{color:red}", "x", "selector of more than"),
    ],
    ids=["megabytes", "selectors", "nesting", "ancestors", "siblings", "types", "has", "all", "long"],
)
def test_beyond_a_limit_a_file_is_unreadable_so_that_no_hidden_text_is_visible(
    sheet: str, body: str, reason: str
) -> None:
    with pytest.raises(Unreadable, match=f"style sheets hold .*{reason}.*: it cannot be told which text"):
        html_lines(f"<style>{sheet} .off{{display:none}}</style><p class=off>secret</p>{body}")


def test_a_large_page_with_a_large_style_sheet_is_within_the_limits() -> None:
    sheet = "".join(f".row .c{at}:hover > a, .c{at} p:first-child{{color:#333;padding:{at}px}}\n" for at in range(3000))
    sheet += "*,::before{box-sizing:border-box;color:#333} tr:nth-of-type(2n){background:#eee} .off{display:none}"
    rows = "".join(f"<tr class=row><td class=c{at % 3000}><p>a</p><td class=off>b" for at in range(2000))
    page = html_lines(f"<style>{sheet}</style><table>{rows}</table>")
    assert (len(page), page.hidden) == (2000, ["b"] * 2000)


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
