"""Hints at the country and kind of a document: how it writes dates, numbers, `$` and credits, if these alone do not
show it."""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple, TypeAlias

from valuegrounding import units
from valuegrounding.folding import fold

_MAX_CHARACTERS: Final = 100_000  # of the document's start that are read

# Languages other than English: their words for what documents say most, unless they are English words too.
_OTHER_WORDS: Final = """
und der das für mit bitte rechnung datum betrag mwst ust summe gesamt netto seite
le les des pour avec facture montant ttc tva votre et
los las del para con fecha factura importe iva el y
il lo della per con fattura importo
het een van voor factuur bedrag btw en
do dla oraz data faktura kwota och för summa moms og til beløb fatura valor não pagamento
"""
_ENGLISH_WORDS: Final = "the of and for with please invoice your our amount receipt number thank you"
_OTHERS: Final = frozenset(fold(_OTHER_WORDS).split())
_ENGLISH: Final = frozenset(_ENGLISH_WORDS.split())
_DAY_FIRST_PLACES: Final = (
    "united kingdom|england|scotland|wales|ireland|australia|new zealand|malaysia|singapore|india|pakistan|nigeria"
    "|kenya|deutschland|germany|österreich|austria|schweiz|switzerland|france|belgique|belgium|españa|spain|italia|italy"
    "|nederland|netherlands|portugal|brasil|brazil|méxico|mexico|argentina|chile|colombia|polska|poland"
    r"|sdn\.?\s?bhd|gmbh|pty\.?\s?ltd|plc|iban|gstin|abn|s\.?a\.?r\.?l|s\.p\.a|s\.r\.l|b\.v"
)
# Those that are words of some language are read only after a comma.
_STATES: Final = "ak|az|ca|ct|fl|ga|ia|ks|ky|md|mi|mn|mo|mt|nv|nh|nj|nm|ny|nc|nd|ri|sc|sd|tn|tx|ut|vt|wa|wv|wi|wy|dc"
_DOMAINS: Final = "uk|ie|au|nz|my|sg|pk|ng|ke|de|at|ch|fr|be|es|it|nl|pt|br|mx|ar|cl|pl|cz|dk|no|se|fi"
_DAY_FIRST = re.compile(
    rf"(?<![^\W_])(?:{_DAY_FIRST_PLACES})(?![^\W_])|(?:www\.|@)[\w-]{{1,40}}(?:\.com?)?\.(?:{_DOMAINS})(?![\w.])"
    "|[\u05d0-\u05ea\u0620-\u064a\u0e01-\u0e2e]"  # Hebrew, Arabic, Thai
)
_MONTH_FIRST_PLACES: Final = (
    r"usa|u\.s\.a|united states|(?<!\()inc(?!\.?\s(?:gst|vat|tax|of|all))|llc|sales tax|zip code"
)
_MONTH_FIRST = re.compile(
    rf"(?<![^\W_])(?:{_MONTH_FIRST_PLACES}|(?:{_STATES})[.,]?\s\d{{5}})(?![^\W_])"
    r"|,\s(?:al|ar|co|hi|id|il|la|ma|me|oh|ok|or|pa|va)\s\d{5}(?![^\W_])"
)
_OTHER_DOLLARS = re.compile(
    r"(?<![^\W_])(?:canada|ontario|toronto|quebec|québec|montréal|alberta|vancouver|australia|new zealand|singapore"
    r"|hong kong|taiwan|mexico|méxico|argentina|chile|colombia|pty\.?\s?ltd|s\.?a\.? de c\.?v)(?![^\W_])"
    r"|(?:www\.|@)[\w-]{1,40}(?:\.com?)?\.(?:ca|au|nz|sg|hk|tw|mx|ar|cl)(?![\w.])"
)
_WORD = re.compile(r"(?<![^\W_])[^\W\d_]{1,12}(?![^\W_])")
_COMMA_CURRENCIES: Final = frozenset(
    [
        "EUR",
        "PLN",
        "CZK",
        "HUF",
        "RON",
        "BGN",
        "DKK",
        "NOK",
        "SEK",
        "ISK",
        "BRL",
        "TRY",
        "RUB",
        "UAH",
        "IDR",
        "VND",
        "XAF",
        "XOF",
    ]
)
_POINT_CURRENCIES: Final = frozenset(["USD", "GBP", "MYR", "INR", "SGD", "AUD", "NZD", "PKR", "NGN", "KES", "PHP"])
_DAY_FIRST_CURRENCIES: Final = _COMMA_CURRENCIES | frozenset(
    ["GBP", "CHF", "MYR", "INR", "SGD", "AUD", "NZD", "PKR", "NGN", "KES"]
)
_MIN_WORDS: Final = 3  # of a language


