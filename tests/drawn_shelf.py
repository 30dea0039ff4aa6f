"""Documents and questions that are drawn at random, always the same from one seed."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from fieldmark.domain.document_filters import DocumentFilters, FieldCondition, FilterOp
from fieldmark.domain.field_query import Aggregate, AggregateOp, FieldQuery, GroupBy, GroupKind
from fieldmark.domain.fields import leaves
from shelf import Shelved

_VENDORS = ["Acme GmbH", "ACME  GmbH", "Beta", "beta", "Gamma & Co", "Ümlaut AG", "O'Neill; --"]
_CURRENCIES = ["EUR", "EUR", "EUR", "€", "USD", "usd ", None, ""]
_START = datetime(2025, 1, 1, tzinfo=UTC)


def draw_shelf(draw: random.Random, count: int) -> list[Shelved]:
    return [_document(draw) for _ in range(count)]


def _document(draw: random.Random) -> Shelved:
    fields: dict[str, Any] = {
        "total": _amount(draw),
        "vendor": draw.choice([{"name": draw.choice(_VENDORS)}, {"name": None}, draw.choice(_VENDORS), {}]),
        "date": draw.choice([_day(draw), _day(draw), _day(draw), f"{_day(draw)}T10:00:00Z", "12 March 2024", None, 3]),
        "paid": draw.choice([True, False, None, "yes"]),
        "number": draw.choice(["RE-1", "1001", 1001, 0, "NaN", "Infinity", ""]),
        "currency": draw.choice(_CURRENCIES),
        "items": draw.choice([None, {}, "none"])
        if draw.random() < 0.1
        else [_item(draw) for _ in range(draw.choice([0, 1, 2, 3, 5]))],
    }
    if draw.random() < 0.2:
        fields["total_currency"] = draw.choice(_CURRENCIES)
    for key in list(fields):
        if draw.random() < 0.1:
            del fields[key]
    names = [name for name, _ in leaves(fields)]
    status = draw.choices(["ready", "reading", "failed"], [20, 1, 1])[0]
    return Shelved(
        fields if status == "ready" and draw.random() < 0.97 else None,
        unverified=frozenset(name for name in names if draw.random() < 0.1),
        locked=frozenset(name for name in names if draw.random() < 0.05),
        document_type=draw.choice(["invoice", "Invoice", "receipt", None]),
        filename=f"{draw.choice(['Rechnung', 'scan', 'a'])} {draw.randrange(50)}.pdf",
        tags=tuple(draw.sample(["paid", "2024", "Reisekosten"], draw.choice([0, 0, 1, 2]))),
        is_completed=draw.random() < 0.95,
        status=status,
        created_at=_START + timedelta(hours=draw.randrange(10_000)),
        id=UUID(int=draw.getrandbits(128), version=4),
        extraction_id=UUID(int=draw.getrandbits(128), version=4),
    )


def _item(draw: random.Random) -> Any:
    if draw.random() < 0.05:
        return draw.choice([None, "text", 5, []])
    item: dict[str, Any] = {"name": draw.choice(["A", "a", "B", "C", None]), "total": _amount(draw)}
    if draw.random() < 0.3:
        item["currency"] = draw.choice(_CURRENCIES)
    if draw.random() < 0.3:
        item["parts"] = [{"count": draw.randrange(5), "name": draw.choice("XY")} for _ in range(draw.randrange(3))]
    return item


def _amount(draw: random.Random) -> Any:
    return draw.choice(
        [
            draw.randrange(-50, 3000),
            round(draw.uniform(0, 3000), 2),
            round(draw.uniform(0, 3000), 2),
            draw.choice([0, 0.0, 0.1, 1000, 1000.0, 10**30, 1e22, 123456789012345.67]),
            draw.choice([None, "1,000.00", "12.50 EUR", True, {}, [1]]) if draw.random() < 0.5 else 7,
        ]
    )


def _day(draw: random.Random) -> str:
    return f"{draw.randrange(2023, 2026)}-{draw.randrange(1, 13):02}-{draw.randrange(1, 32):02}"


def draw_query(draw: random.Random, shelf: list[Shelved]) -> FieldQuery:
    filters: dict[str, Any] = {"fields": [_condition(draw) for _ in range(draw.choice([0, 0, 1, 1, 2, 3]))]}
    if draw.random() < 0.3:
        filters["document_type"] = draw.choice(["invoice", "RECEIPT", "nothing"])
    if draw.random() < 0.15:
        filters["tags"] = draw.sample(["Paid", "2024", "reisekosten"], draw.choice([1, 2]))
    if draw.random() < 0.15:
        filters["filename"] = draw.choice(["rechnung", "SCAN 1", "%", "nowhere"])
    if draw.random() < 0.15:
        filters["uploaded_after"] = _START + timedelta(hours=draw.randrange(10_000))
    if draw.random() < 0.1:
        filters["uploaded_before"] = _START + timedelta(hours=draw.randrange(10_000))
    if draw.random() < 0.1:
        filters["document_ids"] = [one.id for one in draw.sample(shelf, min(len(shelf), 50))]
    aggregates = [_aggregate(draw) for _ in range(draw.choice([0, 1, 1, 2, 3]))]
    return FieldQuery(
        where=DocumentFilters.model_validate(filters),
        aggregates=tuple(aggregates),
        group_by=_group_by(draw),
        limit=500,
        include_unverified=draw.random() < 0.3,
    )


def _condition(draw: random.Random) -> FieldCondition:
    path = draw.choice(
        ["total", "vendor.name", "vendor", "date", "paid", "number", "items[].total", "items[].name", "items[]", "gone"]
    )
    op = draw.choice(list(FilterOp))
    value: Any = None
    if op.is_ordering:
        value = draw.choice([Decimal("1000"), Decimal("0.1"), Decimal(10**30), _day_of_calendar(draw)])
    elif op is FilterOp.CONTAINS:
        value = draw.choice(["acme", "MÜ", "e", "00", "'", "%"]).replace("MÜ", "m")
    elif op.takes_value:
        value = draw.choice(
            [Decimal(1000), "acme gmbh", "BETA", "1001", True, False, "2024-03-12", Decimal("0.1"), "A"]
        )
    return FieldCondition(path=path, op=op, value=value)


def _day_of_calendar(draw: random.Random) -> str:
    return f"{draw.randrange(2023, 2026)}-{draw.randrange(1, 13):02}-{draw.randrange(1, 29):02}"


def _aggregate(draw: random.Random) -> Aggregate:
    op = draw.choice(list(AggregateOp))
    path = draw.choice(["total", "items[].total", "items[].parts[].count", "date", "number", "vendor", "items"])
    return Aggregate(op=op, path=None if op is AggregateOp.COUNT and draw.random() < 0.5 else path)


def _group_by(draw: random.Random) -> GroupBy | None:
    if draw.random() < 0.4:
        return None
    kind = draw.choice(list(GroupKind))
    path = draw.choice(["vendor.name", "items[].name", "items[].parts[].name", "currency", "number", "paid"])
    return GroupBy(kind=kind, path=("date" if kind is not GroupKind.FIELD else path) if kind.has_path else None)
