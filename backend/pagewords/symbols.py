"""Symbol fonts, such as Symbol and Wingdings: the characters that their codes show."""

from __future__ import annotations

from pagewords.reading_warnings import MAX_EXCERPT, ReadingWarning, WarningCode

UNKNOWN = "\ufffd"

_PRIVATE_USE_CODES = range(0xF020, 0xF100)  # programs write the codes 20 to FF of these fonts in this range


def _table(first: int, rows: str) -> dict[int, str]:
    return {first + at: sign for at, sign in enumerate(rows) if sign != UNKNOWN}


_FONTS = {
    "symbol": _table(0x20, " !∀#∃%&∋()∗+,−./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_")
    | _table(0x60, "‾αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼")
    | _table(0xA0, "€ϒ′≤/∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…⏐⎯↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓")
    | _table(0xE0, "◊⟨®©™∑⎛⎜⎝⎡⎢⎣⎧⎨⎩⎪�⟩∫⌠⎮⌡⎞⎟⎠⎤⎥⎦⎫⎬⎭"),
    "wingdings": _table(0x20, " ✎✂✁👓🔔📖🕯☎✆✉✉📪📫📬📭📁📂📄📄📄🗄⌛⌨🖰🖲💻🖴💾💾✇✍")
    | _table(0x40, "✍✌👌👍👎☜☞☝☟✋☺😐☹💣☠⚐⚑✈☼💧❄✝✞✝✠✡☪☯ॐ☸♈♉")
    | _table(0x60, "♊♋♌♍♎♏♐♑♒♓&&●❍■☐☐❑❒⬧⧫◆❖⬥☒�⌘❀✿“”�⓪①②③④⑤⑥⑦⑧⑨⑩⓿❶❷❸❹❺❻❼❽❾❿��������·•")
    | _table(0xA0, "▪○○○◉◎○▪☐▲✦★✶✴✹✵⌖⌖⟡⌑�✪✰🕐🕑🕒🕓🕔🕕🕖🕗🕘🕙🕚🕛")
    | _table(0xD5, "⌫⌦�➢���➲��←→↑↓↖↗↙↘←→↑↓↖↗↙↘⇦⇨⇧⇩⬄⇳⬁⬀⬃⬂▭▫✗✓☒☑⊞"),
    "wingdings 2": _table(0x4F, "✗✓☒☑☒☒☒") | _table(0x69, "⓪①②③④⑤⑥⑦⑧⑨⑩⓿❶❷❸❹❺❻❼❽❾❿") | {0xA3: "☐"},
    "wingdings 3": _table(0x66, "←→↑↓↖↗↙↘") | _table(0x70, "▲▼△▽◀▶◁▷") | {0x7D: "▶"},
    "webdings": _table(0x33, "◀▶▲▼") | {0x61: "✔", 0x63: "□", 0x67: "■", 0x69: "ℹ", 0x6E: "●", 0x72: "✖"},
}  # fmt: skip
# Bullets copied without their font.
_BULLETS = {0xB7: "•", 0xA7: "▪"}


def symbol_font(name: str | None) -> str:
    """Return the name of a symbol font for `shown_symbols`; empty for a normal font."""
    name = (name or "").strip("'\" ").lower()
    return name if name in _FONTS else ""


def shown_symbols(font: str, text: str) -> str:
    """Return the characters that a symbol font shows for a text, with `UNKNOWN` for unknown symbols."""
    if not font and (text.isascii() or not any(ord(sign) in _PRIVATE_USE_CODES for sign in text)):
        return text
    return "".join(_shown_symbol(font, sign) for sign in text)


def _shown_symbol(font: str, sign: str) -> str:
    code = ord(sign)
    if code in _PRIVATE_USE_CODES:
        return _FONTS.get(font, _BULLETS).get(code - 0xF000, UNKNOWN)
    written = sign.encode("cp1252", "ignore")
    return _FONTS[font].get(written[0], UNKNOWN) if font and written and not sign.isspace() else sign


def unknown_symbols(signs: list[str]) -> list[ReadingWarning]:
    """Return the warning about unknown symbols, if there are any. `signs` are the font and code of each."""
    if not signs:
        return []
    excerpt = "; ".join(dict.fromkeys(signs))[:MAX_EXCERPT]
    return [ReadingWarning(WarningCode.UNKNOWN_SYMBOLS, None, len(signs), excerpt)]
