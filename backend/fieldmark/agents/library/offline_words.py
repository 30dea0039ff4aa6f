"""What the offline rules understand of a question's words: what is asked for, of which documents, and which words are
left. In English, and the commonest of it in German."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from typing import Final

from pydantic import JsonValue

from fieldmark.domain.folding import fold
from fieldmark.domain.json_values import JsonObject
from fieldmark.grounding.labelled_fields import amount, day

TOTAL: Final = ("total", "amount_due", "total_amount", "amount")
VENDOR: Final = ("vendor.name", "vendor", "supplier.name", "supplier")
DATE: Final = ("invoice_date", "date", "issue_date", "order_date")

_FIELDS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    (
        r"(?:invoice|order|document|receipt) numbers?|(?:rechnungs|beleg)nummer",
        ("invoice_number", "order_number", "number"),
    ),
    (r"sub-?totals?|net amounts?|nettobetrag|netto|net", ("subtotal", "net", "net_amount")),
    (r"tax(?:es)?|vat|gst|mwst|ust|(?:mehrwert|umsatz)?steuer", ("tax", "vat", "tax_amount")),
    (
        r"when (?:do|does|must|should|have|has) .*\bpay|wann .*(?:zahlen|bezahlen)|payable",
        ("due_date", "payment_due", "payment_terms", "zahlungsbedingung"),
    ),
    (r"due date|due|falligkeit|fallig", ("due_date", "payment_due")),
    (r"payment terms|zahlungsbedingung(?:en)?", ("payment_terms", "zahlungsbedingung")),
    (r"bank account|iban|kontonummer", ("bank_account", "iban", "vendor.iban")),
    (r"currency|wahrung", ("currency", "currency_code")),
    (r"customer numbers?|kundennummer", ("customer_number",)),
    (r"when|what (?:date|day)|dated|date|wann|datum|rechnungsdatum", DATE),
    (r"how much|gesamtbetrag|totals?|wie ?viel|wie hoch|cost|kostete?|amounts?|prices?|endsumme|betrag", TOTAL),
    (
        r"who (?:issued|sent|sold|billed|invoiced|wrote)|(?:vendor|supplier|seller)s?|lieferant(?:en)?"
        r"|handler(?:n)?|wer hat .*(?:ausgestellt|geschickt|verkauft|berechnet)",
        VENDOR,
    ),
)
"""What a question asks for, and where that stands: what narrows more comes first."""
_TYPES: Final = {
    "credit_note": r"credit ?notes?|gutschrift(?:en)?",
    "invoice": r"invoices?|bills?|rechnung(?:en)?",
    "receipt": r"receipts?|belege?n?|quittung(?:en)?|kassenbons?|bons?",
    **{name: f"{name}s?" for name in ("contract", "order", "quote", "statement", "survey", "letter", "report")},
}
_SIGNS: Final = (
    (">=", r"at least|no less than|mindestens"),
    ("<=", r"at most|no more than|hochstens"),
    (">", r"over|above|(?:more|greater|higher|larger) than|exceed(?:ing)?|uber|mehr als"),
    ("<", r"under|below|(?:less|lower|smaller|cheaper) than|unter|weniger als"),
)
_MONEY: Final = {
    "EUR": r"eur|euros?|€",
    "USD": r"usd|us dollars?|dollars?|\$",
    "GBP": r"gbp|pounds?|£",
    "CHF": r"chf|franken",
    "RM": r"rm|ringgit",
}
_NUMBER: Final = r"(-?\d[\d.,'’]*\d|\d)"
_FIGURES: Final = (
    ("avg", r"average|mean|durchschnitt(?:lich\w*)?"),
    ("max", r"highest|largest|biggest|greatest|maximum|max|most expensive|dearest|hochste\w*|grosste\w*|teuerste\w*"),
    ("min", r"lowest|smallest|minimum|min|cheapest|least expensive|niedrigste\w*|kleinste\w*|billigste\w*"),
    (
        "sum",
        r"sum|total of (?:all|the (?:\w+ )?(?:invoices|receipts|documents|bills))|add up|in total|altogether|overall"
        r"|total (?:spend(?:ing)?|amount of all)|insgesamt|summe(?: aller)?|zusammen",
    ),
)
_COUNT: Final = r"how many|number of (?=\w+s\b)|count(?: of)?|wie ?viele|anzahl(?: der)?"
_ASKS: Final = r"which|what|who|welche[rsmn]?|wer"
_KEYS: Final = r"vendors?|suppliers?|sellers?|shops?|compan(?:y|ies)|lieferant(?:en)?|handler(?:n)?"
_MOST: Final = re.compile(
    rf"\b(?:{_ASKS})\s+({_KEYS})\b.*\b(most|least|highest|largest|biggest|lowest|smallest|meisten|wenigsten|hochste\w*)\b"
    rf"|\b(most|least|highest|largest|biggest) (?:\w+ )?({_KEYS})\b|\bwho\b.*\bpa(?:id|y)\b.*\b(most|least)\b"
)
_LEAST: Final = ("least", "lowest", "smallest", "wenigsten")
_BY: Final = re.compile(
    r"\b(?:by|per|for each|for every|each|pro|je|nach) (?:the )?(?:(document) )?(?!how\b|what\b|whom?\b)"
    r"([a-z_][\w.\[\]]*)"
)
_LIST: Final = re.compile(rf"\b(?:list|which|what|name|welche|nenne)\b.{{0,20}}\b({_KEYS}|currenc(?:y|ies)|types?)\b")
_LISTS: Final = re.compile(
    r"(?:which|show|list|find|give|what|any|welche|zeige?|nenne)\b.{0,20}\b(?:documents?|files?|dokumente|dateien|"
    + "|".join(_TYPES.values())
    + r")\b"
)
_MONTHS: Final = (
    "jan(?:uar(?:y)?)?|feb(?:ruar(?:y)?)?|mar(?:ch|z)?|apr(?:il)?|may|mai|june?|juni|july?|juli|aug(?:ust)?"
    "|sep(?:t(?:ember)?)?|o[ck]t(?:ober)?|nov(?:ember)?|de[cz](?:ember)?"
)
_STARTS: Final = (
    ("jan", 1),
    ("feb", 2),
    ("mar", 3),
    ("apr", 4),
    ("ma", 5),
    ("jun", 6),
    ("jul", 7),
    ("aug", 8),
    ("sep", 9),
    ("o", 10),
    ("nov", 11),
    ("de", 12),
)
_WHEN: Final = r"\b(in|during|of|from|im|vom|since|after|before|until|seit|nach|vor|bis)?(?: the year| dem jahr)?"
_MONTH: Final = re.compile(rf"{_WHEN} ?\b({_MONTHS})\.? (\d{{4}})\b")
_YEAR: Final = re.compile(rf"{_WHEN} \b((?:19|20)\d\d)\b(?![\w./-])")
_DAY: Final = re.compile(
    r"\b(since|after|before|until|on|seit|nach|vor|bis|am)(?: the)? (\d{1,4}[./-]\d{1,2}[./-]\d{1,4})"
)
_SINCE, _AFTER, _BEFORE, _UNTIL = ("since", "seit"), ("after", "nach"), ("before", "vor"), ("until", "bis")
_FILE: Final = re.compile(r"[\w-]+(?:\.[\w-]+)*\.[a-z]\w{1,4}\b", re.IGNORECASE)
_OF: Final = re.compile(r"\b(?:from|at|by|of|to|with|bei|von|fur|for)(?: the)? ([^\W\d_][\w&.'’-]*)")
_AGAIN: Final = re.compile(
    r"(?:and|what about|how about|und|was ist mit|wie ist es mit)\b|.*\b(?:it|that|this|dies\w*)\b"
)
_COMPARED: Final = re.compile(
    r"\b(?:compare|difference between|vergleiche?|unterschied zwischen|(?:more|less|higher|lower|cheaper|dearer|bigger"
    r"|larger|smaller)(?: \w+)?,|which\b.*\b(?:more|higher|cheaper|bigger|larger|lower)\b|(?:more|less|higher|lower"
    r"|cheaper|larger)(?: \w+)? than|teurer|billiger|hoher)"
)
_BETWEEN: Final = re.compile(r"\b(?:or|than|vs|versus|and|with|to|oder|als|und|mit)\b")
_IDLE_ENGLISH: Final = (
    "a about all also am an and any are as at be been bigger billed bought buy buys by can charge charged cheap "
    "cheaper compare comparing contain contains cost costs could date dated dearer did difference do document "
    "documents does each euro euros every expensive file files find for from get give got had has have he her "
    "higher him his how i if in into invoice invoiced is issue issued it items its know larger less like list lower "
    "made many me mean mention mentioned mentions more most much my name named no not of on or our out paid pay "
    "people please print printed purchase purchased receipt said say says see send sent show sell sells sold spend "
    "spent stand stands state states tell than that the their them there these they thing things this those to "
    "together total totals trip up us value vendor vendors was we were what when where which who whom whose why will "
    "with worth would wrote you your "
)
_IDLE_GERMAN: Final = (
    "alle aller als am an auf aus ausgegeben ausgestellt bei beim bezahlt billiger das dass dem den der des die "
    "dies diese dieser dieses ein eine einem einen einer es fur gab gekostet gezahlt gibt haben hat hatte hoch "
    "hoher ich ihr im in ist man mit nach oder pro sagt sich sie sind so stehen steht teurer uber um und uns unser "
    "unsere viel vom von wann war waren warum was welche welcher welches wenn wer werden wie wieviel wir wird wo "
    "wurde wurden zu zum zur "
)
_IDLE: Final = frozenset((_IDLE_ENGLISH + _IDLE_GERMAN).split())
"""Words that say nothing of what a question is about."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question taken apart.

    op          what is reckoned: `count`, `sum`, `max`, `min`, `avg`; None where nothing is
    field       the paths at which what is asked for may stand, the likeliest first; None where no field is asked for
    kind, currency, over, days    what narrows the documents: `over` and `days` are conditions without their path
    group       by what it is told apart; `top` and `bottom` where only the largest or smallest is asked for
    subject     the words that are left: what it is about. `is_named` where they are said to be a name (`from acme`)
    """

    words: str
    op: str | None
    field: tuple[str, ...] | None
    kind: str | None
    currency: str | None
    over: tuple[tuple[str, JsonValue], ...]
    days: tuple[tuple[str, str], ...]
    group: str | None
    extreme: str | None
    is_list: bool
    is_again: bool
    file: str | None
    subject: tuple[str, ...]
    is_named: bool
    wanted: tuple[str, ...]
    compared: tuple[tuple[str, ...], ...]


def understood(message: str) -> Asked:
    """What a question asks for."""
    found = _FILE.search(message)
    file = found[0] if found else None
    words = " ".join(fold(_FILE.sub(" ", message)).split()).strip(" ?!.")
    rest = words
    days, rest = _days(rest)
    over, currency, rest = _over(rest)
    group = None
    if by := _BY.search(rest):
        group = "document_type" if by[1] or by[2] in ("type", "kind", "types") else by[2].rstrip("?.")
        rest = rest.replace(by[0], " ")
    op = next((op for op, said in _FIGURES if re.search(rf"\b(?:{said})\b", rest)), None)
    if re.search(rf"\b(?:{_COUNT})\b", rest):
        op = "count"
    extreme = None
    if most := _MOST.search(words):
        said = next((one for one in most.groups() if one and not re.fullmatch(_KEYS, one)), "most")
        extreme = "bottom" if said in _LEAST else "top"
        group = "vendor"
        counted = re.search(
            r"\b(?:most|least|meisten|wenigsten) (?:invoices|receipts|documents|bills|rechnungen|belege)", rest
        )
        op = "count" if counted else "sum"
    listed = _LIST.search(words) if op is None and group is None else None
    if listed and not re.search(r"\b(?:issued|sent|sold|of|for|von)\b", words):
        group = (
            "vendor" if re.fullmatch(_KEYS, listed[1]) else "currency" if listed[1].startswith("c") else "document_type"
        )
        op = "count"
    field = next((paths for said, paths in _FIELDS if re.search(rf"\b(?:{said})\b", rest)), None)
    if op is None and (over or days):
        lists = _LISTS.match(words) and not re.search(r"\b(?:say|says|said|sagt|steht)\b", words)
        op = "sum" if field == TOTAL else "count" if field is None and lists else None
    kind = next((kind for kind, said in _TYPES.items() if re.search(rf"\b(?:{said})\b", rest)), None)
    return Asked(
        words=words,
        op=op,
        field=field,
        kind=kind,
        currency=currency,
        over=over,
        days=days,
        group=group,
        extreme=extreme,
        is_list=listed is not None and op == "count" and extreme is None,
        is_again=_AGAIN.match(words) is not None,
        file=file,
        subject=_subject(rest),
        is_named=any(one not in _IDLE and not _is_said(one) for one in _OF.findall(rest)),
        wanted=tuple(_without_kinds(wanted(words))),
        compared=_compared(rest) if _COMPARED.search(rest) else (),
    )


def wanted(words: str) -> list[str]:
    """The words of a question that say what it is about."""
    found = [one for one in re.findall(r"\w+", fold(_FILE.sub(" ", words))) if one not in _IDLE and len(one) > 1]
    return list(dict.fromkeys(found))


def _without_kinds(words: list[str]) -> list[str]:
    """The words without those for a kind of document, where others are left: a page seldom says what it is."""
    kinds = "|".join(_TYPES.values())
    return [word for word in words if not re.fullmatch(kinds, word)] or words


def _is_said(word: str) -> bool:
    """Whether a word says what is asked for, and not of what."""
    said = [
        *(one for one, _ in _FIELDS),
        *_TYPES.values(),
        *(one for _, one in _FIGURES),
        _COUNT,
        _KEYS,
        *_MONEY.values(),
    ]
    return any(re.fullmatch(rf"(?:{one})", word) for one in said)


def _subject(rest: str) -> tuple[str, ...]:
    """The words that name something: not what is asked for."""
    for said in (*(one for one, _ in _FIELDS), *(one for _, one in _FIGURES), _COUNT):
        rest = re.sub(rf"\b(?:{said})\b", lambda found: " wer hat " if found[0].startswith("wer hat") else " ", rest)
    return tuple(one for one in wanted(rest) if not _is_said(one))


def _compared(rest: str) -> tuple[tuple[str, ...], ...]:
    """The two things that are compared; nothing where they are not two."""
    found = [subject for part in _BETWEEN.split(rest) if (subject := _subject(part.replace(",", " ")))]
    return tuple(found) if len(found) == 2 else ()


def _over(rest: str) -> tuple[tuple[tuple[str, JsonValue], ...], str | None, str]:
    """Conditions on a number, the currency that is named, and the words without them."""
    over: list[tuple[str, JsonValue]] = []
    said_all = rest
    for sign, said in _SIGNS:
        for found in list(re.finditer(rf"\b(?:{said})\s+\D{{0,5}}?{_NUMBER}", rest)):
            value = amount(found[1])
            if value is not None:
                over.append((sign, int(value) if value == int(value) else value))
                rest = rest.replace(found[0], " ")
    if between := re.search(
        rf"\b(?:between|zwischen)\s+\D{{0,3}}?{_NUMBER}\D{{1,8}}(?:and|und)\s+\D{{0,3}}?{_NUMBER}", rest
    ):
        low, high = amount(between[1]), amount(between[2])
        if low is not None and high is not None:
            over += [(">=", low), ("<=", high)]
            rest = rest.replace(between[0], " ")
    named = next(
        (name for name, said in _MONEY.items() if re.search(rf"(?<![^\W_])(?:{said})(?![^\W\d_])", said_all)), None
    )
    return tuple(over), named, rest


def _days(rest: str) -> tuple[tuple[tuple[str, str], ...], str]:
    """Conditions on a day, and the words without them."""
    found: list[tuple[str, str]] = []
    if (said := _DAY.search(rest)) and (told := day(said[2])):
        found += _around(
            said[1], date.fromisoformat(told[0]), date.fromordinal(date.fromisoformat(told[0]).toordinal() + 1)
        )
        rest = rest.replace(said[0], " ")
    elif said := _MONTH.search(rest):
        month = next(number for start, number in _STARTS if said[2].startswith(start))
        begin = date(int(said[3]), month, 1)
        found += _around(said[1], begin, date(begin.year + month // 12, month % 12 + 1, 1))
        rest = rest.replace(said[0], " ")
    elif said := _YEAR.search(rest):
        begin = date(int(said[2]), 1, 1)
        found += _around(said[1], begin, date(begin.year + 1, 1, 1))
        rest = rest.replace(said[0], " ")
    return tuple(found), rest


def _around(said: str | None, begin: date, end: date) -> list[tuple[str, str]]:
    """The conditions of a word before a time that lasts from `begin` to before `end`."""
    if said in _SINCE:
        return [(">=", begin.isoformat())]
    if said in _AFTER:
        return [(">=", end.isoformat())]
    if said in _BEFORE:
        return [("<", begin.isoformat())]
    if said in _UNTIL:
        return [("<", end.isoformat())]
    return [(">=", begin.isoformat()), ("<", end.isoformat())]


def spoken(group: str) -> JsonObject:
    """How a group is asked for; of a vendor the path is not said yet."""
    if group in ("document_type", "tag"):
        return {"kind": group}
    if group in ("month", "year", "monat", "jahr"):
        return {"kind": {"monat": "month", "jahr": "year"}.get(group, group), "path": DATE[0]}
    if re.fullmatch(_KEYS, group):
        return {"path": VENDOR[0]}
    return {"path": group}
