"""Draw random histories of extractions, and ask every view which fields a person has to look at, and why.

    python tests/view_agreement.py [--documents 2000] [--seed 0] [--seconds 7200]

Each document has extractions under two schemas, one of which is that of a stack, and sometimes a second one under the
first. Agents write with their tools, people over HTTP. Exits with 1 if two views disagree. A short run is in
tests/api/test_views_agree.py.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import logging
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import psycopg
import structlog
from hypothesis import strategies as st
from psycopg.types.json import Jsonb

from drawn_plans import draw_plans
from extraction_case import ExtractionCase, case_for_document
from fieldmark.agents.registry import agent_rows
from fieldmark.api.app import create_app
from fieldmark.db.embedded import embedded_postgres
from fieldmark.db.migrate import migrate
from fieldmark.domain import paths
from fieldmark.domain.fields import Missing, value_at
from fieldmark.domain.statuses import DocumentStage, FieldStatus
from fieldmark.errors import FieldmarkError
from fieldmark.identity.scope import Scope
from fieldmark.identity.tokens import LocalTokens
from fieldmark.runtime import Runtime
from fieldmark.services.extractions import check_changed
from fieldmark.services.organisations import scope_of_user
from fieldmark.settings import Settings
from fieldmark.stores import documents, extractions

PAGE = """Vendor Acme GmbH
City
Date 03/04/2026
A 10.00
B 20.00
Net 30.00
Tax 3.00
Total 33.00
Paid by card
"""
SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["vendor", "total"],
    "properties": {
        "vendor": {
            "type": "object",
            "required": ["name"],
            "properties": {"name": {"type": "string"}, "city": {"type": ["string", "null"]}},
        },
        "date": {"type": "string", "format": "date"},
        "net": {"type": "number"},
        "tax": {"type": "number"},
        "total": {"type": "number"},
        "items": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["price"],
                "properties": {
                    "name": {"type": "string"},
                    "price": {"type": "number"},
                    "marks": {"type": "array", "items": {"type": "string"}},
                },
            },
        },
    },
    "x-fieldmark": {
        "rules": [
            {"sum": ["net", "tax"], "equals": "total"},
            {"sum": "items[*].price", "equals": "net"},
        ]
    },
}
COLUMNS = [{"name": "payer", "description": "Who paid"}, {"name": "total", "type": "number"}]
TO_LOOK_AT = ("needs_review", "unclear")

# Generated data ------------------------------------------------------------------------------------------------------

_NUMBERS = st.sampled_from([10, 20, 30, 3, 33, 33, 34, -5])
_TEXTS = st.sampled_from(["Acme GmbH", "Acme Ltd", "A", "B", "card", "", None])
_ITEM = st.fixed_dictionaries(
    {}, optional={"name": st.sampled_from(["A", "B", "C", None]), "price": _NUMBERS, "marks": st.just(["A", "x"])}
)
_GOOD_ITEMS = st.permutations([{"name": "A", "price": 10}, {"name": "B", "price": 20}])
_FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "vendor": st.fixed_dictionaries({}, optional={"name": _TEXTS, "city": _TEXTS}),
        "date": st.sampled_from(["2026-04-03", "2026-03-04", "2026-12-24", None]),
        "net": st.just(30) | _NUMBERS,
        "tax": st.just(3) | _NUMBERS,
        "total": st.just(33) | _NUMBERS | st.none(),
        "items": _GOOD_ITEMS | st.lists(_ITEM, max_size=3),
        "payer": _TEXTS,
    },
)
_PATHS = st.sampled_from(
    [
        *("vendor", "vendor.name", "vendor.city", "date", "net", "tax", "total", "payer", "more"),
        *("items", "items[0]", "items[1]", "items[0].name", "items[0].price", "items[1].price"),
        *("items[1].marks", "items[1].marks[0]"),
    ]
)
_VALUES = st.one_of(
    _NUMBERS, _TEXTS, _GOOD_ITEMS, _ITEM, st.sampled_from([{"name": "Acme GmbH"}, "2026-04-03", [], {}, True])
)
_DOUBTS = st.dictionaries(_PATHS, st.sampled_from([0.2, 0.7]), max_size=2)
_AGENT = st.one_of(
    st.tuples(st.just("extract_fields"), st.fixed_dictionaries({"fields": _FIELDS, "confidences": _DOUBTS})),
    st.tuples(st.just("extract_fields"), st.fixed_dictionaries({"fields": _FIELDS, "confidences": _DOUBTS})),
    st.tuples(
        st.just("update_field"),
        st.fixed_dictionaries({"path": _PATHS, "value": _VALUES, "confidence": st.sampled_from([0.2, 0.95])}),
    ),
    st.tuples(st.just("remove_field"), st.fixed_dictionaries({"path": _PATHS})),
    st.tuples(st.just("complete_extraction"), st.just({})),
)
_PERSON = st.one_of(
    st.tuples(st.just("set"), _PATHS, _VALUES),
    st.tuples(st.just("set"), _PATHS, _VALUES),
    st.tuples(st.just("remove"), _PATHS),
    st.tuples(st.just("confirm"), _PATHS),
    st.tuples(st.just("confirm"), _PATHS),
    st.tuples(st.just("unlock"), _PATHS),
    st.tuples(st.just("complete")),
    st.tuples(st.just("withdraw")),
    st.tuples(st.just("restore"), st.integers(0, 6)),
    st.tuples(st.just("decide"), st.booleans()),
)
# What an agent reads first: most of it is printed.
_READ = st.fixed_dictionaries(
    {
        "vendor": st.fixed_dictionaries({"name": st.sampled_from(["Acme GmbH", "Acme GmbH", "Acme Ltd"])}),
        "net": st.sampled_from([30, 30, 29]),
        "total": st.sampled_from([33, 33, 34, None]),
        "items": _GOOD_ITEMS | st.lists(_ITEM, max_size=3),
    },
    optional={"date": st.sampled_from(["2026-04-03", "2026-03-04"]), "tax": st.just(3), "payer": _TEXTS},
)
_FIRST = st.tuples(
    st.just("extract_fields"), st.fixed_dictionaries({"fields": _READ, "confidences": _DOUBTS})
)  # fmt: skip
_PAID = st.fixed_dictionaries(
    {"payer": st.sampled_from(["Acme GmbH", "Ltd", None]), "total": st.sampled_from([33, 34])}
)
_FIRST_OF_STACK = st.tuples(st.just("extract_fields"), st.fixed_dictionaries({"fields": _PAID, "confidences": _DOUBTS}))
_STEPS = st.tuples(st.sampled_from([0, 0, 0, 1, 2]), st.one_of(_AGENT, _AGENT, _PERSON, _PERSON))
PLANS = st.builds(
    lambda count, first, of_stack, steps: (count, [(0, first), (1, of_stack), *steps]),
    st.sampled_from([2, 2, 3]),
    _FIRST,
    _FIRST_OF_STACK,
    st.lists(_STEPS, min_size=3, max_size=12),
)


# Views ---------------------------------------------------------------------------------------------------------------


@dataclass
class Report:
    documents: int = 0
    statuses: collections.Counter[str] = field(default_factory=collections.Counter)
    faults: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        seen = [f"{count:8} {name}" for name, count in self.statuses.most_common()]
        return [*seen, *self.faults[:20], f"{self.documents} documents, {len(self.faults)} disagreements"]


@dataclass
class Seen:
    """An extraction of a document, as `GET /api/extractions/{id}` returns it."""

    case: ExtractionCase
    schema: str
    row: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def to_look_at(self) -> dict[str, str]:
        return {path: one["reason"] for path, one in self.row["statuses"].items() if one["status"] in TO_LOOK_AT}

    @property
    def precedence(self) -> tuple[bool, str, str]:
        is_empty = self.row["status"] == "in_progress" and self.row["version"] == 0
        return not is_empty, self.row["created_at"], self.row["id"]


class Agreement:
    """One organisation's documents and all views of them."""

    def __init__(self, http: httpx.AsyncClient, runtime: Runtime, scope: Scope, owner_url: str) -> None:
        self._http, self._runtime, self._scope, self._owner_url = http, runtime, scope, owner_url
        self._database = runtime.database
        self._documents: dict[str, list[Seen]] = {}
        self._names: dict[str, str] = {}
        self._schemas: dict[str, tuple[str, str]] = {}
        self._stack = ""
        self._steps: list[str] = []
        self.report = Report()

    async def prepare(self) -> None:
        made = await self._ask("POST", "schemas", json={"name": "Invoice", "schema": SCHEMA})
        stack = await self._ask("POST", "stacks", json={"name": "Payments", "columns": COLUMNS})
        self._stack = stack["id"]
        self._schemas = {
            "nested": (made["id"], made["schema_revid"]),
            "stack": (stack["schema_id"], stack["schema_revid"]),
        }

    async def _ask(self, method: str, path: str, **options: Any) -> Any:
        answer = await self._http.request(method, f"/api/{path}", **options)
        assert answer.status_code < 400, (method, path, options, answer.status_code, answer.text[:300])
        return answer.json()

    async def _try(self, method: str, path: str, **options: Any) -> bool:
        """Send a change. Return whether it was made; it may be refused, but not fail."""
        answer = await self._http.request(method, f"/api/{path}", **options)
        assert answer.status_code < 500, (method, path, options, answer.text[:300])
        return answer.status_code < 400

    def _expect(self, what: str, found: object, expected: object) -> None:
        if found != expected:
            self.report.faults.append(
                "\n".join([f"{what}: {_difference(found, expected)}", *(f"    {step[:1200]}" for step in self._steps)])
            )

    # A document ------------------------------------------------------------------------------------------------------

    async def add_document(self, plan: Any) -> None:
        """Make the steps of a plan with a new document, and compare what describes it."""
        count, steps = plan
        document, name = uuid4(), f"{len(self._documents)}.txt"
        self._steps = [repr(plan)]
        async with self._database.as_user(self._scope) as conn:
            await documents.add(
                conn,
                document_id=document,
                org_id=self._scope.org_id,
                filename=name,
                storage_path=f"{self._scope.org_id}/{document}/{name}",
                byte_size=1,
            )
        case = await case_for_document(self._database, self._owner_url, self._scope, document, [PAGE])
        async with self._database.as_user(self._scope) as conn:
            await extractions.remove(conn, case.extraction_id)
        all_seen: list[Seen] = []
        for schema in ("nested", "stack", "nested")[:count]:
            async with self._database.as_user(self._scope) as conn:
                made = await extractions.add(
                    conn,
                    org_id=self._scope.org_id,
                    document_id=document,
                    schema_revid=UUID(self._schemas[schema][1]),
                )
            all_seen.append(Seen(ExtractionCase(self._database, self._owner_url, self._scope, document, made), schema))
        await self._ask("POST", f"stacks/{self._stack}/documents", json={"document_ids": [str(document)]})
        self._documents[str(document)] = all_seen
        self._names[str(document)] = name
        for which, step in steps:
            await self._perform(all_seen[which % count], step)
        await check_changed(self._database)
        await self._compare_document(str(document))
        if self.report.documents % 2:
            await self._decide_everything(str(document))
        self.report.documents += 1

    async def _perform(self, seen: Seen, step: tuple[Any, ...]) -> None:
        what, *rest = step
        at = f"extractions/{seen.case.extraction_id}"
        match what:
            case "set":
                await self._try("PATCH", f"{at}/fields", json={"path": rest[0], "value": rest[1]})
            case "remove":
                await self._try("DELETE", f"{at}/fields", params={"path": rest[0]})
            case "confirm":
                await self._try("POST", f"{at}/locks", params={"path": rest[0]})
            case "unlock":
                await self._try("DELETE", f"{at}/locks", params={"path": rest[0]})
            case "complete":
                await self._try("POST", f"{at}/complete")
            case "withdraw":
                await self._try("DELETE", f"{at}/complete", params={"status": "completed"})
            case "restore":
                await self._try("POST", f"{at}/restore", json={"version": rest[0]})
            case "decide":
                pending = (await self._ask("GET", at))["proposals"]
                decisions = [{"id": one["id"], "accepted": rest[0]} for one in pending[:1]]
                await self._try("POST", f"{at}/proposals", json={"decisions": decisions})
            case _:
                await self._call(seen.case, what, rest[0])

    async def _call(self, case: ExtractionCase, name: str, arguments: dict[str, Any]) -> None:
        context = await case.context()
        with contextlib.suppress(FieldmarkError):  # refused
            await case.call(context, name, **arguments)
        case.sql("update public.runs set status = 'completed', finished_at = now() where id = %s", context.run_id)

    async def _read(self, document: str) -> list[Seen]:
        """Read the extractions of a document. Return those that count."""
        for seen in self._documents[document]:
            seen.row = await self._ask("GET", f"extractions/{seen.case.extraction_id}")
        newest: dict[str, Seen] = {}
        for seen in self._documents[document]:
            if seen.schema not in newest or seen.precedence > newest[seen.schema].precedence:
                newest[seen.schema] = seen
        return list(newest.values())

    async def _compare_document(self, document: str) -> None:
        live = await self._read(document)
        for seen in self._documents[document]:
            row = seen.row
            self.report.statuses.update(f"{one['status']} {one['reason']}" for one in row["statuses"].values())
            self._expect("review_count", row["review_count"], len(seen.to_look_at))
            self._expect("rows of fields", *self._rows_stored_again(seen.case.extraction_id))
            for path, reason in seen.to_look_at.items():
                self._expect(f"{path} can be decided", self._is_decidable(row, path, reason), True)
            proposed = {one["path"] for one in row["proposals"]}
            marked = {path for path, reason in seen.to_look_at.items() if reason == "proposal"}
            unmarked = {one for one in proposed if not any(_is_within(path, one) for path in marked)}
            self._expect("proposals without a field", unmarked, set())
        shown = await self._ask("GET", f"documents/{document}")
        self._expect("to_review", shown["to_review"], sum(seen.row["review_count"] for seen in live))
        self._expect("stage", shown["stage"], _stage(live))

    def _is_decidable(self, row: dict[str, Any], path: str, reason: str) -> bool:
        if reason == "proposal":
            return any(_is_within(path, one["path"]) for one in row["proposals"])
        return bool(paths.parse(path))

    def _rows_stored_again(self, extraction: UUID) -> tuple[Any, Any]:
        """Return the rows of `fields`, and those that are written from the extraction as it is. Only the stored rows
        know with which confidence a value was looked at."""
        with psycopg.connect(self._owner_url) as conn:
            conn.execute("update public.fields set checked_confidence = null where extraction_id = %s", [extraction])
            rows = conn.execute(_ROWS, [extraction]).fetchall()
            conn.execute("delete from public.fields where extraction_id = %s", [extraction])
            conn.execute(
                """select private.store_fields(jsonb_populate_record(null::public.extractions, %s), e)
                   from public.extractions as e where id = %s""",
                [Jsonb(_EMPTY), extraction],
            )
            again = conn.execute(_ROWS, [extraction]).fetchall()
            conn.rollback()
        return rows, again

    async def _decide_everything(self, document: str) -> None:
        """Decide each field that is listed. Then nothing is left to review."""
        for seen in self._documents[document]:
            at = f"extractions/{seen.case.extraction_id}"
            if seen.row["proposals"]:
                decisions = [{"id": one["id"], "accepted": n % 2 == 0} for n, one in enumerate(seen.row["proposals"])]
                if not await self._try("POST", f"{at}/proposals", json={"decisions": decisions}):
                    for one in decisions:
                        await self._try("POST", f"{at}/proposals", json={"decisions": [one | {"accepted": False}]})
            for _ in range(5):
                seen.row = await self._ask("GET", at)
                if not seen.to_look_at:
                    break
                for path in seen.to_look_at:
                    value = value_at(seen.row["extracted_fields"], paths.parse(path))
                    change = {"path": path, "value": None if isinstance(value, Missing) else value}
                    if not await self._try("PATCH", f"{at}/fields", json=change):
                        self._expect(f"{path} accepts a value", False, True)
            await check_changed(self._database)
            seen.row = await self._ask("GET", at)
            self._expect("left after each was decided", seen.to_look_at, {})
            await self._ask("POST", f"{at}/complete")
        await self._compare_document(document)
        stage = (await self._ask("GET", f"documents/{document}"))["stage"]
        self._expect("stage after everything was decided", stage, "reviewed")

    # All documents ---------------------------------------------------------------------------------------------------

    async def compare_lists(self) -> None:
        """Compare the lists and tables of all documents with the single documents."""
        self._steps = []
        live = {document: await self._read(document) for document in self._documents}
        await self._compare_stages(live)
        await self._compare_to_check(live)
        for schema, (schema_id, _) in self._schemas.items():
            extraction = {document: seen for document, all_seen in live.items() for seen in all_seen
                          if seen.schema == schema}  # fmt: skip
            path = f"tables/{schema_id}"
            for query in ({}, {"list": "items"}) if schema == "nested" else ({},):
                await self._compare_records(path, query, extraction)
        await self._compare_records(f"tables/{self._stack}", {}, extraction)

    async def _pages(self, path: str, **query: Any) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        while True:
            page = await self._ask("GET", path, params={"limit": 100, **query})
            items += page["items"]
            if not page["next"]:
                return items
            query["before"] = page["next"]

    async def _compare_stages(self, live: dict[str, list[Seen]]) -> None:
        stages = {document: _stage(all_seen) for document, all_seen in live.items()}
        listed = {one["id"]: (one["stage"], one["to_review"]) for one in await self._pages("documents")}
        expected = {
            document: (stages[document], sum(seen.row["review_count"] for seen in all_seen))
            for document, all_seen in live.items()
        }
        self._expect("list of documents", listed, expected)
        for stage in DocumentStage:
            at_stage = {one["id"] for one in await self._pages("documents", stage=stage.value)}
            self._expect(f"documents at {stage}", at_stage, {one for one, found in stages.items() if found == stage})
            count = (await self._ask("GET", "documents/count", params={"stage": stage.value}))["count"]
            self._expect(f"count at {stage}", count, len(at_stage))

    async def _compare_to_check(self, live: dict[str, list[Seen]]) -> None:
        each = [seen for all_seen in self._documents.values() for seen in all_seen]
        counting = {seen.row["id"] for all_seen in live.values() for seen in all_seen if seen.to_look_at}
        for to_check in (True, False):
            listed = {one["id"]: one["review_count"] for one in await self._pages("extractions", to_check=to_check)}
            expected = {
                seen.row["id"]: len(seen.to_look_at) for seen in each if (seen.row["id"] in counting) == to_check
            }
            self._expect(f"extractions with to_check={to_check}", listed, expected)

    async def _records(self, path: str, query: dict[str, Any]) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        while True:
            page = await self._ask("GET", f"{path}/rows", params={**query, "limit": 100, "offset": len(rows)})
            rows += page["items"]
            if len(rows) >= page["total"]:
                return rows

    async def _compare_records(self, path: str, query: dict[str, Any], live: dict[str, Seen]) -> None:
        rows = await self._records(path, query)
        in_cells: dict[str, set[str]] = {document: set() for document in live}
        for row in rows:
            seen = live[row["document_id"]]
            self._steps = [str(seen.row["extracted_fields"]), str(seen.row["statuses"])]
            self._expect(f"{path} has the extraction", row["extraction_id"], seen.row["id"])
            of_row = [name for name in seen.to_look_at if row["path"] is None or _is_of_item(name, row["path"])]
            self._expect(f"{path} {row['path']} review_count", row["review_count"], len(of_row))
            self._expect(f"{path} document_review_count", row["document_review_count"], len(seen.to_look_at))
            is_reviewed = seen.row["reviewed_by"] is not None and not of_row
            self._expect(f"{path} {row['path']} is_reviewed", row["is_reviewed"], is_reviewed)
            for cell in row["cells"].values():
                in_cells[row["document_id"]].add(cell["path"])
                stored = seen.row["statuses"].get(cell["path"])
                if stored is not None:
                    found = {"status": cell["status"], "reason": cell["reason"]}
                    self._expect(f"{path} {cell['path']}", found, stored)
                else:  # empty, or inside of what is missing or of a wrong type
                    around = {name for name in seen.to_look_at if _is_within(cell["path"], name)}
                    expected = "needs_review" if around else "not_written"
                    self._expect(f"{path} {cell['path']} without a field", cell["status"], expected)
        if "list" not in query:
            self._expect(f"{path} has each document", {row["document_id"] for row in rows}, set(live))
            for document, seen in live.items():
                self._steps = [str(seen.row["extracted_fields"]), str(seen.row["statuses"])]
                outside = {
                    name for name in seen.to_look_at
                    if "[" not in name and name.split(".")[0] not in ("items", "more")
                    and not any(_is_within(cell, name) for cell in in_cells[document])
                }  # fmt: skip
                columns = {name for row in rows[:1] for name in row["cells"]}
                self._expect(f"{path} shows", {name for name in outside if name in columns}, set())
        self._steps = []
        await self._compare_counts(path, query, rows)
        await self._compare_selections(path, query, rows)

    async def _compare_counts(self, path: str, query: dict[str, Any], rows: list[dict[str, Any]]) -> None:
        """Compare the counts of the rows with those of the table's SQL view and of its groups."""
        view = await self._ask("GET", f"{path}/view", params=query)
        with psycopg.connect(self._owner_url) as conn:
            conn.execute(view["sql"])
            found = conn.execute(f'select * from public."{view["name"]}"').fetchall()
            names = [column.name for column in conn.execute(f'select * from public."{view["name"]}"').description or ()]
            conn.rollback()
        keys = ("document_id", "path", "to_review") if "path" in names else ("document_id", "to_review")
        in_view = sorted([str(dict(zip(names, row, strict=True))[key]) for key in keys] for row in found)
        shown = [{"to_review": row["review_count"], **row} for row in rows if row["extraction_id"]]
        self._expect(f"{path}/view {query}", in_view, sorted([str(row[key]) for key in keys] for row in shown))
        for column in list(rows[0]["cells"])[:3] if rows else []:
            groups = (await self._ask("GET", f"{path}/groups", params={**query, "group_by": column}))["items"]
            counted = (sum(one["rows"] for one in groups), sum(one["to_review"] for one in groups))
            self._expect(f"{path}/groups {column}", counted, (len(rows), sum(row["review_count"] > 0 for row in rows)))

    async def _compare_selections(self, path: str, query: dict[str, Any], rows: list[dict[str, Any]]) -> None:
        columns = list(rows[0]["cells"]) if rows else []
        key = lambda row: (row["document_id"], row["path"])  # noqa: E731
        for column in (None, *columns):
            for status in FieldStatus:
                asked = query | {"cell_status": status.value} | ({"column": column} if column else {})
                found = [key(row) for row in await self._records(path, asked)]
                expected = [
                    key(row)
                    for row in rows
                    if any(cell["status"] == status for name, cell in row["cells"].items() if column in (None, name))
                ]
                self._expect(f"{path} {asked}", found, expected)
            asked = query | {"by_status": True} | ({"sort": column} if column else {})
            found = [key(row) for row in await self._records(path, asked)]
            order = list(FieldStatus)
            expected = [
                key(row)
                for row in sorted(
                    rows,
                    key=lambda row: min(
                        order.index(cell["status"]) for name, cell in row["cells"].items() if column in (None, name)
                    ),
                )
            ]
            self._expect(f"{path} {asked}", found, expected)
        exported = await self._ask("GET", f"{path}/export", params={**query, "format": "json"})
        found = [
            (one["document_id"], one["row"], one["to_review"], one["reviewed"], _statuses(one)) for one in exported
        ]
        expected = [(*key(row), row["review_count"], row["is_reviewed"], _statuses(row)) for row in rows]
        self._expect(f"{path}/export", found, expected)


