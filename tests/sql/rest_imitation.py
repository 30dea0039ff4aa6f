"""An imitation of what a Supabase project answers a front end: Auth's sign-in, PostgREST, an upload into Storage.

It is no Supabase. What is real is behind it: it logs in as `authenticator`, becomes the role of the token, sets the
claims as PostgREST does, and lets the database's own policies and functions answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit
from uuid import UUID

import jwt
import psycopg
from doors import become
from psycopg import sql
from psycopg.types.json import Json

PASSWORD = "the-password-of-everybody-here"
PUBLISHABLE_KEY = "sb_publishable_only_for_this_test"
_SIGNING = "a signing key of thirty-two bytes or more"
_OPERATORS = {"eq": "=", "gt": ">", "lt": "<"}


@dataclass
class Project:
    """A project: its address, its users by their address, and where it puts what is uploaded."""

    rest: psycopg.Connection
    objects: Path
    url: str = ""
    users: dict[str, UUID] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)


@contextmanager
def project(owner_url: str, objects: Path) -> Iterator[Project]:
    with psycopg.connect(owner_url, autocommit=True) as rest:
        rest.execute("set session authorization authenticator")
        state = Project(rest, objects)

        class Handler(_Handler):
            project = state

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        state.url = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield state
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


class _Handler(BaseHTTPRequestHandler):
    project: Project

    def _answer(self) -> None:
        parts = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if parts.path == "/auth/v1/token":
            self._sign_in(json.loads(body))
            return
        try:
            with self.project.lock, self.project.rest.transaction():
                become(self.project.rest, *self._claims())
                if parts.path.startswith("/storage/v1/object/documents/"):
                    answer = self._upload(unquote(parts.path.removeprefix("/storage/v1/object/documents/")), body)
                elif parts.path.startswith("/rest/v1/rpc/"):
                    answer = self._call(parts.path.rpartition("/")[2], json.loads(body))
                else:
                    answer = self._rows(parts.path.rpartition("/")[2], parse_qsl(parts.query), body)
        except psycopg.Error as error:
            state = error.sqlstate or ""
            status = int(state[2:]) if state.startswith("PT") else {"42501": 403, "23505": 409}.get(state, 400)
            told = {"code": state, "message": error.diag.message_primary, "details": error.diag.message_detail}
            self._json(status, {**told, "hint": None, "statusCode": str(status), "error": "refused"})
        else:
            self._json(200, answer)

    do_GET = do_POST = do_PATCH = _answer  # noqa: N815  its base class calls them so

    def _sign_in(self, said: dict[str, Any]) -> None:
        user = self.project.users.get(said["email"])
        if user is None or said["password"] != PASSWORD:
            self._json(400, {"code": 400, "error_code": "invalid_credentials", "msg": "Invalid login credentials"})
            return
        token = jwt.encode({"sub": str(user), "role": "authenticated", "email": said["email"]}, _SIGNING, "HS256")
        about = {"app_metadata": {}, "user_metadata": {}, "aud": "authenticated", "created_at": "2026-11-22T00:00:00Z"}
        session = {"access_token": token, "refresh_token": "r", "token_type": "bearer", "expires_in": 3600}
        self._json(200, {**session, "user": {"id": str(user), **about}})

    def _claims(self) -> tuple[str, dict[str, str]]:
        token = self.headers["Authorization"].removeprefix("Bearer ")
        if token == PUBLISHABLE_KEY:
            return "anon", {"role": "anon"}
        claims = jwt.decode(token, _SIGNING, ["HS256"])
        return claims["role"], claims

    def _upload(self, name: str, body: bytes) -> object:
        form = message_from_bytes(f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode() + body)
        [content] = [part.get_payload(decode=True) for part in form.get_payload() if part.get_filename()]
        self.project.rest.execute("insert into storage.objects (bucket_id, name) values ('documents', %s)", [name])
        file = self.project.objects / name
        for folder in (self.project.objects, file.parent.parent, file.parent):
            folder.mkdir(mode=0o700, exist_ok=True)
        file.write_bytes(content)
        file.chmod(0o600)
        return {"Id": name, "Key": f"documents/{name}"}

    def _call(self, function: str, arguments: dict[str, Any]) -> object:
        types = self.project.rest.execute(
            """select name, format_type(type, null) from pg_proc as p,
               unnest(p.proargnames, p.proargtypes::oid[]) as a (name, type)
               where p.pronamespace = 'public'::regnamespace and p.proname = %s and name = any (%s)""",
            [function, list(arguments)],
        ).fetchall()
        assert len(types) == len(arguments), f"{function} has not all of {list(arguments)}"
        given = sql.SQL(", ").join(
            sql.SQL("{} => x.{}").format(sql.Identifier(name), sql.Identifier(name)) for name, _ in types
        )
        shape = sql.SQL(", ").join(sql.SQL("{} {}").format(sql.Identifier(n), sql.SQL(kind)) for n, kind in types)
        called = sql.SQL("select to_json({}({}))").format(sql.Identifier("public", function), given)
        if not types:
            return self._value(called, [])
        return self._value(called + sql.SQL(" from json_to_record(%s) as x ({})").format(shape), [Json(arguments)])

    def _rows(self, table: str, query: list[tuple[str, str]], body: bytes) -> object:
        name = sql.Identifier("public", table)
        columns = dict(query).get("select", "*")
        shown = sql.SQL("*") if columns == "*" else sql.SQL(", ").join(map(sql.Identifier, columns.split(",")))
        filters = [(key, *value.split(".", 1)) for key, value in query if value.split(".")[0] in _OPERATORS]
        where = sql.SQL(" and ").join(
            [sql.SQL("true")]
            + [sql.SQL(f"{{}} {_OPERATORS[kind]} %s").format(sql.Identifier(key)) for key, kind, _ in filters]
        )
        values: list[Any] = [value for *_, value in filters]
        if self.command == "GET":
            order = dict(query).get("order")
            by = sql.SQL("order by {}").format(sql.Identifier(order.split(".")[0])) if order else sql.SQL("")
            made = sql.SQL("select {} from {} where {} {}").format(shown, name, where, by)
        else:
            given = json.loads(body)
            fields = sql.SQL(", ").join(map(sql.Identifier, given))
            row = sql.SQL("select {} from json_populate_record(null::{}, %s)").format(fields, name)
            values = [Json(given), *values]
            if self.command == "POST":
                made = sql.SQL("insert into {} ({}) {} returning *").format(name, fields, row)
            else:
                made = sql.SQL("update {} set ({}) = ({}) where {} returning *").format(name, fields, row, where)
        whole = sql.SQL("with r as ({}) select coalesce(json_agg(r), '[]') from r").format(made)
        found = self._value(whole, values)
        return found[0] if "vnd.pgrst.object" in self.headers.get("Accept", "") else found

    def _value(self, query: sql.Composable, values: list[Any]) -> Any:
        row = self.project.rest.execute(query, values).fetchone()
        assert row is not None
        return row[0]

    def _json(self, status: int, body: object) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass
