"""The columns that identify a document in a table, such as an invoice's number. Two documents that agree in them are
likely duplicates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

from fieldmark.domain import paths
from fieldmark.domain.columns import Column
from valuegrounding.folding import fold_alphanumeric


class IdentifyingRole(StrEnum):
    VENDOR = "vendor"
    NUMBER = "number"
    DATE = "date"
    TOTAL = "total"


# The names of the columns of each role in English and German, as `fold_alphanumeric` returns them. The first that a
# table has is used.
_NAMES: Final[Mapping[IdentifyingRole, str]] = {
    IdentifyingRole.VENDOR: """
        vendorname suppliername sellername companyname merchantname issuername storename shopname vendor supplier seller
        company merchant issuer store shop payee lieferantname lieferant verkäufer firma händler absender
        rechnungssteller""",
    IdentifyingRole.NUMBER: """
        invoicenumber invoiceno invoicenum invoicenr invoiceid receiptnumber receiptno receiptid billnumber billno
        documentnumber documentno documentid creditnotenumber vouchernumber referencenumber rechnungsnummer rechnungsnr
        belegnummer belegnr dokumentnummer number no nr nummer reference""",
    IdentifyingRole.DATE: """
        invoicedate issuedate dateofissue issuedon issued receiptdate billdate billingdate documentdate transactiondate
        purchasedate date rechnungsdatum belegdatum datum""",
    IdentifyingRole.TOTAL: """
        grandtotal invoicetotal totalgross grosstotal totalinclusivetax totalincludingtax totalincltax totalwithtax
        totalamount amounttotal totalprice total amountdue totaldue gesamtbetrag rechnungsbetrag bruttobetrag endbetrag
        gesamtsumme summe brutto betrag amount""",
}
_NEUTRAL: Final = frozenset(
    ("invoice", "receipt", "bill", "document", "header", "data", "details", "totals", "amounts", "summary")
)
"""Objects that do not change what their fields mean: `totals.total` is a total."""


def identifying_columns(columns: Sequence[Column]) -> Mapping[IdentifyingRole, str]:
    """Return the paths of a table's columns by their role. Columns in lists have none."""
    by_name: dict[str, str] = {}
    for column in columns:
        keys = [fold_alphanumeric(step) for step in paths.parse_pattern(column.path) if isinstance(step, str)]
        if "[]" not in column.path:
            by_name.setdefault("".join(keys), column.path)
            while keys and keys[0] in _NEUTRAL:
                del keys[0]
            by_name.setdefault("".join(keys), column.path)
    found = {
        role: next((by_name[name] for name in names.split() if name in by_name), None) for role, names in _NAMES.items()
    }
    return {role: path for role, path in found.items() if path is not None}
