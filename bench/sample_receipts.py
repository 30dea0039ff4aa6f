"""Draws the five sample receipts of `POST /api/stacks/samples` as PDF files: invented shops, one ambiguous date, and
one receipt whose total is torn off.

    python bench/sample_receipts.py
"""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "backend/fieldmark/sample_files"

_WIDTH, _HEIGHT = 300, 300

# File, colour of the letterhead, shop, address, date, lines, total (None: torn off).
_RECEIPTS: tuple[tuple[str, str, str, str, str, tuple[tuple[str, str], ...], str | None], ...] = (
    (
        *("hardware.pdf", "0.16 0.33 0.54", "Pennywise Hardware Ltd", "12 Mill Lane, Ashby", "24 November 2026"),
        (("Screws 4 x 40, 100 pieces", "6.20"), ("Wood glue", "4.85"), ("Sandpaper", "4.50")),
        "15.55",
    ),
    (
        *("cafe.pdf", "0.44 0.24 0.12", "Corner Fig Cafe Ltd", "3 Station Road, Ashby", "04/05/2026"),
        (("Lunch menu, 2 persons", "28.00"), ("Mineral water", "3.20"), ("Coffee", "3.40")),
        "34.60",
    ),
    (
        *("taxi.pdf", "0.10 0.10 0.12", "Lark & Sons Taxi Ltd", "Railway Arches 7, Ashby", "4 November 2026"),
        (("Station to Harbour Street", "18.00"), ("Waiting time", "4.00")),
        None,
    ),
    (
        *("books.pdf", "0.12 0.42 0.29", "Tamsin Rowe Books Ltd", "41 High Street, Ashby", "17 November 2026"),
        (("Atlas of rivers", "32.00"), ("Notebook, ruled", "7.90")),
        "39.90",
    ),
    (
        *("flowers.pdf", "0.55 0.20 0.36", "Bright Water Flowers Ltd", "9 Market Square, Ashby", "20 November 2026"),
        (("Bouquet, autumn", "24.00"), ("Vase", "11.50"), ("Delivery", "5.00")),
        "40.50",
    ),
)


def draw(receipt: tuple[str, str, str, str, str, tuple[tuple[str, str], ...], str | None]) -> bytes:
    """Return a PDF of one page with a text layer."""
    _, colour, shop, address, day, lines, total = receipt
    parts = [f"{colour} rg 0 {_HEIGHT - 64} {_WIDTH} 64 re f", _text("F2", 17, 24, _HEIGHT - 34, shop, "1 1 1")]
    parts += [_text("F1", 9, 24, _HEIGHT - 52, address, "1 1 1"), _text("F1", 10, 24, _HEIGHT - 90, f"Date: {day}")]
    parts.append(_text("F1", 10, 24, _HEIGHT - 106, f"Sold by: {shop}"))
    top = _HEIGHT - 136
    for number, (name, price) in enumerate(lines):
        parts += [_text("F1", 10, 24, top - 20 * number, name), _text("F1", 10, 226, top - 20 * number, price)]
    top -= 20 * len(lines)
    parts.append(f"0.75 G 24 {top + 8} m {_WIDTH - 24} {top + 8} l S")
    if total is None:  # a torn edge
        edge = " ".join(f"{x} {top - 22 - (x // 15 % 2) * 9} l" for x in range(0, _WIDTH + 1, 15))
        parts.append(f"0.9 0.9 0.92 rg 0 0 m {edge} {_WIDTH} 0 l f")
    else:
        parts += [_text("F2", 13, 24, top - 16, "Total:"), _text("F2", 13, 220, top - 16, total)]
        parts.append(_text("F1", 9, 24, 28, "Thank you for your visit.", "0.4 0.4 0.45"))
    return _pdf("\n".join(parts))


def _text(font: str, size: int, x: int, y: int, words: str, colour: str = "0.1 0.1 0.12") -> str:
    return f"BT {colour} rg /{font} {size} Tf {x} {y} Td ({words}) Tj ET"


def _pdf(content: str) -> bytes:
    fonts = " ".join(
        f"/F{number} << /Type /Font /Subtype /Type1 /BaseFont /{name} >>"
        for number, name in ((1, "Helvetica"), (2, "Helvetica-Bold"))
    )
    objects = (
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {_WIDTH} {_HEIGHT}] /Contents 4 0 R "
        f"/Resources << /Font << {fonts} >> >> >>",
        f"<< /Length {len(content)} >>\nstream\n{content}\nendstream",
    )
    file, offsets = "%PDF-1.4\n", list[int]()
    for number, body in enumerate(objects, 1):
        offsets.append(len(file))
        file += f"{number} 0 obj\n{body}\nendobj\n"
    rows = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    size = len(objects) + 1
    file += f"xref\n0 {size}\n0000000000 65535 f \n{rows}"
    file += f"trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{file.rindex('xref')}\n%%EOF\n"
    return file.encode("ascii")


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for receipt in _RECEIPTS:
        (FOLDER / receipt[0]).write_bytes(draw(receipt))


if __name__ == "__main__":
    main()
