"""The rows for bench/growth.py: a service with this many documents after one year."""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor

import psycopg

ROWS_PER_CONNECTION = 20_000
"""Rows of documents to a statement while loading."""

# Ids increase with time, as generated ones do. The first digits name the table.
_ID = "('%s0000000-0000-7000-8000-' || lpad(to_hex(%s), 12, '0'))::uuid"
_ORG = _ID.replace("%s", "0", 1) % "o"
_ORG_OF = "case when n % 10 < 3 or $orgs = 1 then 1 else 2 + n % ($orgs - 1) end"

_ORGANISATIONS = f"""
insert into auth.users (id) select {_ORG} from generate_series(1, $orgs) as o;
insert into organisations (id, name, created_by) select {_ORG}, 'Organisation ' || o, {_ORG}
  from generate_series(1, $orgs) as o;
insert into memberships (org_id, user_id, role, created_by) select {_ORG}, {_ORG}, 'owner', {_ORG}
  from generate_series(1, $orgs) as o;
"""
_SOURCE = f"""
from (select n, {_ORG.replace("to_hex(o)", f"to_hex({_ORG_OF})")} as org,
  {_ID % ("d", "n")} as doc, {_ID % ("e", "n")} as ext, {_ID % ("a", "n")} as run,
  now() - ($last - n) * interval '1 year' / $last as at
  from generate_series($first, $until) as n) as one
"""
_FIELDS = "(select jsonb_object_agg('field_' || f, 'value ' || f || ' of ' || n) from generate_series(1, 20) as f)"
_ROWS = f"""
insert into documents (id, org_id, created_by, created_at, filename, storage_path, media_type, byte_size, status,
  page_count, extraction_stage) select doc, org, org, at, 'invoice ' || n || '.pdf', concat_ws('/', org, doc, 'a.pdf'),
  'application/pdf', 9, 'ready', 1, case when n %% 2 = 1 then 'needs_review' else 'extracted' end {_SOURCE};
insert into document_pages (document_id, org_id, number, width, height, text, words, engine, created_by)
  select doc, org, 1, 595, 842, 'Total ' || n, '[["Total", 0.1, 0.1, 0.2, 0.2]]', 'pdf', org {_SOURCE};
insert into extractions (id, org_id, document_id, created_by, created_at, updated_at, document_type, status,
  extracted_fields, locks, review_count, version) select ext, org, doc, org, at, at, 'invoice', 'completed', {_FIELDS},
  case when n %% 2 = 1 then jsonb_build_object('field_9', jsonb_build_object('by', org, 'at', at)) else '{{}}' end,
  case when n %% 2 = 1 then 1 else 0 end, 10 {_SOURCE};
insert into fields (org_id, document_id, extraction_id, path, pattern, indexes, kind, text, is_verified, status)
  select org, doc, ext, 'field_' || f, 'field_' || f, '{{}}', 'text', 'value ' || f || ' of ' || n, false,
  case when f = 9 and n %% 2 = 1 then 'needs_review' else 'found' end
  {_SOURCE} cross join generate_series(1, 20) as f;
insert into extraction_proposals (org_id, extraction_id, path, name, old, new, confidence_scores, evidence, run_id,
  created_by, created_at)
  select org, ext, array['field_9'], 'field_9', to_jsonb('value 9 of ' || n), '"another"', '{{}}', '{{}}', run, org, at
  {_SOURCE} where n %% 2 = 1;
insert into threads (id, org_id, created_by, created_at, agent, document_id)
  select {_ID % ("c", "n")}, org, org, at, 'extraction', doc {_SOURCE} where n %% 10 = 1;
insert into extraction_journal (org_id, extraction_id, version, path, steps, new, actor, run_id, call_id, created_by,
  created_at) select org, ext, v, array['field_' || v], 'k', to_jsonb('value ' || v || ' of ' || n), 'agent', run,
  'call_' || v, org, at {_SOURCE} cross join generate_series(1, 10) as v;
insert into runs (id, org_id, created_by, created_at, agent, task, document_id, extraction_id, root_run_id, lock_key,
  approval, status, fencing_token, session_id, waiting_call, started_at, finished_at, answer)
  select run, org, org, at, 'extraction', 'extract', doc, ext, run, org || '/extraction/' || ext, 'auto',
  case when n %% $waiting = 0 then 'awaiting_approval' else 'completed' end, 1, run,
  case when n %% $waiting = 0 then 'call_1' end, at, case when n %% $waiting <> 0 then at end, 'Done.' {_SOURCE};
insert into run_events (run_id, number, org_id, body, created_by, created_at)
  select run, e, org, json_build_object('type', 'text', 'text', repeat('word ', 20)), org, at
  {_SOURCE} cross join generate_series(1, 10) as e;
insert into tool_calls (run_id, id, org_id, tool, arguments, arguments_hash, status, approved_by, result, code,
  created_by, created_at, finished_at) select run, 'call_' || c, org, 'update_field',
  jsonb_build_object('path', 'field_' || c, 'value', n), repeat('0', 64),
  case when pending then 'pending' else 'done' end, case when not pending then 'policy' end,
  case when not pending then 'Stored.' end, 'ok', org, case when pending then now() else at end, at
  from (select one.*, c, c = 1 and n %% $waiting = 0 as pending {_SOURCE} cross join generate_series(1, 3) as c) as one;
insert into usage (run_id, message_id, org_id, agent, model, input_tokens, output_tokens, cache_write_5m_tokens,
  cache_write_1h_tokens, cache_read_tokens, cost_usd, created_by, created_at, root_run_id)
  select run, '1.' || m, org, 'extraction', 'claude-sonnet-5', 1000, 100, 0, 0, 0, 0.01, org, at, run
  {_SOURCE} cross join generate_series(1, 2) as m;
insert into agent_sessions (org_id, session_id, uuid, entry, created_by, created_at)
  select org, run::text, gen_random_uuid()::text,
  json_build_object('type', 'user', 'message', repeat('word ', 100)), org, at
  {_SOURCE} cross join generate_series(1, 2) as m;
"""
_SUMS = """
insert into usage_by_day (org_id, day, agent, model, slot, documents_read, messages, unpriced, input_tokens,
  output_tokens, cache_write_tokens, cache_read_tokens, cost_usd)
  select org_id, (created_at at time zone 'utc')::date, agent, model, 0, count(distinct run_id), count(*), 0,
  sum(input_tokens), sum(output_tokens), 0, 0, sum(cost_usd) from usage group by 1, 2, 3, 4;
"""