def _statuses(row: dict[str, Any]) -> dict[str, str]:
    return {name: cell["status"] for name, cell in row["cells"].items()}


_ROWS = "select to_jsonb(f) - 'id' from public.fields as f where extraction_id = %s order by path"
_EMPTY: dict[str, Any] = {
    name: {} for name in ("extracted_fields", "evidence", "confidences", "locks", "problems", "accepted")
}


def _difference(found: object, expected: object) -> str:
    """Return both, of lists only what differs."""
    if isinstance(found, list) and isinstance(expected, list):
        found, expected = ([one for one in a if one not in b] for a, b in ((found, expected), (expected, found)))
    return f"{found!r}, expected {expected!r}"


def _is_within(path: str, of: str) -> bool:
    return path == of or path.startswith((f"{of}.", f"{of}["))


def _is_of_item(path: str, item: str) -> bool:
    """Whether a field counts in the row of an item: it is in the item, or outside of the list."""
    items = item[: item.rindex("[") + 1]
    return not path.startswith(items) or _is_within(path, item)


def _stage(live: list[Seen]) -> str:
    if any(seen.row["status"] != "completed" or seen.to_look_at for seen in live):
        return "needs_review"
    return "reviewed" if all(seen.row["reviewed_by"] for seen in live) else "extracted"


