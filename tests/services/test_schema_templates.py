"""The schema templates: each is usable, and its sample follows it: all values are found in it and no rule is broken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fieldmark.domain.schema import check_schema, violations
from fieldmark.services.evidence import ground_in
from fieldmark.services.labelled_fields import read_fields
from fieldmark.services.schema_templates import schema_templates
from pagewords.pages import Limits
from pagewords.sandbox import read_file
from valuegrounding import DocumentIndex

pytestmark = pytest.mark.anyio

TEMPLATES = {one.name: one for one in schema_templates()}
PAPER = {"text": "Copy paper A4, box", "quantity": 10, "unit_price": 24.5, "total": 245}
ENVELOPES = {"text": "Envelopes C5, 500 pieces", "quantity": 4, "unit_price": 18.75, "total": 75}
VALUES: dict[str, dict[str, Any]] = {
    "invoice": {
        "number": "INV-2041",
        "issue_date": "2026-03-02",
        "due_date": "2026-04-01",
        "vendor": {"name": "Exemplar Paper Ltd", "vat_id": "GB000000000"},
        "customer": {"name": "Testfield Office Supplies"},
        "currency": "EUR",
        "items": [PAPER, ENVELOPES],
        "subtotal": 320,
        "tax": 64,
        "total": 384,
        "iban": "GB00 TEST 0000 0000 0000 00",
    },
    "receipt": {
        "vendor": "Corner Bakery Example",
        "date": "2026-05-14",
        "items": [{"text": "Rye bread", "quantity": 2, "total": 7.8}, {"text": "Apple cake", "total": 3.2}],
        "total": 11,
        "paid": 20,
        "change": 9,
    },
    "contract": {
        "title": "Maintenance agreement",
        "parties": [{"name": "Sampleworks Lifts Ltd", "role": "provider"}, {"name": "Testfield Towers Ltd"}],
        "start_date": "2026-07-01",
        "end_date": "2028-06-30",
        "notice_days": 90,
        "monthly_fee": 480,
        "governing_law": "Ireland",
    },
    "bank_statement": {
        "bank": "Example Savings Bank",
        "iban": "GB00 TEST 1111 2222 3333 44",
        "period_start": "2026-02-01",
        "period_end": "2026-02-28",
        "opening_balance": 1500,
        "transactions": [
            {"date": "2026-02-03", "text": "Transfer from Sampleworks Lifts", "amount": 820},
            {"date": "2026-02-10", "text": "Rent", "amount": -950},
            {"date": "2026-02-21", "text": "Electricity", "amount": -120.5},
        ],
        "total_changes": -250.5,
        "closing_balance": 1249.5,
    },
    "payslip": {
        "employer": "Exemplar Paper Ltd",
        "employee": "Sample Person",
        "period_start": "2026-01-01",
        "period_end": "2026-01-31",
        "earnings": [{"text": "Basic salary", "amount": 2900}, {"text": "Overtime", "amount": 150}],
        "gross": 3050,
        "deductions": [{"text": "Income tax", "amount": 512.3}, {"text": "Social insurance", "amount": 338.7}],
        "total_deductions": 851,
        "net": 2199,
    },
    "purchase_order": {
        "number": "PO-771",
        "order_date": "2026-02-20",
        "delivery_date": "2026-03-02",
        "buyer": {"name": "Testfield Office Supplies"},
        "supplier": {"name": "Exemplar Paper Ltd"},
        "items": [{**PAPER, "article_number": "P-100"}, {**ENVELOPES, "article_number": "E-205"}],
        "total": 320,
    },
    "delivery_note": {
        "number": "DN-3308",
        "order_number": "PO-771",
        "delivery_date": "2026-03-02",
        "supplier": {"name": "Exemplar Paper Ltd"},
        "items": [
            {"text": "Copy paper A4", "quantity": 10, "unit": "box"},
            {"text": "Envelopes C5", "quantity": 4, "unit": "pack"},
        ],
        "total_quantity": 14,
        "packages": 3,
        "weight": 127.5,
    },
    "id_document": {
        "kind": "identity card",
        "number": "X00000000",
        "surname": "SPECIMEN",
        "given_names": "ALEX",
        "date_of_birth": "1990-01-01",
        "issue_date": "2024-05-06",
        "expiry_date": "2034-05-05",
    },
    "cv": {
        "name": "Sample Person",
        "email": "sample@example.com",
        "experience": [
            {
                "employer": "Exemplar Paper Ltd",
                "position": "Head of accounting",
                "start_date": "2021-04-01",
                "end_date": "2026-01-31",
            }
        ],
        "education": [{"institution": "College of Exampleton"}],
        "languages": ["English", "German"],
    },
    "form": {
        "title": "Application for a parking permit",
        "form_number": "PP-12",
        "submitted_on": "2026-04-10",
        "applicant": {"name": "Testfield Office Supplies"},
        "fields": [{"label": "Number plate", "value": "EX 1234"}, {"label": "Second plate"}],
        "signed_on": "2026-04-09",
    },
}
# For each template, a change of the values that breaks one of its rules.
BROKEN: dict[str, dict[str, Any]] = {
    "invoice": {"subtotal": 321},
    "receipt": {"change": 8},
    "contract": {"end_date": "2026-06-30"},
    "bank_statement": {"closing_balance": 1250},
    "payslip": {"net": 2200},
    "purchase_order": {"total": 321},
    "delivery_note": {"total_quantity": 15},
    "id_document": {"expiry_date": "2024-05-05"},
    "cv": {"experience": [{"employer": "A", "position": "B", "start_date": "2021-04-01", "end_date": "2020-04-01"}]},
    "form": {"signed_on": "2026-04-11"},
}


def test_there_are_ten_templates_that_can_be_used() -> None:
    assert TEMPLATES.keys() == VALUES.keys()
    for template in TEMPLATES.values():
        check_schema(template.schema)


@pytest.mark.parametrize("name", VALUES)
async def test_a_sample_follows_its_template_with_every_value_found(name: str, tmp_path: Path) -> None:
    template, values = TEMPLATES[name], VALUES[name]
    file = tmp_path / f"{name}.txt"
    file.write_text(template.sample, "utf-8")
    pages = (await read_file(file, file.name, Limits())).pages
    found = ground_in(DocumentIndex(pages), values, {})
    assert [one["path"] for one in found if one["state"] not in ("found", "blank")] == []
    evidence = {one["path"]: one for one in found}
    assert violations(template.schema, values, evidence) == []


@pytest.mark.parametrize("name", BROKEN)
def test_a_template_finds_a_value_that_breaks_its_rules(name: str) -> None:
    found = {one.code for one in violations(TEMPLATES[name].schema, {**VALUES[name], **BROKEN[name]})}
    assert found - {"grounded"} in ({"sum"}, {"date_order"})  # no value was looked for


@pytest.mark.parametrize("name", ["invoice", "receipt"])
def test_what_the_offline_model_reads_in_a_sample_is_right(name: str) -> None:
    read = {field.keys: field.value for field in read_fields(TEMPLATES[name].sample, TEMPLATES[name].schema)}
    own = {(key,): value for key, value in VALUES[name].items() if not isinstance(value, (dict, list))}
    assert read.keys() & own.keys() >= {("total",)}
    assert {keys: value for keys, value in read.items() if keys in own and own[keys] != value} == {}
