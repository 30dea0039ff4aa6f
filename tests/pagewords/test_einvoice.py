from __future__ import annotations

from pathlib import Path

import pytest

from generated_files import make_pdf, text_at
from pagewords import sniff
from pagewords.einvoice import read_attachments, read_einvoice
from pagewords.errors import OverLimit, Unsupported
from pagewords.jobs import DrawJob
from pagewords.pages import Limits, Page
from pagewords.pdf import Pdf
from pagewords.reading_warnings import ReadingWarning, WarningCode
from pagewords.sandbox import draw_pages, read_file

pytestmark = pytest.mark.anyio

SAMPLE = Path(__file__).parents[2] / "docs" / "samples" / "zf_mustang_20221026.pdf"
UBL = b"""<?xml version="1.0"?>
<Invoice xmlns="urn:oasis:names:specification:ubl:schema:xsd:Invoice-2" xmlns:c="urn:x"><c:ID>RE-1</c:ID>
<c:Line><c:Price currencyID="EUR">12.50</c:Price></c:Line>
<c:Line><c:Price currencyID="EUR">7.50</c:Price><c:Note/></c:Line>
<c:LegalMonetaryTotal><c:PayableAmount currencyID="EUR">1020.00</c:PayableAmount></c:LegalMonetaryTotal></Invoice>"""


def make_pdf_with_attachments(content: str, *files: tuple[str, bytes]) -> bytes:
    extra: list[str] = []
    names = ""
    for index, (name, data) in enumerate(files):
        number = 1000 + 2 * index
        body = data.decode("latin-1")
        extra += [
            f"<< /Type /Filespec /F ({name}) /UF ({name}) /EF << /F {number + 1} 0 R >> >>",
            f"<< /Type /EmbeddedFile /Length {len(data)} >>\nstream\n{body}\nendstream",
        ]
        names += f"({name}) {number} 0 R "
    return make_pdf([content], extra=extra, catalog=f"/Names << /EmbeddedFiles << /Names [{names}] >> >>")


def read(data: bytes) -> tuple[list[Page], list[ReadingWarning]]:
    return read_attachments(Pdf(data, Limits()), Limits())


def test_einvoice_is_read_as_paths_and_values() -> None:
    assert sniff.media_type(UBL, "a.xml") == sniff.EINVOICE
    assert sniff.media_type(b"<?xml version='1.0'?><Invoice><ID>1</ID></Invoice>", "a.xml") == sniff.TXT
    assert read_einvoice(UBL).parts == [
        [
            "ID: RE-1",
            "Line[0].Price: 12.50 (currencyID EUR)",
            "Line[1].Price: 7.50 (currencyID EUR)",
            "LegalMonetaryTotal.PayableAmount: 1020.00 (currencyID EUR)",
        ]
    ]


def test_deeply_nested_einvoice_is_refused_and_left_out_of_a_pdf() -> None:
    nest = b"".join(b"<c:" + b"x" * 200 + b">" for _ in range(200))
    ends = b"".join(b"</c:" + b"x" * 200 + b">" for _ in range(200))
    bomb = UBL.replace(b"<c:LegalMonetaryTotal>", nest + b"<c:a>1</c:a>" * 200 + ends + b"<c:LegalMonetaryTotal>")
    with pytest.raises(OverLimit):
        read_einvoice(bomb)
    with pytest.raises(Unsupported):
        read_einvoice(UBL.replace(b"<Invoice", b'<!DOCTYPE x [<!ENTITY e "e">]><Invoice', 1))
    pages, warnings = read(make_pdf_with_attachments(text_at("No RE-1", 50, 700), ("factur-x.xml", bomb)))
    assert pages == [] and [warning.code for warning in warnings] == [WarningCode.ATTACHMENTS_NOT_READ]


def test_embedded_einvoice_follows_the_pages_of_its_pdf_with_one_warning() -> None:
    long = UBL.replace(b"<c:Line>", b"".join(b"<c:Note>%d</c:Note>" % n for n in range(200)) + b"<c:Line>", 1)
    (first, second), warnings = read(make_pdf_with_attachments(text_at("No RE-1", 50, 700), ("factur-x.xml", long)))
    assert warnings == [] and second.warnings == () and (first.number, first.engine, second.engine) == (2, "xml", "xml")
    assert [(one.code, one.page, one.count) for one in first.warnings] == [(WarningCode.MACHINE_READABLE, 2, 2)]


EMBEDDED = (
    b'<c:AdditionalDocumentReference><c:Attachment><c:EmbeddedDocumentBinaryObject mimeCode="application/pdf" '
    b'filename="times.pdf">JVBE\nRi0xLjQK</c:EmbeddedDocumentBinaryObject></c:Attachment>'
    b"</c:AdditionalDocumentReference></Invoice>"
)
FATTURA = b"""<p:FatturaElettronica versione="FPR12" xmlns:p="http://ivaservizi.agenziaentrate.gov.it/docs/xsd/fatture/v1.2">
<FatturaElettronicaBody><ImportoTotaleDocumento>88.40</ImportoTotaleDocumento><Allegati>
<NomeAttachment>ore.pdf</NomeAttachment><Attachment>JVBERi0xLjQK</Attachment></Allegati></FatturaElettronicaBody>
</p:FatturaElettronica>"""


@pytest.mark.parametrize(("data", "name"), [(UBL.replace(b"</Invoice>", EMBEDDED), "times.pdf"), (FATTURA, "ore.pdf")])
def test_file_embedded_in_an_einvoice_is_enclosed_and_not_text(data: bytes, name: str) -> None:
    assert sniff.media_type(data, "a.xml") == sniff.EINVOICE
    invoice = read_einvoice(data)
    assert "JVBE" not in "\n".join(invoice.parts[0])
    ((found, unpack),) = invoice.enclosed
    assert (found, unpack(100)) == (name, b"%PDF-1.4\n")
    with pytest.raises(OverLimit):
        unpack(4)


def test_file_in_an_einvoice_in_a_pdf_gives_a_warning() -> None:
    pdf = make_pdf_with_attachments(text_at("No RE-1", 50, 700), ("x.xml", UBL.replace(b"</Invoice>", EMBEDDED)))
    (page,), _ = read(pdf)
    assert [(one.code, one.count, one.excerpt) for one in page.warnings[1:]] == [
        (WarningCode.ATTACHMENTS_NOT_READ, 1, "times.pdf")
    ]


def test_other_attachments_and_a_damaged_einvoice_give_warnings() -> None:
    data = make_pdf_with_attachments(text_at("No RE-1", 50, 700), ("terms.txt", b"x"), ("factur-x.xml", UBL[:-30]))
    pages, (warning,) = read(data)
    assert pages == []
    assert (warning.code, warning.count, warning.excerpt) == (
        WarningCode.ATTACHMENTS_NOT_READ,
        2,
        "terms.txt factur-x.xml",
    )


async def test_embedded_einvoice_of_a_real_pdf_has_a_page_image() -> None:
    reading = await read_file(SAMPLE, "a.pdf", Limits())
    first, second, *_ = reading.pages
    assert (first.engine, second.engine) == ("pdf", "xml") and "ExchangedDocument.ID: RE1001" in second.text
    assert len(await draw_pages(SAMPLE, DrawJob(sniff.PDF, [1, 2], 72, 1000, 10_000_000), Limits())) == 2