def load(url: str, count: int, organisations: int) -> None:
    """Fill a migrated database without triggers: first the rows, over a connection per core, then each index at once,
    which is much faster than row by row."""

    def connect() -> psycopg.Connection:
        owner = psycopg.connect(url, autocommit=True)
        for setting in ("search_path = public", "session_replication_role = replica", "synchronous_commit = off"):
            owner.execute(f"set {setting}".encode())
        owner.execute("set maintenance_work_mem = '1GB'")
        owner.execute("set max_parallel_maintenance_workers = 0")
        return owner

    # In the largest organisation, at least a page of runs waits for approval, also in the small database.
    parameters = {"$orgs": str(organisations), "$last": str(count), "$waiting": "5" if count < 10_000 else "1000"}

    def insert_rows(first: int) -> None:
        part = {"$first": str(first), "$until": str(min(first + ROWS_PER_CONNECTION - 1, count))}
        with connect() as owner:
            owner.execute(_with_parameters(_ROWS.replace("%%", "%"), parameters | part))

    def rebuild_index(table: str) -> None:
        with connect() as owner:
            owner.execute(f"reindex table {table}".encode())
            owner.execute(f"vacuum (analyze) {table}".encode())

    with connect() as owner, ThreadPoolExecutor(max_workers=os.cpu_count()) as threads:
        owner.execute(_with_parameters(_ORGANISATIONS, parameters))
        tables = re.findall(r"^insert into (\w+)", _ROWS, re.MULTILINE)
        # Rows are not added to an index that is not ready. Rebuilding makes it ready.
        owner.execute(
            "update pg_index set indisready = false, indisvalid = false where indrelid = any (%s::regclass[])", [tables]
        )
        list(threads.map(insert_rows, range(1, count + 1, ROWS_PER_CONNECTION)))
        by_size = owner.execute(
            "select relname from pg_class where oid = any (%s::regclass[]) order by pg_relation_size(oid) desc",
            [tables],
        )
        list(threads.map(rebuild_index, [name for (name,) in by_size.fetchall()]))
        owner.execute(_SUMS.encode())
        # Deferred work is not due while measuring.
        owner.execute("update private.maintenance set finished_at = now() - interval '1 day'")
        owner.execute("vacuum analyze usage_by_day, organisations, memberships")
        owner.execute("checkpoint")


def _with_parameters(statements: str, parameters: dict[str, str]) -> bytes:
    for name, parameter in parameters.items():
        statements = statements.replace(name, parameter)
    return statements.encode()
