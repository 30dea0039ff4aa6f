from __future__ import annotations

import pytest

from pagewords.symbols import UNKNOWN, shown_symbols, symbol_font


@pytest.mark.parametrize(
    ("font", "codes", "symbols"),
    [
        ("symbol", "A3 B1 B3 B4 B8 B0 6D 57 A0 BC 44 20 E5 F2 FE", "≤±≥×÷°μΩ€…Δ ∑∫⎭"),
        ("symbol", "D2 DE D6 7E F0 80", f"®⇒√∼{UNKNOWN}{UNKNOWN}"),
        ("wingdings", "FC FB FE FD A8 6F 78 28 2A E0 DF E8 F0 D8", "✓✗☑☒☐☐☒☎✉→←→⇨➢"),
        ("wingdings", "80 81 8A 8C 95 9F A7 6C 4A C2 CB", f"⓪①⑩❶❿•▪●☺🕛{UNKNOWN}"),
        ("wingdings 2", "50 4F 52 A3 6A 21", f"✓✗☑☐①{UNKNOWN}"),
        ("wingdings 3", "70 71 67", "▲▼→"),
        ("webdings", "61 72", "✔✖"),
        ("", "B7 A7 FC", f"•▪{UNKNOWN}"),
    ],
)
def test_symbol_font_codes_become_characters(font: str, codes: str, symbols: str) -> None:
    assert shown_symbols(font, "".join(chr(0xF000 + int(code, 16)) for code in codes.split())) == symbols


def test_letters_become_symbols_in_symbol_fonts_only() -> None:
    assert (shown_symbols("symbol", "m "), shown_symbols("wingdings", "ü€"), shown_symbols("wingdings", "Ж")) == (
        "μ ",
        "✓⓪",
        "Ж",
    )
    assert shown_symbols("", "m ü \ue000") == "m ü \ue000"
    assert [symbol_font(name) for name in ("Wingdings", "'Symbol'", "Arial", None)] == ["wingdings", "symbol", "", ""]