DocumentKind: TypeAlias = Literal["account", "bill", "ledger"]
"""The statement of a bank account, in which a credit is positive; a bill or the statement of a credit card, in which a
credit is negative; a ledger or another document with German debit and credit signs (S and H), which may be either."""

# Each line is one hint. A bank's customer may pay an invoice, and a bill may have a balance: the more hints count.
_ACCOUNT_HINTS: Final = r"""
(?:opening|closing|available|ledger|running|cleared) balance|balance (?:brought|carried) (?:forward|down)
(?:savings?|current|checking|cheque|deposit|giro|bank) (?:account|statement)|account (?:statement|holder|summary)
deposits?|withdrawals?|paid (?:in|out)|money (?:in|out)
overdraft|overdrawn|sort code|passbook|ifsc
kontoauszug\w*|kontostand\w*|girokonto|tagesgeldkonto|umsatze|kontoinhaber\w*
(?:alter|neuer|anfangs|end|schluss)\W?saldo|saldovortrag|buchungstag|bu\.\W?tag|wertstellung|valuta
releve de compte|estratto conto|extracto (?:de cuenta|bancario)|rekeningafschrift|kontoutdrag|extrato
"""
_BILL_HINTS: Final = r"""
invoice|tax invoice|credit note|rechnung|gutschrift|facture|factura|fattura|fatura|factuur|faktura
bill|billing (?:date|period|address)|meter reading|usage|tariff
credit card|card (?:statement|number|member)|kreditkarte\w*
credit limit|available credit|cash advances?|minimum payment|purchases
(?:amount|total|balance|payment) due|due date|please pay|new charges|rechnungsbetrag|zahlbar\w*
"""


def _hints(lines: str) -> list[re.Pattern[str]]:
    return [re.compile(rf"(?<![^\W_])(?:{line})(?![^\W_])") for line in lines.strip().splitlines()]


_HINTS: Final[tuple[tuple[DocumentKind, list[re.Pattern[str]]], ...]] = (
    ("account", _hints(_ACCOUNT_HINTS)),
    ("bill", _hints(_BILL_HINTS)),
)
_SIDES: Final = re.compile(
    r"(?<![^\W_])(?:soll\W{1,3}(?:und\W)?haben|s/h|saldenliste|kontenblatt|kontoblatt)(?![^\W_])"
    r"|,\d\d ?[sh] ?(?:eur(?![^\W_])|€)(?! ?\d)"
)


class Conventions(NamedTuple):
    """`order`: `dmy`, `mdy` or None. `decimal_mark`: `.`, `,` or None. None: the document does not show it."""

    order: str | None
    decimal_mark: str | None


def conventions_of(text: str) -> Conventions:
    """Return the conventions that the language, countries, companies and currencies in a folded text imply. Hints that
    disagree imply nothing."""
    text = text[:_MAX_CHARACTERS].replace("\n", " ")
    words = _WORD.findall(text)
    other, english = (len([word for word in words if word in of]) for of in (_OTHERS, _ENGLISH))
    # £ and kr mean several currencies too, but the usual ones have the same decimal mark; those of $ do not.
    currencies = [one for one in units.currencies_in(text) if len(one) == 1 or "USD" not in one]
    orders, marks = set[str](), set[str]()
    if other >= _MIN_WORDS and other > 2 * english:
        orders.add("dmy")
        marks.add(",")
    elif english >= _MIN_WORDS and english > 2 * other:
        marks.add(".")
    marks |= {
        mark for mark, of in ((",", _COMMA_CURRENCIES), (".", _POINT_CURRENCIES)) if any(one & of for one in currencies)
    }
    if _DAY_FIRST.search(text) or any(one & _DAY_FIRST_CURRENCIES for one in currencies):
        orders.add("dmy")
    if _MONTH_FIRST.search(text) or frozenset(["USD"]) in currencies:
        orders.add("mdy")
    return Conventions(*(one.pop() if len(one) == 1 else None for one in (orders, marks)))


def kind_of(text: str) -> DocumentKind | None:
    """Return the kind of a document by the words of its folded text. None: the document does not show it."""
    text = text[:_MAX_CHARACTERS].replace("\n", " ")
    found: dict[DocumentKind, int] = {
        kind: sum(hint.search(text) is not None for hint in hints) for kind, hints in _HINTS
    }
    for kind, count in found.items():
        if count and count >= 2 * (sum(found.values()) - count):
            return kind
    return "ledger" if _SIDES.search(text) else None


def may_be_other_dollar(text: str) -> bool:
    """Return whether a folded text hints at a country other than the United States, where `$` may not be USD."""
    return conventions_of(text) == ("dmy", ".") or _OTHER_DOLLARS.search(text[:_MAX_CHARACTERS]) is not None
