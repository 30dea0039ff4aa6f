"""Database access: transactions as a user or as the service, and notifications (LISTEN/NOTIFY)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, TypeVar
from uuid import UUID

from psycopg import AsyncConnection, DataError, Error, OperationalError, ProgrammingError, errors, sql
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout, TooManyRequests

from fieldmark.db.notifications import CommitNotifier, NotificationListener, Subscription
from fieldmark.errors import (
    ERRORS_BY_CODE,
    Conflict,
    Fenced,
    FieldmarkError,
    Forbidden,
    Invalid,
    Misconfigured,
    NotFound,
    QueueFull,
    TooManyAtOnce,
    Unauthenticated,
    Unavailable,
)
from fieldmark.identity.scope import Scope
from fieldmark.telemetry.traces import span


class Connection(AsyncConnection[DictRow]):
    """A pooled connection inside one transaction. Rows are dicts."""

    news: frozenset[tuple[str, str]] = frozenset()

    def notify_after_commit(self, channel: str, payload: str) -> None:
        """Send NOTIFY after this transaction commits. Inside the transaction, NOTIFY would hold a database-wide lock
        until the commit."""
        self.news |= {(channel, payload)}


_T = TypeVar("_T")

WAIT_SECONDS: Final = 10.0  # for a free connection
_CONNECT_SECONDS: Final = 10
# Detect a lost server, both on idle connections and while a statement runs.
CONNECTION_OPTIONS: Final[dict[str, Any]] = {
    "connect_timeout": _CONNECT_SECONDS,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
    "application_name": "fieldmark",
    "client_encoding": "UTF8",
}
# The pool doubles its pauses between attempts to connect. After this time it stops, and the next request for a
# connection tries again at once.
RECONNECT_SECONDS: Final = 5.0
# The pool closes a connection that was not needed for this long.
IDLE_SECONDS: Final = 10.0
# Releases the locks of a client that is gone, which would otherwise be held for hours.
IDLE_IN_TRANSACTION: Final = "15s"
# Longer than IDLE_IN_TRANSACTION, so that the locks of a client that is gone are released before a waiter gives up.
_LOCK_TIMEOUT: Final = "20s"
_STATEMENT_TIMEOUT: Final = "60s"

_AS_USER: Final = sql.SQL(
    "begin; select set_config('role', 'authenticated', true), set_config('request.jwt.claims', {}, true), "
    f"set_config('idle_in_transaction_session_timeout', '{IDLE_IN_TRANSACTION}', true), "
    f"set_config('lock_timeout', '{_LOCK_TIMEOUT}', true), "
    f"set_config('statement_timeout', '{_STATEMENT_TIMEOUT}', true)"
)
_AS_SERVICE: Final = sql.SQL(f"begin; set local idle_in_transaction_session_timeout = '{IDLE_IN_TRANSACTION}'")

# Roles that come with Postgres and amount to a superuser's reach.
_STRONG_ROLES: Final = ("pg_execute_server_program", "pg_read_server_files", "pg_write_server_files", "service_role")


class PoolStats(NamedTuple):
    """Number of busy and idle connections, and of transactions that wait for a connection."""

    busy: int
    idle: int
    waiting: int


@dataclass(slots=True)
class _OrgShare:
    """The connections that one organisation may use at once, and its number of transactions that use or wait for
    one."""

    places: asyncio.Semaphore
    users: int = 0


class Database:
    """A pool of Postgres connections, as an async context manager.

    `url` logs in as the service's role. If it is a transaction pooler (port 6543, or `pgbouncer=true` in the URL),
    statements are not prepared, and LISTEN uses `direct_url`, which bypasses the pooler. Without `direct_url`,
    subscribers get a gap once a second and poll. Errors call the database by `name`.

    One organisation may use at most 70 % of the connections.
    """

    def __init__(
        self,
        url: str,
        direct_url: str | None = None,
        size: int = 10,
        wait_seconds: float | None = None,
        name: str = "The database",
    ) -> None:
        wait_seconds = WAIT_SECONDS if wait_seconds is None else wait_seconds
        self._url, pooled = libpq_url(url)
        direct, direct_pooled = libpq_url(direct_url or url)
        self._name = name
        self._expects_session = not pooled  # statements are prepared
        self._pool: AsyncConnectionPool[Connection] = AsyncConnectionPool(
            self._url,
            connection_class=Connection,
            kwargs={
                **CONNECTION_OPTIONS,
                "autocommit": True,  # the first statement is our own BEGIN, which sets the role in the same round trip
                "row_factory": dict_row,
                "prepare_threshold": None if pooled else 5,
            },
            min_size=1,
            max_size=size,
            max_idle=IDLE_SECONDS,
            timeout=wait_seconds,
            reconnect_timeout=RECONNECT_SECONDS,
            open=False,
        )
        self._size = size
        self._wait_seconds = wait_seconds
        self._shares: dict[UUID, _OrgShare] = {}
        self._notifications = NotificationListener(None if direct_pooled else direct, CONNECTION_OPTIONS)
        self._notifier = CommitNotifier(self._send_notifications)

    async def __aenter__(self) -> Self:
        # Connect once without the pool, which does not report why it cannot connect.
        await check_connection(self._url, self._name, needs_session=self._expects_session)
        await self._pool.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._notifier.close()
        await self._notifications.close()
        await self._pool.close()

    @asynccontextmanager
    async def as_user(self, scope: Scope) -> AsyncGenerator[Connection]:
        """Open a transaction as a user in an organisation: row policies apply. Commits when the block ends, rolls back
        on an exception. Raise Unavailable if the database does not respond, TooManyAtOnce if the organisation's share
        of the connections stays in use."""
        with span("transaction", org_id=str(scope.org_id)):
            async with (
                self._place_of(scope.org_id),
                self._transaction(_begin_as_user(scope.user_id, scope.org_id)) as connection,
            ):
                yield connection

    @asynccontextmanager
    async def _place_of(self, org_id: UUID) -> AsyncGenerator[None]:
        share = self._shares.setdefault(org_id, _OrgShare(asyncio.Semaphore(max(1, self._size * 7 // 10))))
        share.users += 1
        try:
            try:
                async with asyncio.timeout(self._wait_seconds):
                    await share.places.acquire()
            except TimeoutError:
                raise TooManyAtOnce(
                    "Your organisation has too many concurrent requests. Wait for some to finish, then try again."
                ) from None
            try:
                yield
            finally:
                share.places.release()
        finally:
            share.users -= 1
            if not share.users:
                del self._shares[org_id]

    @asynccontextmanager
    async def as_user_without_org(self, user_id: UUID, email: str | None = None) -> AsyncGenerator[Connection]:
        """Like `as_user`, but outside any organisation: to join or create one, or accept an invitation. `email` is the
        address in the user's token."""
        async with self._transaction(_begin_as_user(user_id, None, email)) as connection:
            yield connection

    @asynccontextmanager
    async def as_service(self) -> AsyncGenerator[Connection]:
        """Open a transaction as the service's role, for functions in the schema `private` and for the queue. It cannot
        read tenants' rows directly."""
        with span("transaction"):
            async with self._transaction(_AS_SERVICE) as connection:
                yield connection

    async def once(self, statement: Callable[[Connection], Awaitable[_T]]) -> _T:
        """Execute a single statement as the service's role, without BEGIN and COMMIT, which are round trips. Return
        what `statement` returns. If the connection is lost, it is called again: repeating it must do no harm."""
        with span("transaction"), _raising_our_errors():
            for left in range(self._size, -1, -1):
                async with self._pool.connection() as connection:
                    try:
                        return await statement(connection)
                    except OperationalError as error:
                        if not left or not _is_connection_lost(error):
                            raise
        raise AssertionError

    @asynccontextmanager
    async def _transaction(self, begin_statement: sql.SQL | sql.Composed) -> AsyncGenerator[Connection]:
        with _raising_our_errors():
            # An idle connection may be lost. Nothing was executed before `begin_statement`, so a lost connection is
            # returned to the pool and the next one tried. All of them may be lost at once.
            for left in range(self._size, -1, -1):
                async with self._pool.connection() as connection:
                    try:
                        await connection.execute(begin_statement, prepare=False)
                    except OperationalError as error:
                        if left and _is_connection_lost(error):
                            continue
                        raise
                    connection.news = frozenset()
                    yield connection
                    news = connection.news
                self._notifier.add(news)
                return

    async def _send_notifications(self, news: frozenset[tuple[str, str]]) -> None:
        channels, payloads = [channel for channel, _ in news], [payload for _, payload in news]
        await self.once(lambda conn: conn.execute("select private.notify(%s, %s)", (channels, payloads)))

    @asynccontextmanager
    async def listen(self, *channels: str, about: str | None = None) -> AsyncGenerator[Subscription]:
        """Subscribe to notification channels, from the moment the context is entered.

        Enter it, read the current state, then iterate. With `about`, only payloads whose first word equals it are
        delivered. None is a gap: notifications may have been missed, so read the state again. All subscriptions of a
        process share one connection.
        """
        subscription = Subscription(channels, about)
        await self._notifications.add(subscription)
        try:
            yield subscription
        finally:
            self._notifications.remove(subscription)

    async def check_connection(self) -> None:
        """Connect once, outside the pool. Raise Unavailable with the reason."""
        await check_connection(self._url, self._name)

    def pool_stats(self) -> PoolStats:
        """Return how busy the pool is."""
        stats = self._pool.get_stats()
        size, idle = stats.get("pool_size", 0), stats.get("pool_available", 0)
        return PoolStats(busy=size - idle, idle=idle, waiting=stats.get("requests_waiting", 0))

    async def check_role(self) -> None:
        """Raise Misconfigured if the login bypasses row policies or cannot switch to the role `authenticated`."""
        async with self.as_service() as connection:
            cursor = await connection.execute(_ROLE_QUERY, {"strong": list(_STRONG_ROLES)})
            role = await cursor.fetchone()
        assert role is not None
        too_strong = next((why for name, why in _TOO_STRONG.items() if role[name]), None)
        if too_strong:
            raise Misconfigured(
                f"DATABASE_URL logs in as {role['name']!r}, which {too_strong.format(**role)}: row policies would not "
                "bind it. Log in as 'fieldmark_app', which `fieldmark migrate` makes, and give the owner's URL as "
                "DATABASE_OWNER_URL."
            )
        if not role["may_act"]:
            raise Misconfigured(
                f"DATABASE_URL logs in as {role['name']!r}, which may not act as 'authenticated'. Run "
                "`fieldmark migrate`, and log in as 'fieldmark_app'."
            )


@asynccontextmanager
async def savepoint(conn: Connection) -> AsyncGenerator[None]:
    """Run part of a transaction in a savepoint. If it fails, only that part is rolled back, and errors are raised as by
    `as_user`."""
    try:
        async with conn.transaction():
            yield
    except Error as error:
        if (refusal := _error_from_sql(error)) is None:
            raise
        raise refusal from error


@contextmanager
def _raising_our_errors() -> Generator[None]:
    """Raise errors of the database as FieldmarkErrors, if they are expected ones."""
    try:
        yield
    except errors.LockNotAvailable as error:
        raise Unavailable("Another request holds a lock on the same data. Try again in a few seconds.") from error
    except errors.ReadOnlySqlTransaction as error:
        raise Unavailable("The database is read-only at the moment. Try again when it accepts writes.") from error
    except errors.QueryCanceled as error:
        raise Unavailable("A database statement exceeded its time limit. Try again with a smaller request.") from error
    except OperationalError as error:
        if _is_connection_lost(error):
            raise Unavailable(f"The database does not respond: {_reason(error)}") from error
        raise
    except Error as error:
        if isinstance(error, errors.IdleInTransactionSessionTimeout):
            raise Unavailable(
                "The database ended a transaction that was idle for too long. It looked abandoned; try again."
            ) from error
        if (refusal := _error_from_sql(error)) is None:
            raise
        raise refusal from error


def _error_from_sql(error: Error) -> FieldmarkError | None:
    """Return the FieldmarkError for a database error, or None if it is not an expected one."""
    if isinstance(error, DataError) and error.sqlstate is None and "NUL" in str(error):
        # Raised by psycopg itself, before the statement was sent.
        return Invalid("A text contains a NUL character, which Postgres cannot store. Remove it.")
    if isinstance(error, errors.ForeignKeyViolation):
        # Another transaction deleted the row after it was checked, or it never existed.
        return NotFound("The referenced object does not exist or was deleted.")
    # Our SQL functions raise PostgREST's codes (PT and an HTTP status) with a message for the caller. Some add one
    # of our codes as the detail.
    refusal = _ERRORS_BY_SQLSTATE.get(error.sqlstate or "")
    if refusal is not None and error.diag.message_detail is not None:
        refusal = ERRORS_BY_CODE.get(error.diag.message_detail, refusal)
    return None if refusal is None else refusal(error.diag.message_primary or refusal.title)


_ERRORS_BY_SQLSTATE: Final[dict[str, type[FieldmarkError]]] = {
    "PT401": Unauthenticated,
    "PT403": Forbidden,
    "PT404": NotFound,
    "PT409": Conflict,
    "PT410": Fenced,
    "PT422": Invalid,
    "PT429": QueueFull,
    "PT503": Unavailable,
}

_TOO_STRONG: Final = {
    "superuser": "is a superuser",
    "bypasses": "has BYPASSRLS",
    "other_powers": "has CREATEROLE or REPLICATION",
    "strong_role": "is a member of {strong_role!r}",
    "owned": "owns {owned!r}, itself or through a role that it is a member of",
}

_ROLE_QUERY: Final = """
with me as (select * from pg_catalog.pg_roles where rolname = session_user)
select
  me.rolname as name,
  me.rolsuper as superuser,
  me.rolbypassrls as bypasses,
  me.rolcreaterole or me.rolreplication as other_powers,
  (select r.rolname from pg_catalog.pg_roles r
    where r.oid <> me.oid and pg_catalog.pg_has_role(me.oid, r.oid, 'member')
      and (r.rolsuper or r.rolbypassrls or r.rolcreaterole or r.rolreplication or r.rolname = any (%(strong)s))
    order by 1 limit 1) as strong_role,
  (select o.name from (
      select n.nspname || '.' || c.relname as name, c.relowner as owner
      from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
      where n.nspname in ('public', 'private') and c.relkind in ('r', 'p', 'v', 'm', 'f')
      union all
      select 'schema ' || nspname, nspowner from pg_catalog.pg_namespace where nspname in ('public', 'private')
    ) o where pg_catalog.pg_has_role(me.oid, o.owner, 'member') order by 1 limit 1) as owned,
  exists (select from pg_catalog.pg_roles r
    where r.rolname = 'authenticated' and pg_catalog.pg_has_role(me.oid, r.oid, 'member')) as may_act
from me
"""


def configure_session(settings: Mapping[str, str]) -> Callable[[AsyncConnection[Any]], Awaitable[None]]:
    """Return a function that applies settings to a new connection, in autocommit mode. Poolers may refuse them as
    startup options."""

    async def configure(connection: AsyncConnection[Any]) -> None:
        calls = [sql.SQL("set_config({}, {}, false)").format(name, value) for name, value in settings.items()]
        await connection.set_autocommit(True)
        await connection.execute(sql.SQL("select ") + sql.SQL(", ").join(calls))

    return configure


def unchecked_pool(**options: Any) -> AsyncConnectionPool[Any]:
    """Return a pool that does not check a connection before each use, which would be a round trip. The users of a lost
    connection try again."""
    options["check"] = None
    return AsyncConnectionPool(**options)


