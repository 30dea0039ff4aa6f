"""Realtime: changes of published tables over Phoenix channels, to those who may read the row."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import psycopg
from psycopg import sql
from starlette.websockets import WebSocket, WebSocketDisconnect

from supabase_stand_in.database import Caller, Connect, Refused, fetch_value

_CHANNEL = "realtime_stand_in"
# In place of logical replication: each change notifies with the row's key.
_TRIGGERS = f"""
create schema realtime;
create function realtime.notify_change() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  perform pg_notify('{_CHANNEL}', json_build_object('type', tg_op, 'table', tg_table_name, 'key',
    (select json_object_agg(name, to_jsonb(new) -> name) from unnest(tg_argv) as name))::text);
  return null;
end $$;
do $$
declare
  v_table text;
  v_key text;
begin
  for v_table, v_key in
    select p.tablename, (
      select string_agg(quote_literal(a.attname), ', ') from pg_index as i
      join pg_attribute as a on a.attrelid = i.indrelid and a.attnum = any (i.indkey)
      where i.indisprimary and i.indrelid = format('public.%I', p.tablename)::regclass)
    from pg_publication_tables as p where p.pubname = 'supabase_realtime'
  loop
    execute format('create trigger zz_realtime after insert or update on public.%I for each row '
      'execute function realtime.notify_change(%s)', v_table, v_key);
  end loop;
end $$;
"""


async def publish(owner_url: str) -> None:
    """Let each change of a published table be notified."""
    async with await psycopg.AsyncConnection.connect(owner_url) as connection:
        await connection.execute(_TRIGGERS)


@dataclass
class _Subscription:
    id: int
    event: str
    table: str | None
    filter: str | None

    def fits(self, change: dict[str, Any]) -> bool:
        return self.event in ("*", change["type"]) and self.table in (None, "*", change["table"])


class _Socket:
    """A connection of a client: its format of messages and its joined channels."""

    def __init__(self, socket: WebSocket, project: Any, connect: Connect) -> None:
        self.socket, self.project, self.connect = socket, project, connect
        self.is_array = socket.query_params.get("vsn") == "2.0.0"
        self.key = socket.query_params["apikey"]
        self.channels: dict[str, tuple[Caller, list[_Subscription]]] = {}

    async def send(self, topic: str, event: str, payload: Any, ref: str | None = None, join: Any = None) -> None:
        if self.is_array:
            await self.socket.send_text(json.dumps([join, ref, topic, event, payload]))
        else:
            await self.socket.send_text(json.dumps({"topic": topic, "event": event, "payload": payload, "ref": ref}))

    async def receive(self) -> None:
        """Answer the client's messages until it goes."""
        while True:
            text = json.loads(await self.socket.receive_text())
            names = ("join_ref", "ref", "topic", "event", "payload")
            message = dict(zip(names, text, strict=True)) if self.is_array else text
            topic, ref = message["topic"], message["ref"]
            response: dict[str, Any] = {}
            status = "ok"
            match message["event"]:
                case "phx_join":
                    try:
                        response = self._join(topic, message["payload"])
                    except Refused as error:
                        status, response = "error", {"reason": error.body["message"]}
                case "access_token" if topic in self.channels:
                    caller = self.project.token_caller(message["payload"]["access_token"], self.key)
                    self.channels[topic] = caller, self.channels[topic][1]
                    continue
                case "phx_leave":
                    self.channels.pop(topic, None)
            await self.send(topic, "phx_reply", {"status": status, "response": response}, ref, message.get("join_ref"))
            if message["event"] == "phx_join" and status == "ok":
                about = {"channel": topic, "extension": "postgres_changes", "status": "ok"}
                await self.send(topic, "system", about | {"message": "Subscribed to PostgreSQL"})

    def _join(self, topic: str, payload: dict[str, Any]) -> dict[str, Any]:
        caller = self.project.token_caller(payload.get("access_token") or "", self.key)
        wanted = payload["config"].get("postgres_changes", [])
        subscriptions = [
            _Subscription(number, one["event"], one.get("table"), one.get("filter"))
            for number, one in enumerate(wanted, 1)
        ]
        self.channels[topic] = caller, subscriptions
        return {"postgres_changes": [{"id": number, **one} for number, one in enumerate(wanted, 1)]}

    async def send_changes(self, changes: psycopg.AsyncConnection) -> None:
        """Send each change to the channels that subscribed to it and whose caller may read the row."""
        async for notification in changes.notifies():
            change = json.loads(notification.payload)
            for topic, (caller, subscriptions) in list(self.channels.items()):
                for one in subscriptions:
                    row = await self._row(caller, change, one.filter) if one.fits(change) else None
                    if row is not None:
                        now = datetime.now(UTC).isoformat()
                        data = {"schema": "public", "table": change["table"], "commit_timestamp": now}
                        data |= {"type": change["type"], "errors": None, "columns": [], "record": row}
                        await self.send(topic, "postgres_changes", {"ids": [one.id], "data": data})

    async def _row(self, caller: Caller, change: dict[str, Any], filter: str | None) -> dict[str, Any] | None:
        conditions = [
            sql.SQL("{} = {}").format(sql.Identifier(k), sql.Literal(str(v))) for k, v in change["key"].items()
        ]
        if filter is not None:
            column, _, value = filter.partition("=eq.")  # the only operator that is imitated
            conditions.append(sql.SQL("{} = {}").format(sql.Identifier(column), sql.Literal(value)))
        query = sql.SQL("select to_jsonb(t) from {} as t where {}").format(
            sql.Identifier("public", change["table"]), sql.SQL(" and ").join(conditions)
        )
        async with self.connect(caller) as connection:
            try:
                return await fetch_value(connection, query)
            except psycopg.errors.InsufficientPrivilege:
                return None


async def follow(socket: WebSocket, project: Any, connect: Connect, changes: psycopg.AsyncConnection) -> None:
    """Serve one client until it goes."""
    client = _Socket(socket, project, connect)
    await changes.execute(f"listen {_CHANNEL}")
    sending = asyncio.create_task(client.send_changes(changes))
    try:
        await client.receive()
    except WebSocketDisconnect:
        pass
    finally:
        sending.cancel()
