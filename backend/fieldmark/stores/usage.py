"""Usage and cost of model messages, and credit limits, in Postgres."""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields
from datetime import date
from decimal import Decimal
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg import AsyncConnection

from fieldmark.stores.rows import value_of

Row = dict[str, Any]

INCOMPLETE_PREFIX: Final = "~"
"""Prefix of the ids of charged messages that were interrupted. The call was repeated, so they are not turns."""


async def check_capacity(conn: AsyncConnection[Row], run_id: UUID, *, priced: bool) -> str | None:
    """Check whether a run may start now, within its organisation's credit and number of concurrent runs. `priced`: its
    model has a known price. Return `granted`, `held`, `out_of_credit`, `max_cost` or `model_unpriced`; None if the run
    has ended or is not visible. A held run is queued again automatically."""
    return await value_of(conn, "select private.check_capacity(%s, %s) as result", (run_id, priced))


@dataclass(frozen=True, slots=True)
class ChargedMessage:
    """A message of the model in a run. `cost_usd` is null if the model has no known price."""

    run_id: UUID
    org_id: UUID
    agent: str
    message_id: str
    model: str
    input_tokens: int
    output_tokens: int
    cache_write_5m_tokens: int
    cache_write_1h_tokens: int
    cache_read_tokens: int
    cost_usd: Decimal | None


async def charge(conn: AsyncConnection[Row], message: ChargedMessage) -> str | None:
    """Charge a message once. Return None, or why the run must stop: `max_cost` or `out_of_credit`."""
    marks: LiteralString = ", ".join("%s" for _ in fields(message))
    return await value_of(conn, f"select private.charge({marks})", astuple(message))


async def credit(conn: AsyncConnection[Row], org_id: UUID) -> Row | None:
    """Return an organisation's limits and its cost in this calendar month, as {max_usd, max_concurrent_runs,
    spent_usd}. None if it has no limits."""
    cursor = await conn.execute(
        """select max_usd, max_concurrent_runs, private.spent_this_month(org_id) as spent_usd
           from public.credit_limits where org_id = %s""",
        (org_id,),
    )
    return await cursor.fetchone()


@dataclass(frozen=True, slots=True)
class Storage:
    """What an organisation stores, and the most that it may. None: no limit."""

    documents: int
    bytes: int
    max_documents: int | None
    max_bytes: int | None


async def storage(conn: AsyncConnection[Row], org_id: UUID) -> Storage:
    cursor = await conn.execute(
        """select coalesce(u.documents, 0) as documents, coalesce(u.bytes, 0) as bytes, l.max_documents, l.max_bytes
           from (values (%s::uuid)) as o (id) left join public.storage_usage as u on u.org_id = o.id
           left join public.credit_limits as l on l.org_id = o.id""",
        (org_id,),
    )
    row = await cursor.fetchone()
    assert row is not None
    return Storage(**row)


async def report_full_quota(conn: AsyncConnection[Row], org_id: UUID) -> None:
    """Record a change that the organisation may not store more, unless that is recorded already."""
    await conn.execute("select private.report_full_quota(%s)", (org_id,))


async def by_model(conn: AsyncConnection[Row], run_id: UUID) -> list[Row]:
    """Return the usage of a run by model, in order of first use. Child runs are not included."""
    cursor = await conn.execute(
        """select model, count(*) filter (where left(message_id, 1) <> '~') as turns,
               sum(input_tokens)::bigint as input_tokens,
               sum(output_tokens)::bigint as output_tokens,
               sum(cache_write_5m_tokens + cache_write_1h_tokens)::bigint as cache_creation_input_tokens,
               sum(cache_read_tokens)::bigint as cache_read_input_tokens,
               case when count(*) = count(cost_usd) then sum(cost_usd) end as cost_usd
           from public.usage where run_id = %s group by model order by min(created_at), model""",
        (run_id,),
    )
    return await cursor.fetchall()


async def by_day(conn: AsyncConnection[Row], org_id: UUID, since: date, until: date) -> list[Row]:
    """Return an organisation's usage by day, agent and model, from `since` to `until` (UTC, both inclusive)."""
    cursor = await conn.execute(
        """select day, agent, model, sum(messages)::bigint as messages,
               sum(input_tokens)::bigint as input_tokens, sum(output_tokens)::bigint as output_tokens,
               sum(cache_write_tokens)::bigint as cache_creation_input_tokens,
               sum(cache_read_tokens)::bigint as cache_read_input_tokens,
               case when sum(unpriced) = 0 then sum(cost_usd) end as cost_usd
           from public.usage_by_day
           where org_id = %(org)s and day between %(since)s and %(until)s
           group by day, agent, model order by day, agent, model""",
        {"org": org_id, "since": since, "until": until},
    )
    return await cursor.fetchall()