async def check_connection(url: str, what: str, *, needs_session: bool = False) -> None:
    """Connect once. Raise Unavailable with the reason; Misconfigured if the database is not in UTF-8, or if a
    transaction pooler is there that the URL does not name although `needs_session`."""
    try:
        async with await AsyncConnection.connect(url, autocommit=True, **CONNECTION_OPTIONS) as connection:
            check_encoding(connection, what)
            if needs_session and await _is_transaction_pooler(connection, url):
                raise Misconfigured(
                    f"{what} is behind a transaction pooler. End DATABASE_URL with ?pgbouncer=true, and set "
                    "DATABASE_DIRECT_URL to the same database without the pooler."
                )
    except OperationalError as error:
        raise Unavailable(
            f"{what} cannot be reached: {_reason(error).rstrip('.')}. Check that Postgres runs there. Without "
            "DATABASE_URL, Fieldmark starts an embedded Postgres."
        ) from error


def check_encoding(connection: AsyncConnection[Any], what: str) -> None:
    """Raise Misconfigured if the database does not store text in UTF-8."""
    encoding = connection.info.parameter_status("server_encoding")
    if encoding not in (None, "UTF8"):
        raise Misconfigured(
            f"{what} stores text in the encoding {encoding}; Fieldmark needs UTF8. Create another one: CREATE DATABASE "
            "NAME ENCODING 'UTF8' TEMPLATE template0."
        )


async def _is_transaction_pooler(connection: AsyncConnection[Any], url: str) -> bool:
    """Return whether two transactions of one connection may run on different servers."""

    async def server(of: AsyncConnection[Any]) -> Any:
        return await (await of.execute("select pg_backend_pid()")).fetchone()

    first = await server(connection)
    if first == (connection.info.backend_pid,):
        return False  # no pooler: it would announce a number of its own
    # A pooler gives the server of `connection` to this transaction, unless it keeps it for the session.
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            async with await AsyncConnection.connect(url, **CONNECTION_OPTIONS) as other:
                if await server(other) == first:
                    return True
                return await server(connection) != first
    except TimeoutError:
        return False  # it has no second server for us, so the first one stays ours


def libpq_url(url: str) -> tuple[str, bool]:
    """Return the URL without `pgbouncer`, which libpq rejects, and whether it leads to a transaction pooler (port 6543
    or `pgbouncer=true`). Raise Misconfigured if it is not a Postgres URL."""
    if url.startswith(("postgres://", "postgresql://")):
        before, _, query = url.partition("?")
        options = [option for option in query.split("&") if option]
        kept = [option for option in options if not option.startswith("pgbouncer=")]
        said = "pgbouncer=true" in options
        url = f"{before}?{'&'.join(kept)}" if kept else before
    else:
        said = False
    try:
        parameters = conninfo_to_dict(url)
    except ProgrammingError:
        # libpq's message would contain the password.
        raise Misconfigured(
            "DATABASE_URL, DATABASE_DIRECT_URL or DATABASE_OWNER_URL is invalid. Expected "
            "postgresql://user:password@host:5432/database, with special characters of the password percent-encoded."
        ) from None
    return url, said or str(parameters.get("port", "")) == "6543"


def _begin_as_user(user_id: UUID, org_id: UUID | None, email: str | None = None) -> sql.Composed:
    claims = {"sub": str(user_id), "role": "authenticated"}
    if email is not None:
        claims["email"] = email
    if org_id is not None:
        claims["org_id"] = str(org_id)
    return _AS_USER.format(json.dumps(claims))


_LOST_CONNECTION_ERRORS: Final = (
    errors.AdminShutdown,
    errors.CrashShutdown,
    errors.CannotConnectNow,
    errors.TooManyConnections,
)


def _is_connection_lost(error: OperationalError) -> bool:
    """Return whether the connection failed, rather than the statement."""
    if isinstance(error, (PoolTimeout, PoolClosed, TooManyRequests)) or error.sqlstate is None:
        return True
    return isinstance(error, _LOST_CONNECTION_ERRORS) or error.sqlstate.startswith("08")


def _reason(error: OperationalError) -> str:
    if isinstance(error, PoolTimeout):
        return "no free connection within the time limit."
    text = str(error).strip().splitlines()
    return text[0] if text else "the connection was closed."
