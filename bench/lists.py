"""Whether a page deep in a list costs what the first does: a million documents of one organisation, and 200 runs.

Pages of 50 through the store, as a member, under row-level security: the first, one from the middle, the last. They
take turns, so that whatever else the machine does falls on all alike. Then a list of 200 runs, with its statements, and
what each filter costs that only the ten oldest of a million rows fit, which is the worst for it.

    pip install '.[bench]' && python bench/lists.py [--documents 1000000] [--times 100]

Ends with 1 if a deep page takes more than 1.5 times as long by the median, or the runs more than one statement.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg

from fieldmark.db.embedded import running
from fieldmark.db.migrate import migrate
from fieldmark.db.pool import Database
from fieldmark.domain.statuses import DocumentStatus, ExtractionStatus
from fieldmark.identity.scope import Scope
from fieldmark.stores import documents, extractions, runs
from fieldmark.stores.rows import Position
from processes import bounded, heed_signals

DEADLINE_SECONDS = 1800
PAGE = 50
RUNS = 200
ODD = 10
TIMES_FILTERED = 5
WORST = 1.5
ORG = UUID("00000000-0000-4000-8000-000000000001")
SCOPE = Scope(user_id=ORG, org_id=ORG)
LAST = UUID("ffffffff-ffff-4fff-8fff-ffffffffffff")

FILL = """
set session_replication_role = replica;
insert into auth.users (id) values ('$org');
insert into organisations (id, name, created_by) values ('$org', 'Large', '$org');
insert into memberships (org_id, user_id, role, created_by) values ('$org', '$org', 'owner', '$org');
insert into documents (
    id, org_id, created_by, created_at, filename, storage_path, media_type, byte_size, status, error, page_count)
  select id, '$org', '$org', now() - n * interval '1 second', case when is_odd then 'odd ' else 'invoice ' end || n,
    concat_ws('/', '$org', id, 'a.pdf'), case when is_odd then 'image/png' else 'application/pdf' end, 9,
    case when is_odd then 'failed' else 'ready' end, case when is_odd then 'No.' end, 1
  from (
    select n, gen_random_uuid() as id, n > $documents - $odd as is_odd from generate_series(1, $documents) as n) as one;
insert into extractions (org_id, document_id, created_by, created_at, document_type, status, is_unsure)
  select org_id, id, created_by, created_at, case when is_odd then 'contract' else 'invoice' end,
    case when is_odd then 'in_progress' else 'completed' end, is_odd
  from (select *, status = 'failed' as is_odd from documents) as one;
insert into runs (id, org_id, created_by, created_at, agent, task, root_run_id, lock_key, approval, status, answer)
  select id, '$org', '$org', now() - n * interval '1 second', 'extraction', 'extract', id, '$org/' || n, 'auto',
    'completed', 'Done.'
  from (select n, gen_random_uuid() as id from generate_series(1, $runs) as n) as one;
"""


async def pages(database: Database, count: int, times: int) -> bool:
    now = datetime.now(UTC)
    behind = {
        "the first": None,
        "from the middle": Position(now - timedelta(seconds=count / 2), LAST),
        "the last": Position(now - timedelta(seconds=count - PAGE), LAST),
    }
    seconds: dict[str, list[float]] = {name: [] for name in behind}
    for _ in range(times):
        for name, position in behind.items():
            began = time.perf_counter()
            async with database.as_user(SCOPE) as conn:
                found = await documents.list_documents(conn, ORG, limit=PAGE, behind=position)
            seconds[name].append(time.perf_counter() - began)
            assert len(found) >= PAGE - 1, (name, len(found))
    medians = {name: statistics.median(taken) * 1000 for name, taken in seconds.items()}
    for name, median in medians.items():
        print(f"documents   page {name} of {count:,}: {median:.2f} ms, {median / medians['the first']:.2f} x the first")
    return max(medians.values()) <= WORST * medians["the first"]


async def filtered(database: Database, times: int) -> None:
    of_documents = {
        "status": documents.DocumentFilter(status=DocumentStatus.FAILED),
        "media type": documents.DocumentFilter(media_type="image/png"),
        "name": documents.DocumentFilter(name="ODD"),
    }
    of_extractions = {
        "status": extractions.ExtractionFilter(status=ExtractionStatus.IN_PROGRESS),
        "document type": extractions.ExtractionFilter(document_type="contract"),
        "to check": extractions.ExtractionFilter(to_check=True),
        "name": extractions.ExtractionFilter(name="ODD"),
    }
    for what, filters in (("documents", of_documents), ("extractions", of_extractions)):
        for name, wanted in filters.items():
            seconds: list[float] = []
            for _ in range(times):
                began = time.perf_counter()
                async with database.as_user(SCOPE) as conn:
                    if isinstance(wanted, documents.DocumentFilter):
                        found = await documents.list_documents(conn, ORG, limit=PAGE, wanted=wanted)
                    else:
                        found = await extractions.list_extractions(
                            conn, ORG, document_id=None, limit=PAGE, wanted=wanted
                        )
                seconds.append(time.perf_counter() - began)
                assert len(found) == ODD, (what, name, len(found))
            print(f"{what:<11} by {name}: {statistics.median(seconds) * 1000:.1f} ms")


async def listed_runs(database: Database) -> bool:
    statements = 0

    async with database.as_user(SCOPE) as conn:
        execute = conn.execute

        async def counted(*given: Any, **named: Any) -> Any:
            nonlocal statements
            statements += 1
            return await execute(*given, **named)

        conn.execute = counted  # pyright: ignore[reportAttributeAccessIssue]
        began = time.perf_counter()
        found = await runs.list_runs(conn, SCOPE, status=None, limit=RUNS, after=None)
        taken = time.perf_counter() - began
    print(f"runs        {len(found)} listed with {statements} statement in {taken * 1000:.0f} ms")
    return statements == 1 and len(found) == RUNS


async def measure(options: argparse.Namespace, home: Path) -> int:
    with running(home, 18) as server:
        await migrate(server.owner_url, app_password=server.app_password)
        fill = FILL.replace("$org", str(ORG)).replace("$documents", str(options.documents)).replace("$runs", str(RUNS))
        fill = fill.replace("$odd", str(ODD))
        with psycopg.connect(server.owner_url, autocommit=True) as owner:
            owner.execute("set search_path = public")
            owner.execute(fill.encode())
            owner.execute("vacuum analyze")
        async with Database(server.app_url, size=2) as database:
            held = [await pages(database, options.documents, options.times), await listed_runs(database)]
            await filtered(database, TIMES_FILTERED)
    return 0 if all(held) else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=100)
    options = parser.parse_args()
    heed_signals()
    with tempfile.TemporaryDirectory(prefix="fieldmark-lists-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        with bounded(DEADLINE_SECONDS, Path(folder)):
            return asyncio.run(measure(options, Path(folder)))


if __name__ == "__main__":
    sys.exit(main())
