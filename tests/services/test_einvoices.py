"""Differences between an embedded e-invoice and the printed pages are reported with both values."""

from __future__ import annotations

from pathlib import Path

import pytest

from fieldmark.files import LocalFiles
from fieldmark.services.documents import DocumentService
from fieldmark.services.einvoices import MAX_MISMATCHES, find_mismatches
from fieldmark.stores import documents
from pagewords.einvoice import embedded_pages
from pagewords.pages import Limits, Page
from pagewords.pagination import paginate
from pagewords.reading_warnings import MAX_EXCERPT, WarningCode

SAMPLE = Path(__file__).parents[2] / "docs" / "samples" / "zf_mustang_20221026.pdf"
PRINTED = """Rechnung RE-2041 vom 05.03.2024
zahlbar bis 04.04.2024, geliefert am 01.03.2024
Netto 1.000,00   USt 190,00
Gesamt 1.190,00 €
IBAN DE75 5121 0800 1245 1261 99"""
UBL = """<Invoice xmlns="urn:oasis:names:specification:ubl:schema:xsd:Invoice-2"><ID>RE-2041</ID>
<IssueDate>2024-03-05</IssueDate><DueDate>2024-04-04</DueDate><DocumentCurrencyCode>EUR</DocumentCurrencyCode>
<Delivery><ActualDeliveryDate>2024-03-01</ActualDeliveryDate></Delivery>
<PaymentMeans><PayeeFinancialAccount><ID>DE75512108001245126199</ID></PayeeFinancialAccount></PaymentMeans>
<LegalMonetaryTotal><LineExtensionAmount currencyID="EUR">1000.00</LineExtensionAmount>
<PrepaidAmount currencyID="EUR">0.00</PrepaidAmount>
<PayableAmount currencyID="EUR">1190.00</PayableAmount></LegalMonetaryTotal></Invoice>"""
CII = """<rsm:CrossIndustryInvoice xmlns:rsm="urn:un:unece:uncefact:data:standard:CrossIndustryInvoice:100" xmlns:u="u">
<rsm:ExchangedDocument><u:ID>RE-2041</u:ID><u:IssueDateTime><u:DateTimeString format="102">20240305</u:DateTimeString>
</u:IssueDateTime></rsm:ExchangedDocument><u:Settlement><u:InvoiceCurrencyCode>EUR</u:InvoiceCurrencyCode>
<u:PayeePartyCreditorFinancialAccount><u:IBANID>DE75512108001245126199</u:IBANID>
</u:PayeePartyCreditorFinancialAccount><u:SpecifiedTradePaymentTerms><u:DueDateDateTime>
<u:DateTimeString format="102">20240404</u:DateTimeString></u:DueDateDateTime></u:SpecifiedTradePaymentTerms>
<u:SpecifiedTradeSettlementHeaderMonetarySummation><u:LineTotalAmount>1000.00</u:LineTotalAmount>
<u:GrandTotalAmount>1190.00</u:GrandTotalAmount><u:DuePayableAmount>1190.00</u:DuePayableAmount>
</u:SpecifiedTradeSettlementHeaderMonetarySummation></u:Settlement></rsm:CrossIndustryInvoice>"""


def make_pages(xml: str, printed: str = PRINTED) -> list[Page]:
    first = paginate([printed.splitlines()], "pdf", Limits())
    return [*first, *embedded_pages(xml.encode(), len(first), Limits())]


@pytest.mark.parametrize("xml", [UBL, CII])
@pytest.mark.parametrize(
    "printed",
    [
        PRINTED,
        PRINTED.replace("1.190,00 €", "EUR 1 190.00")
        .replace("05.03.2024", "5 March 2024")
        .replace("DE75 5121", "DE755121"),
        PRINTED.replace("zahlbar bis 04.04.2024", "zahlbar in 30 Tagen").replace(" €", ""),
        "",
    ],
)
def test_matching_einvoice_has_no_warning(xml: str, printed: str) -> None:
    assert find_mismatches(make_pages(xml, printed)) == []
    assert find_mismatches(make_pages(xml)[:1]) == []


@pytest.mark.parametrize(
    ("old", "new", "path", "expected"),
    [
        ("1190.00", "1910.00", "Amount", "1910.00 ≠ 1.190,00"),
        ("1000.00", "1000.10", "Amount", "1000.10 ≠ 1.000,00"),
        ("DE75512108001245126199", "DE12500105170648489890", "ID", "≠ DE75 5121 0800 1245 1261 99"),
        ("03-05|0305", "03-06|0306", "DateTimeString|IssueDate", "2024-03-06 ≠ 05.03.2024"),
        ("04-04|0404", "05-04|0504", "DateTimeString|DueDate", "2024-05-04 ≠ 04.04.2024"),
        ("EUR", "USD", "CurrencyCode", "USD ≠ EUR"),
        ("RE-2041", "RE-2047", "ID", "RE-2047 ≠ RE-2041"),
        ("RE-2041", "7", "ID", "7 ≠ –"),
    ],
)
def test_each_difference_is_reported_with_both_values(old: str, new: str, path: str, expected: str) -> None:
    for xml in (UBL, CII):
        changed = xml
        for one, other in zip(old.split("|"), new.split("|"), strict=True):
            changed = changed.replace(one, other)
        assert changed != xml
        (warning,) = find_mismatches(make_pages(changed))
        assert (warning.code, warning.page) == (WarningCode.INVOICE_DISAGREES, 2)
        assert warning.excerpt.endswith(expected) and warning.excerpt.split(":")[0].endswith(tuple(path.split("|")))


def test_account_number_that_is_not_printed_is_reported() -> None:
    (warning,) = find_mismatches(make_pages(UBL, PRINTED.rsplit("\n", 1)[0]))
    assert warning.excerpt == "PayeeFinancialAccount.ID: DE75512108001245126199 ≠ –"


def test_number_of_reported_differences_is_limited() -> None:
    many = "".join(
        f"<{'x' * 300}{n}><PayeeFinancialAccount><ID>{n}{'9' * 100}</ID></PayeeFinancialAccount></{'x' * 300}{n}>"
        for n in range(50)
    )
    warnings = find_mismatches(make_pages(UBL.replace("<LegalMonetaryTotal>", many + "<LegalMonetaryTotal>")))
    assert len(warnings) == MAX_MISMATCHES and all(len(one.excerpt) <= MAX_EXCERPT for one in warnings)


@pytest.mark.anyio
async def test_differences_of_a_real_file_are_stored_as_warnings(database, memory_path, make_user) -> None:
    scope = await make_user()
    service = DocumentService(database, LocalFiles(memory_path / "files"), Limits())
    document = await service.upload(scope, SAMPLE, "a.pdf")
    await service.read(document.id)
    async with database.as_user(scope) as conn:
        warnings = [one for one in await documents.warnings(conn, document.id) if one.code == "invoice_disagrees"]
    assert [one.page for one in warnings] == [4, 4, 4] and warnings[-1].excerpt.endswith(
        ".GrandTotalAmount: 963.11 ≠ 963,12"
    )
