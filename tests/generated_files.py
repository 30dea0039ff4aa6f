from __future__ import annotations

import ctypes
import io
import zipfile
from collections.abc import Sequence

from PIL import Image, ImageDraw, ImageFont

from pagewords.pdfium import CURVE, MOVE, pdfium

A4 = "[0 0 595 842]"


def make_pdf(
    contents: Sequence[str],
    media_box: str = A4,
    page_entries: str = "",
    trailer: str = "",
    extra: Sequence[str] = (),
    resources: str = "",
    catalog: str | None = None,
    inherited: str = "",
) -> bytes:
    """Return a PDF with one page per content stream. Fonts are /F1 Helvetica and /F2 Courier. `extra` are the objects
    from number 1000 on. Without `catalog`, object 1000 is a form field. With `inherited`, the entries for resources of
    the page tree, pages have none of their own."""
    kids = " ".join(f"{10 + 2 * index} 0 R" for index in range(len(contents)))
    form = ("/AcroForm << /Fields [1000 0 R] >>" if extra else "") if catalog is None else catalog
    objects = {
        1: f"<< /Type /Catalog /Pages 2 0 R {form} >>",
        2: f"<< /Type /Pages /Kids [{kids}] /Count {len(contents)} {inherited} >>",
        3: "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        4: "<< /Type /Font /Subtype /Type1 /BaseFont /Courier /Encoding /WinAnsiEncoding >>",
    }
    for index, content in enumerate(contents):
        number = 10 + 2 * index
        own = "" if inherited else f"/Resources << /Font << /F1 3 0 R /F2 4 0 R /F3 1000 0 R >> {resources} >>"
        objects[number] = (
            f"<< /Type /Page /Parent 2 0 R /MediaBox {media_box} {page_entries} /Contents {number + 1} 0 R {own} >>"
        )
        objects[number + 1] = f"<< /Length {len(content.encode('cp1252'))} >>\nstream\n{content}\nendstream"
    objects |= dict(enumerate(extra, start=1000))
    out = bytearray(b"%PDF-1.7\n")
    offsets: dict[int, int] = {}
    for number, body in sorted(objects.items()):
        offsets[number] = len(out)
        out += f"{number} 0 obj\n{body}\nendobj\n".encode("cp1252")
    start = len(out)
    size = max(offsets) + 1
    out += f"xref\n0 {size}\n0000000000 65535 f \n".encode()
    for number in range(1, size):
        out += f"{offsets[number]:010} 00000 n \n".encode() if number in offsets else b"0000000000 00000 f \n"
    out += f"trailer\n<< /Size {size} /Root 1 0 R {trailer} >>\nstartxref\n{start}\n%%EOF\n".encode()
    return bytes(out)


def stream(content: str, entries: str = "") -> str:
    return f"<< {entries} /Length {len(content.encode('cp1252'))} >>\nstream\n{content}\nendstream"


def text_at(text: str, x: float, y: float, size: float = 12, font: str = "F1", matrix: str = "1 0 0 1") -> str:
    """Return PDF operators that draw a text with its baseline at (x, y), where y counts from the bottom of the page."""
    return f"BT /{font} {size} Tf {matrix} {x} {y} Tm ({text}) Tj ET\n"


def outlines(text: str, x: float, y: float, size: float = 12) -> list[str]:
    """Return PDF operators that draw each character of a text in Helvetica as the outline of its glyph."""
    pdfium.FPDF_InitLibrary()
    document = pdfium.FPDF_CreateNewDocument()
    font = pdfium.FPDFText_LoadStandardFont(document, b"Helvetica")
    across, up, width = ctypes.c_float(), ctypes.c_float(), ctypes.c_float()
    drawn: list[str] = []
    for character in text:
        glyph = pdfium.FPDFFont_GetGlyphPath(font, ord(character), size)
        operators: list[str] = []
        curve: list[str] = []
        for at in range(pdfium.FPDFGlyphPath_CountGlyphSegments(glyph)):
            segment = pdfium.FPDFGlyphPath_GetGlyphPathSegment(glyph, at)
            pdfium.FPDFPathSegment_GetPoint(segment, ctypes.byref(across), ctypes.byref(up))
            kind, point = (
                pdfium.FPDFPathSegment_GetType(segment),
                f"{x + size * across.value:.3f} {y + size * up.value:.3f}",
            )
            if kind == CURVE:
                curve.append(point)
                if len(curve) == 3:
                    operators.append(" ".join(curve) + " c")
                    curve = []
            else:
                operators.append(f"{point} {'m' if kind == MOVE else 'l'}")
        drawn.append(" ".join(operators))
        pdfium.FPDFFont_GetGlyphWidth(font, ord(character), size, ctypes.byref(width))
        x += width.value
    pdfium.FPDF_CloseDocument(document)
    return drawn


def text_image(lines: Sequence[str], size: tuple[int, int] = (740, 740)) -> Image.Image:
    """Draw black text on white, large enough for OCR, which takes longest for wide pictures. Two spaces in a line make
    a wide gap."""
    image = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(40)
    for row, line in enumerate(lines):
        for column, part in enumerate(line.split("  ")):
            draw.text((40 + 500 * column, 40 + 90 * row), part, fill="black", font=font)
    return image


def image_object(image: Image.Image) -> str:
    """Return a PDF image object. The content `q 300 0 0 100 50 500 cm /I1 Do Q` draws it 300 wide and 100 high."""
    grey = image.convert("L")
    entries = f"/Type /XObject /Subtype /Image /Width {grey.width} /Height {grey.height} /ColorSpace /DeviceGray"
    return stream(grey.tobytes().hex() + ">", f"{entries} /BitsPerComponent 8 /Filter /ASCIIHexDecode")


def encode(image: Image.Image, kind: str, **options: object) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def make_zip(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return out.getvalue()


PKCS7 = bytes.fromhex("06092a864886f70d0107")


def asn1(tag: int, *contents: bytes) -> bytes:
    content = b"".join(contents)
    size = len(content)
    length = bytes([size]) if size < 128 else bytes([0x82]) + size.to_bytes(2, "big")
    return bytes([tag]) + length + content


def open_asn1(tag: int, *contents: bytes) -> bytes:
    """Return an element of indefinite length."""
    return bytes([tag, 0x80]) + b"".join(contents) + b"\0\0"


def sign(content: bytes | None, *, in_pieces: bool = False, kind: int = 2) -> bytes:
    """Return a signed file; the certificate and the signature are only bytes."""
    wrap = open_asn1 if in_pieces else asn1
    pieces = [content[at : at + 7] for at in range(0, len(content), 7)] if content and in_pieces else [content or b""]
    octets = [asn1(4, piece) for piece in pieces]
    inside = [wrap(0xA0, wrap(0x24, *octets) if in_pieces else octets[0])] if content is not None else []
    encapsulated = wrap(0x30, PKCS7 + b"\x01", *inside)
    signed = wrap(0x30, asn1(2, b"\x01"), asn1(0x31), encapsulated, asn1(0x31, asn1(0x30, b"signature")))
    return wrap(0x30, PKCS7 + bytes([kind]), wrap(0xA0, signed))
