"""Whether figures over fields are right, and how long they take: `query_fields` beside a plain reckoning in Python.

Documents are drawn (money of several currencies, lists, texts for numbers, values that nobody verified, documents that
were not read) and questions over them; each answer is held against tests/reckoning.py, which shares no code with it.
Then some questions are timed over invoices of one organisation, all as a member under row-level security.

    pip install '.[bench]' && python bench/field_queries.py [--documents 10000] [--questions 300] [--timed 100000]

Ends with 1 if a single figure differs, or a timed question takes longer than LONGEST by the median.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg

from fieldmark.db.embedded import running
from fieldmark.db.migrate import migrate
from fieldmark.db.pool import Database
from fieldmark.domain.document_filters import DocumentFilters, FieldCondition
from fieldmark.domain.field_query import Aggregate, FieldQuery, GroupBy
from fieldmark.identity.scope import Scope
from fieldmark.services import field_queries
from fieldmark.services.organisations import enter
from processes import bounded, heed_signals

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from drawn_shelf import draw_query, draw_shelf
from reckoning import reckon, shown
from shelf import put

LONGEST = 5.0
DEADLINE_SECONDS = 3000

# Invoices as an agent leaves them: a dozen fields and three items, each with its evidence.
FILL = """
set session_replication_role = replica;
insert into public.documents
  (id, org_id, created_by, filename, storage_path, status, media_type, page_count, created_at)
select id, '$org', '$user', n || '.pdf', '$org/' || id || '/a', 'ready', 'application/pdf', 1,
  '2026-01-01'::timestamptz + n * interval '1 minute'
from (select md5('document' || n)::uuid as id, n from generate_series(1, $count) as n) as d;
insert into public.extractions (org_id, document_id, created_by, document_type, status, extracted_fields, evidence)
select '$org', id, '$user', 'invoice', 'completed', fields, (
  select jsonb_object_agg(name, jsonb_build_object(
    'state', 'found', 'match', 'exact', 'page', 1, 'boxes', '[[0.1, 0.2, 0.3, 0.25]]'::jsonb, 'quote', value #>> '{}',
    'places', 1, 'claim', jsonb_build_object('confidence', 0.95, 'quote', value #>> '{}', 'page', 1)))
  from private.nodes(fields) where private.is_leaf(value))
from (
  select md5('document' || n)::uuid as id, jsonb_build_object(
    'invoice_number', 'RE-' || n, 'date', '2025-' || lpad((1 + n % 12)::text, 2, '0') || '-15', 'currency', 'EUR',
    'vendor', jsonb_build_object('name', 'Vendor ' || n % 500, 'vat_id', 'DE' || n, 'city', 'Berlin'),
    'customer', jsonb_build_object('name', 'Customer', 'city', 'Paris'),
    'net', n % 2000 + 0.5, 'vat', 19, 'total', n % 2000 + 0.75, 'due_date', '2026-01-01',
    'items', jsonb_build_array(
      jsonb_build_object('name', 'A' || n % 7, 'quantity', 1, 'price', 2.5, 'total', 2.5),
      jsonb_build_object('name', 'B', 'quantity', 2, 'price', 2.5, 'total', 5),
      jsonb_build_object('name', 'C', 'quantity', 3, 'price', 2.5, 'total', 7.5))) as fields
  from generate_series(1, $count) as n) as f;
"""

TIMED: dict[str, FieldQuery] = {
    "how many over 1,000": FieldQuery(where=DocumentFilters(fields=(FieldCondition.parse("total > 1000"),))),
    "of one vendor": FieldQuery(where=DocumentFilters(fields=(FieldCondition.parse('vendor.name = "vendor 7"'),))),
    "sum of totals": FieldQuery(aggregates=(Aggregate.model_validate({"op": "sum", "path": "total"}),)),
    "sum of totals by vendor": FieldQuery(
        aggregates=(Aggregate.model_validate({"op": "sum", "path": "total"}),), group_by=GroupBy(path="vendor.name")
    ),
    "sum of items by name": FieldQuery(
        aggregates=(Aggregate.model_validate({"op": "sum", "path": "items[].total"}),),
        group_by=GroupBy(path="items[].name"),
    ),
    "by month": FieldQuery(
        aggregates=(Aggregate.model_validate({"op": "avg", "path": "total"}),),
        group_by=GroupBy.model_validate({"kind": "month", "path": "date"}),
    ),
}


async def differences(database: Database, owner_url: str, count: int, questions: int) -> int:
    """How many drawn questions are answered otherwise than they are reckoned."""
    draw = random.Random(14)
    scope = await enter(database, uuid4())
    shelf = draw_shelf(draw, count)
    put(owner_url, scope, shelf)
    different = 0
    taken: list[float] = []
    for number in range(questions):
        query = draw_query(draw, shelf)
        began = time.perf_counter()
        async with database.as_user(scope) as conn:
            answer = await field_queries.query(conn, scope, query)
        taken.append(time.perf_counter() - began)
        if shown(answer) != reckon(shelf, query):
            different += 1
            print(f"question {number} differs: {query!r}", flush=True)
    print(
        f"{questions} questions over {count:,} drawn documents: {different} differ; an answer took "
        f"{statistics.median(taken) * 1000:.0f} ms by the median, {max(taken) * 1000:.0f} ms at most"
    )
    return different


async def timed(database: Database, owner: psycopg.Connection[Any], count: int) -> float:
    """The longest median of the timed questions."""
    scope = await enter(database, uuid4())
    fill = FILL.replace("$org", str(scope.org_id)).replace("$user", str(scope.user_id)).replace("$count", str(count))
    owner.execute(fill.encode())
    owner.execute("vacuum analyze")
    return max([await _median(database, scope, name, query) for name, query in TIMED.items()])


async def _median(database: Database, scope: Scope, name: str, query: FieldQuery) -> float:
    taken: list[float] = []
    for _ in range(5):
        began = time.perf_counter()
        async with database.as_user(scope) as conn:
            answer = await field_queries.query(conn, scope, query, seconds=120)
        taken.append(time.perf_counter() - began)
    median = statistics.median(taken)
    print(f"{name:<26} {median * 1000:6.0f} ms, {answer.coverage.matched:,} of {answer.coverage.of_kind:,} documents")
    return median


async def measure(options: argparse.Namespace, home: Path) -> int:
    with running(home, 18) as server:
        await migrate(server.owner_url, app_password=server.app_password)
        async with Database(server.app_url, size=2) as database:
            different = await differences(database, server.owner_url, options.documents, options.questions)
            with psycopg.connect(server.owner_url, autocommit=True) as owner:
                longest = await timed(database, owner, options.timed) if options.timed else 0
    return 1 if different or longest > LONGEST else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=10_000)
    parser.add_argument("--questions", type=int, default=300)
    parser.add_argument("--timed", type=int, default=100_000)
    options = parser.parse_args()
    heed_signals()
    with tempfile.TemporaryDirectory(prefix="fieldmark-fields-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        with bounded(DEADLINE_SECONDS, Path(folder)):
            return asyncio.run(measure(options, Path(folder)))


if __name__ == "__main__":
    sys.exit(main())