async def compare_views(
    http: httpx.AsyncClient, runtime: Runtime, scope: Scope, owner_url: str, *, count: int, seed: int,
    seconds: float = 7200,
) -> Report:  # fmt: skip
    """Draw documents and compare the views of them."""
    agreement = Agreement(http, runtime, scope, owner_url)
    await agreement.prepare()
    end = time.monotonic() + seconds
    for plan in draw_plans(PLANS, count, seed):
        await agreement.add_document(plan)
        if time.monotonic() > end:
            break
    await agreement.compare_lists()
    return agreement.report


@asynccontextmanager
async def _service(home: Path, app_url: str) -> AsyncIterator[tuple[httpx.AsyncClient, Runtime, Scope]]:
    settings = Settings(_env_file=None, home=home, database_url=app_url, log_level="error", warm_spares=0)
    app = create_app(settings, with_worker=False)
    async with app.router.lifespan_context(app):
        user = uuid4()
        scope = await scope_of_user(app.state.runtime.database, user)
        headers = {"Authorization": f"Bearer {LocalTokens(home).sign(user)}", "Accept": "application/json"}
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://service", headers=headers, timeout=120
        ) as http:
            yield http, app.state.runtime, scope


async def _run(home: Path, owner_url: str, app_url: str, options: argparse.Namespace) -> Report:
    async with _service(home, app_url) as (http, runtime, scope):
        return await compare_views(
            http, runtime, scope, owner_url, count=options.documents, seed=options.seed, seconds=options.seconds
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=7200, help="draw no more documents after this time")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    with tempfile.TemporaryDirectory(prefix="fieldmark-views-", ignore_cleanup_errors=True) as directory:
        Path(directory).chmod(0o755)
        home = Path(directory) / "home"
        with embedded_postgres(home, 18) as server:
            asyncio.run(migrate(server.owner_url, app_password=server.app_password, agents=agent_rows()))
            report = asyncio.run(_run(home, server.owner_url, server.app_url, options))
    print(*report.lines(), sep="\n")
    sys.exit(1 if report.faults else 0)


if __name__ == "__main__":
    main()
