"""PostgREST: rows and functions of the schema `public`, with its statuses and error codes.

Written after PostgREST's documentation. A part of a request that is not imitated is refused with PGRST100.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql
from starlette.requests import Request
from starlette.responses import Response

from supabase_stand_in.database import Caller, Connect, Refused, fetch_value

_OPERATORS = {"eq": "=", "neq": "<>", "gt": ">", "gte": ">=", "lt": "<", "lte": "<=", "is": "is", "in": "in"}
# Statuses by SQLSTATE, after PostgREST's documentation: the first prefix that matches.
_STATUSES = {"42501": 403, "23503": 409, "23505": 409, "25006": 405, "42883": 404, "42P01": 404, "42P17": 500}
_STATUSES |= {"P0001": 400, "53400": 500, "08": 503, "53": 503, "0L": 403, "0P": 403, "28": 403}
_STATUSES |= dict.fromkeys(("09", "25", "2D", "38", "39", "3B", "40", "54", "55", "57", "58", "F0", "P0", "XX"), 500)


async def answer(request: Request, project: Any, connect: Connect) -> Response:
    caller: Caller = project.caller(request)
    body = await request.body()
    _, _, name = request.path_params["path"].rpartition("/")
    prefer = dict(re.findall(r"([a-z-]+)=([\w-]+)", request.headers.get("prefer", "")))
    try:
        async with connect(caller) as connection:
            if request.path_params["path"].startswith("rpc/"):
                rows = await _call(connection, name, json.loads(body or b"{}"))
            else:
                rows = await _Table(connection, name).answer(request, body, prefer)
            content = _one(rows) if "vnd.pgrst.object" in request.headers.get("accept", "") else rows
    except psycopg.Error as error:
        state = error.sqlstate or ""
        if state.startswith("PT"):
            status = int(state[2:])
        else:
            status = next((code for prefix, code in _STATUSES.items() if state.startswith(prefix)), 400)
        if state == "42501" and caller.role == "anon":
            status = 401
        diagnosis = error.diag
        raise Refused(
            status,
            {
                "code": state,
                "message": diagnosis.message_primary,
                "details": diagnosis.message_detail,
                "hint": diagnosis.message_hint,
            },
        ) from None
    if content is None:
        return Response(status_code=201 if request.method == "POST" and "rpc/" not in request.url.path else 204)
    status = 201 if request.method == "POST" and "rpc/" not in request.url.path else 200
    # The database has written the JSON: a number keeps its digits.
    return Response(content, status, media_type="application/json")


def _refused(status: int, code: str, message: str, details: str | None = None) -> Refused:
    return Refused(status, {"code": code, "message": message, "details": details, "hint": None})


def _one(rows: str | None) -> str:
    """Return the only row as an object."""
    found = [] if rows is None else json.loads(rows)
    if isinstance(found, list):
        if len(found) != 1:
            message = "Cannot coerce the result to a single JSON object"
            raise _refused(406, "PGRST116", message, f"The result contains {len(found)} rows")
        return json.dumps(found[0])
    return rows or "null"


async def _call(connection: psycopg.AsyncConnection, name: str, arguments: dict[str, Any]) -> str | None:
    """Call the function that has all given arguments, and whose other arguments have defaults."""
    found = await connection.execute(
        """select p.proretset, p.prorettype = 'void'::regtype, coalesce(p.proargnames[1:p.pronargs], '{}'),
             array(select format_type(type, null) from unnest(p.proargtypes::oid[]) with ordinality as a (type, n)
                   order by n),
             p.pronargs - p.pronargdefaults
           from pg_proc as p where p.pronamespace = 'public'::regnamespace and p.proname = %s""",
        [name],
    )
    candidates = [
        (is_set, is_void, dict(zip(names, types, strict=True)))
        for is_set, is_void, names, types, needed in await found.fetchall()
        if arguments.keys() <= set(names) and set(names[:needed]) <= arguments.keys()
    ]
    if len(candidates) != 1:
        given = f"public.{name}({', '.join(arguments)})"
        if candidates:
            raise _refused(300, "PGRST203", f"Could not choose the best candidate function between: {given}")
        raise _refused(404, "PGRST202", f"Could not find the function {given} in the schema cache")
    ((is_set, is_void, types),) = candidates
    given = sql.SQL(", ").join(sql.SQL("{0} => x.{0}").format(sql.Identifier(one)) for one in arguments)
    called = sql.SQL("{}({})").format(sql.Identifier("public", name), given)
    source = sql.SQL("")
    if arguments:
        columns = sql.SQL(", ").join(sql.SQL("{} {}").format(sql.Identifier(a), sql.SQL(types[a])) for a in arguments)
        # (JSON null becomes SQL NULL here, also for an argument of type jsonb.)
        source = sql.SQL("from json_to_record(%s::json) as x ({})").format(columns)
    values = [json.dumps(arguments)] if arguments else []
    if is_set:
        every = sql.SQL("select coalesce(json_agg(to_json(r)), '[]')::text from (select {} as r {}) as s")
        return await fetch_value(connection, every.format(called, source), values)
    value = await fetch_value(connection, sql.SQL("select to_json({})::text {}").format(called, source), values)
    return None if is_void else value or "null"


@dataclass
class _Table:
    connection: psycopg.AsyncConnection
    name: str

    async def answer(self, request: Request, body: bytes, prefer: dict[str, str]) -> str | None:
        columns = await fetch_value(
            self.connection,
            """select array_agg(attname::text) from pg_attribute
               where attrelid = to_regclass(%s) and attnum > 0 and not attisdropped""",
            [f'public."{self.name}"'],
        )
        if columns is None:
            raise _refused(404, "PGRST205", f"Could not find the table 'public.{self.name}' in the schema cache")
        query = request.query_params.multi_items()
        given = dict(query)
        table = sql.Identifier("public", self.name)
        where, values = _conditions(query)
        selected = await self.selected(given.get("select", "*"), self.name, sql.Identifier("source"))
        if request.method in ("GET", "HEAD"):
            rows = sql.SQL("select {} from {} as source where {}{}").format(selected, table, where, _order(given))
            return await self._rows(rows, values)
        if request.method == "DELETE":
            written = sql.SQL("delete from {} where {}").format(table, where)
        else:
            rows_given = json.loads(body)
            rows_given = rows_given if isinstance(rows_given, list) else [rows_given]
            names = (
                [name.strip('"') for name in given["columns"].split(",")] if "columns" in given else [*rows_given[0]]
            )
            for name in names:
                if name not in columns:
                    message = f"Could not find the '{name}' column of '{self.name}' in the schema cache"
                    raise _refused(400, "PGRST204", message)
            fields = sql.SQL(", ").join(map(sql.Identifier, names))
            record = sql.SQL("select {} from json_populate_recordset(null::{}, %s::json)").format(fields, table)
            values = [json.dumps(rows_given), *values]
            if request.method == "POST":
                if "resolution" in prefer:
                    raise _refused(400, "PGRST100", "Upserts are not imitated")
                written = sql.SQL("insert into {} ({}) {}").format(table, fields, record)
            else:
                written = sql.SQL("update {} set ({}) = ({}) where {}").format(table, fields, record, where)
        if prefer.get("return") != "representation":
            await self.connection.execute(written, values)
            return None
        plain = given.get("select", "*").split(",")
        returned = sql.SQL(", ").join(map(sql.Identifier, plain)) if set(plain) <= set(columns) else sql.SQL("*")
        return await self._rows(
            sql.SQL("select {} from source").format(selected),
            values,
            sql.SQL("{} returning {}").format(written, returned),
        )

    async def _rows(self, rows: sql.Composable, values: list[Any], written: sql.Composable | None = None) -> str:
        before = sql.SQL("with source as ({}) ").format(written) if written else sql.SQL("")
        whole = sql.SQL("{}select coalesce(json_agg(row_to_json(r)), '[]')::text from ({}) as r").format(before, rows)
        return await fetch_value(self.connection, whole, values)

    async def selected(self, select: str, table: str, alias: sql.Composable) -> sql.Composable:
        """Return the select list: columns, JSON paths, and embedded rows of other tables."""
        items: list[sql.Composable] = []
        for item in _split(select):
            match = re.fullmatch(r"(?:(\w+):)?(\*|[\w>-]+?)(?:!(\w+))?(?:\((.*)\))?", item, re.DOTALL)
            if match is None or item.startswith("..."):
                raise _refused(400, "PGRST100", f'failed to parse select parameter "{select}"')
            label, name, hint, inside = match.groups()
            if inside is not None:
                embedded = await self._embedded(table, alias, name, hint, inside)
                items.append(sql.SQL("{} as {}").format(embedded, sql.Identifier(label or name)))
            elif name == "*":
                items.append(sql.SQL("{}.*").format(alias))
            else:
                last = re.split(r"->>?", name)[-1]
                items.append(sql.SQL("{} as {}").format(_column(name, alias), sql.Identifier(label or last)))
        return sql.SQL(", ").join(items)

    async def _embedded(
        self, table: str, alias: sql.Composable, target: str, hint: str | None, select: str
    ) -> sql.Composable:
        found = await self.connection.execute(
            """select c.conrelid = %(table)s::regclass, x.columns, y.columns
               from pg_constraint as c
               cross join lateral (
                 select array_agg(attname::text order by array_position(c.conkey, attnum)) as columns
                 from pg_attribute where attrelid = c.conrelid and attnum = any (c.conkey)) as x
               cross join lateral (
                 select array_agg(attname::text order by array_position(c.confkey, attnum)) as columns
                 from pg_attribute where attrelid = c.confrelid and attnum = any (c.confkey)) as y
               where c.contype = 'f'
                 and (%(hint)s::text is null or c.conname = %(hint)s or x.columns = array[%(hint)s::text])
                 and (c.conrelid, c.confrelid) in (
                   (%(table)s::regclass, to_regclass(%(target)s)), (to_regclass(%(target)s), %(table)s::regclass))""",
            {"table": f'public."{table}"', "target": f'public."{target}"', "hint": hint},
        )
        keys = await found.fetchall()
        between = f"'{table}' and '{target}'"
        if not keys:
            raise _refused(400, "PGRST200", f"Could not find a relationship between {between} in the schema cache")
        if len(keys) > 1:
            raise _refused(300, "PGRST201", f"More than one relationship was found for {between}")
        is_parent, referring, referred = keys[0]
        here, there = (referring, referred) if is_parent else (referred, referring)
        inner = sql.Identifier(f"{target}_embedded")
        joined = sql.SQL(" and ").join(
            sql.SQL("{}.{} = {}.{}").format(inner, sql.Identifier(b), alias, sql.Identifier(a))
            for a, b in zip(here, there, strict=True)
        )
        columns = await self.selected(select, target, inner)
        rows = sql.SQL("select {} from {} as {} where {}").format(
            columns, sql.Identifier("public", target), inner, joined
        )
        form = "row_to_json(e)" if is_parent else "coalesce(json_agg(row_to_json(e)), '[]')"
        return sql.SQL(f"(select {form} from ({{}}) as e)").format(rows)


def _split(text: str) -> list[str]:
    """Split at the commas that are outside of parentheses."""
    return re.findall(r"(?:[^,()]|\((?:[^()]|\([^()]*\))*\))+", text)


def _column(name: str, alias: sql.Composable | None = None) -> sql.Composable:
    """Return a column, or the JSON value under a path such as `evidence->total->>page`."""
    column, *steps = re.split(r"(->>?)", name)
    prefix = sql.SQL("{}.").format(alias) if alias else sql.SQL("")
    found = sql.SQL("{}{}").format(prefix, sql.Identifier(column))
    for arrow, key in zip(steps[::2], steps[1::2], strict=True):
        step = sql.Literal(int(key)) if key.isdigit() else sql.Literal(key)
        found = sql.SQL("{}{}{}").format(found, sql.SQL(arrow), step)
    return found


def _conditions(query: list[tuple[str, str]]) -> tuple[sql.Composable, list[Any]]:
    conditions: list[sql.Composable] = [sql.SQL("true")]
    values: list[Any] = []
    for name, text in query:
        if name in ("select", "columns", "order", "limit", "offset"):
            continue
        operator, _, value = text.partition(".")
        if operator not in _OPERATORS:
            raise _refused(400, "PGRST100", f'failed to parse filter ({text}) of "{name}"')
        column = _column(name)
        if operator == "is":
            if value not in ("null", "true", "false", "unknown"):
                raise _refused(400, "PGRST100", f'failed to parse filter ({text}) of "{name}"')
            conditions.append(sql.SQL("{} is {}").format(column, sql.SQL(value)))
        elif operator == "in":
            members = [member.strip('"') for member in _split(value[1:-1])]
            places = sql.SQL(", ").join([sql.Placeholder()] * len(members))
            conditions.append(sql.SQL("{} in ({})").format(column, places) if members else sql.SQL("false"))
            values += members
        else:
            conditions.append(sql.SQL("{} {} %s").format(column, sql.SQL(_OPERATORS[operator])))
            values.append(value)
    return sql.SQL(" and ").join(conditions), values


def _order(query: dict[str, str]) -> sql.Composable:
    parts: list[sql.Composable] = []
    if "order" in query:
        terms: list[sql.Composable] = []
        for term in query["order"].split(","):
            column, *how = term.split(".")
            words = " ".join({"nullsfirst": "nulls first", "nullslast": "nulls last"}.get(word, word) for word in how)
            if not re.fullmatch(r"(asc|desc)?( ?nulls (first|last))?", words):
                raise _refused(400, "PGRST100", f"failed to parse order ({query['order']})")
            terms.append(sql.SQL("{} {}").format(_column(column), sql.SQL(words)))
        parts.append(sql.SQL(" order by {}").format(sql.SQL(", ").join(terms)))
    parts += [
        sql.SQL(f" {word} {{}}").format(sql.Literal(int(query[word]))) for word in ("limit", "offset") if word in query
    ]
    return sql.SQL("").join(parts)
