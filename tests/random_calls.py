"""Makes random calls as an agent and as a user, with simulated crashes, and checks that acknowledged writes are stored.

An agent's calls go through the ledger, as in a run; a user's through the services, as over HTTP. Sometimes the caller
crashes right after the response or right before a commit, the same call is repeated, or another worker claims the
run. After each step the database is checked for:

    lost        an acknowledged write that is not stored, or an acknowledged removal of a value that still exists
    invented    a write that was refused or crashed before its commit, but is stored
    unexplained a version or a stored extraction that does not match the journal
    unrecorded  a call whose recorded result differs from its response
    unlocked    a leaf that a user set and an agent changed
    broken      an operation that failed with an unexpected exception

    pip install '.[test]' && python tests/random_calls.py --calls 25000 --seed 1

Ends with 1 if any of these is not 0, and prints the steps that led there.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import json
import logging
import random
import sys
import tempfile
import time
import traceback
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import structlog
from hypothesis import strategies as st
from psycopg.rows import dict_row

from drawn_plans import draw_plans
from extraction_case import INVOICE, ExtractionCase, document_with_pages
from fieldmark.agents.extraction.agent import EXTRACTION
from fieldmark.agents.registry import agent_rows
from fieldmark.db.embedded import embedded_postgres
from fieldmark.db.migrate import migrate
from fieldmark.db.pool import Connection, Database
from fieldmark.domain import paths
from fieldmark.domain.fields import Missing, leaves, value_at
from fieldmark.errors import FieldmarkError
from fieldmark.identity.scope import Scope
from fieldmark.runs.lifecycle import decisions
from fieldmark.services import extractions
from fieldmark.services.evidence import DocumentIndexes
from fieldmark.services.extractions import PERSON, FieldRemoval, FieldWrite
from fieldmark.services.organisations import scope_of_user
from fieldmark.tools.context import RunContext
from fieldmark.tools.ledger import StartedBy, ToolCall, ToolOutcome, execute

OPERATIONS_PER_EXTRACTION = 40
"""Operations on one extraction. Then a new extraction is created."""

SCHEMA = {"type": "object", "properties": {"total": {"type": "number"}, "vendor": {"type": "object"}}}

# Generated data ------------------------------------------------------------------------------------------------------

# Few keys and small lists, so that calls often touch the same paths. Some keys and texts are hard to encode.
_KEYS = st.sampled_from(["a", "b", "vendor", "name", "total", "a.b", "0", "ä", "x y", '"', "[", "\\", "é́"])
_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "Acme GmbH", "10.00", "EUR", "\u2028", "𝐓", "a\nb", "1e5", " ", "\x00", "\ud800"]),
    st.text(max_size=12),
)
_VALUES = st.recursive(
    _SCALARS, lambda below: st.lists(below, max_size=3) | st.dictionaries(_KEYS, below, max_size=3), max_leaves=6
)
_PATH_STEPS = st.lists(_KEYS | st.integers(0, 3), min_size=1, max_size=4)
_PATHS = st.one_of(
    _PATH_STEPS.map(paths.name),
    st.sampled_from(["vendor.name", "a", "b", "items", "items[0]", "total"]),
    st.sampled_from(["vendor.name", "items[0]", "items[1].a", "total", "a", "b.a", '["a.b"]', "items", "vendor"]),
    st.text(max_size=6),
)
_CONFIDENCES = st.sampled_from([0.0, 0.5, 1.0, 1, 2, "1", None])
_FIELDS = st.dictionaries(_KEYS | st.just("items"), _VALUES, min_size=0, max_size=3)
# How a call ends: normally, repeated after a lost response, with a crash before its commit, or by an old worker.
_ENDS = st.sampled_from(["well"] * 8 + ["again", "dies", "dies", "fenced"])
_CALLS = st.one_of(
    st.tuples(
        st.just("update_field"), st.fixed_dictionaries({"path": _PATHS, "value": _VALUES, "confidence": _CONFIDENCES})
    ),
    st.tuples(st.just("extract_fields"), st.fixed_dictionaries({"fields": _FIELDS, "confidences": st.just({})})),
    st.tuples(st.just("extract_fields"), st.fixed_dictionaries({"fields": _FIELDS, "summary": st.just("Done.")})),
    st.tuples(st.just("remove_field"), st.fixed_dictionaries({"path": _PATHS})),
    st.tuples(st.just("complete_extraction"), st.just({})),
)
_OPERATIONS = st.one_of(
    st.tuples(st.just("agent"), _CALLS, _ENDS),
    st.tuples(st.just("agent"), _CALLS, _ENDS),
    st.tuples(st.just("agent"), _CALLS, _ENDS),
    st.tuples(st.just("ask"), _CALLS, st.sampled_from(["approve", "approve", "reject", "dies", "moved"])),
    st.tuples(st.just("set"), _PATHS, _VALUES, _ENDS),
    st.tuples(st.just("remove"), _PATHS, _ENDS),
    st.tuples(st.just("restore"), st.integers(0, 12), _ENDS),
    st.tuples(st.just("correction"), _CALLS, _ENDS),
)
PLANS = st.tuples(
    st.booleans(), st.lists(_OPERATIONS, min_size=OPERATIONS_PER_EXTRACTION, max_size=OPERATIONS_PER_EXTRACTION)
)


class SimulatedCrash(BaseException):
    """Simulates the death of the process. A BaseException, so that `except Exception` does not catch it."""


class CrashingDatabase(Database):
    """A database that simulates a crash right before a commit. `transactions_until_crash` counts the transactions that
    still commit; None means no crash."""

    transactions_until_crash: int | None = None

    @asynccontextmanager
    async def as_user(self, scope: Scope) -> AsyncIterator[Connection]:
        async with super().as_user(scope) as conn:
            yield conn
            if self.transactions_until_crash is not None:
                self.transactions_until_crash -= 1
                if self.transactions_until_crash < 0:
                    self.transactions_until_crash = None
                    raise SimulatedCrash


@dataclass
class Report:
    calls: int = 0
    done: collections.Counter[str] = field(default_factory=collections.Counter)
    faults: list[tuple[str, str, list[str]]] = field(default_factory=list)

    def lines(self) -> list[str]:
        lines = [f"{n:8} {what}" for what, n in sorted(self.done.items(), key=lambda item: -item[1])]
        for what, why, steps in self.faults[:20]:
            lines += [f"{what}: {why}", *(f"    {step[:400]}" for step in steps[-6:])]
        counted = collections.Counter(what for what, _, _ in self.faults)
        found = " ".join(f"{what} {n}" for what, n in sorted(counted.items())) or "nothing found"
        return [*lines, f"{self.calls} calls: {found}"]


class RandomExtractionCase:
    """An extraction, the random operations on it, and the checks after each operation."""

    def __init__(self, case: ExtractionCase, owner: psycopg.AsyncConnection[Any], report: Report) -> None:
        self._case = case
        self._extraction = case.extraction_id
        self._database: CrashingDatabase = case.database  # type: ignore[assignment]
        self._owner = owner
        self._report = report
        self._steps: list[str] = []
        self._versions: dict[int, Any] = {0: {}}
        self._context: RunContext | None = None

    async def start_run(self) -> None:
        self._context = await self._case.context()

    async def perform(self, operation: tuple[Any, ...]) -> None:
        what, *rest = operation
        self._steps.append(repr(operation))
        before = await self._extraction_row()
        self._report.calls += 1
        await getattr(self, f"_perform_{what}")(before, *rest)
        self._database.transactions_until_crash = None
        await self._check_journal()

    def record_exception(self, why: str) -> None:
        self._database.transactions_until_crash = None
        self._add_fault("broken", why)

    # Operations ----------------------------------------------------------------------------------------------------

    async def _perform_agent(self, before: Any, call: tuple[str, dict[str, Any]], end: str) -> None:
        assert self._context is not None
        await self._make_call(self._context, before, call, end)
        if call[0] == "complete_extraction" or "summary" in call[1]:  # a completed run writes no more
            self._context = await self._case.context()

    async def _perform_correction(self, before: Any, call: tuple[str, dict[str, Any]], end: str) -> None:
        # No worker serves the queue here: the run is claimed directly.
        context = await self._case.context(await self._case.queue_run("correct"))
        await self._make_call(context, before, call, end)

    def _has_valid_arguments(self, name: str, arguments: dict[str, Any]) -> bool:
        with contextlib.suppress(Exception):
            return EXTRACTION.toolset.check(name, arguments) is not None
        self._report.done["not approved"] += 1
        return False

    async def _execute(self, context: RunContext, name: str, call_id: str, arguments: dict[str, Any]) -> ToolOutcome:
        call = ToolCall(name, call_id, arguments)
        return await execute(EXTRACTION.create_tools(context), context, call, started_by=StartedBy.POLICY)

    async def _make_call(self, context: RunContext, before: Any, call: tuple[str, dict[str, Any]], end: str) -> None:
        name, arguments = call
        call_id = str(uuid4())
        if not self._has_valid_arguments(name, arguments):
            return
        await self._case.record_call(context, name, arguments, call_id)
        if end == "dies":
            # At the claim, at reading the row, or at the write.
            self._database.transactions_until_crash = random.Random(call_id).randrange(3)
        if end == "fenced":
            await self._case.context(context.run_id)  # another worker
        try:
            outcome = await self._execute(context, name, call_id, arguments)
        except SimulatedCrash:
            self._report.done["crashed"] += 1
            self._database.transactions_until_crash = None
            after = await self._extraction_row()
            if after["extracted_fields"] != before["extracted_fields"] or after["version"] != before["version"]:
                self._add_fault("invented", f"{name} crashed before its commit, but is stored")
            outcome = await self._execute(context, name, call_id, arguments)
        except FieldmarkError as error:
            if end != "fenced":
                raise
            self._report.done["fenced"] += 1
            after = await self._extraction_row()
            if after["version"] != before["version"]:
                self._add_fault("invented", f"a worker that lost the run wrote: {error}")
            if context is self._context:
                self._context = await self._case.context(context.run_id)
            return
        if end == "fenced" and outcome.code not in ("already_completed",):
            self._add_fault("invented", f"a worker that lost the run got {outcome.code}")
        self._database.transactions_until_crash = None
        after = await self._extraction_row()
        if end == "again":
            again = await self._execute(context, name, call_id, arguments)
            # What only later calls of the same message and people need is not recorded.
            if again != replace(outcome, needs_attention=again.needs_attention, details=again.details):
                self._add_fault("unrecorded", f"{name} returned {outcome} and then {again}")
            if (await self._extraction_row())["version"] != after["version"]:
                self._add_fault("invented", f"{name} was executed twice")
        self._check_outcome(before, after, name, arguments, outcome, spoken=context is not self._context)
        await self._check_ledger(context.run_id, call_id, outcome)

    async def _perform_ask(self, before: Any, call: tuple[str, dict[str, Any]], outcome_kind: str) -> None:
        name, arguments = call
        if not self._has_valid_arguments(name, arguments):
            return
        context = await self._case.context(await self._case.queue_run(approval="ask"))
        try:
            await self._case.record_call(context, name, arguments, "asked", ask=True)
        except Exception:  # noqa: BLE001  cannot be shown for approval
            await decisions.cancel(self._database, self._case.scope, context.run_id)
            self._report.done["not approved"] += 1
            return
        if outcome_kind == "moved":
            write = FieldWrite(("moved",), self._report.calls)
            await self._write_as_user(write)
            before = await self._extraction_row()
        if outcome_kind == "dies":
            self._database.transactions_until_crash = random.Random(str(context.run_id)).randrange(3)
        decision = decisions.ApprovalDecision("asked", outcome_kind != "reject")
        try:
            try:
                await decisions.decide(self._database, self._case.scope, context.run_id, decision)
            except SimulatedCrash:
                self._database.transactions_until_crash = None
                if (await self._extraction_row())["version"] != before["version"]:
                    self._add_fault("invented", f"a decision on {name} crashed before its commit, but is stored")
                self._report.done["crashed"] += 1
                await decisions.decide(self._database, self._case.scope, context.run_id, decision)
        except FieldmarkError as error:
            self._database.transactions_until_crash = None
            self._report.done[f"ask: {error.code}"] += 1
            if (await self._extraction_row())["version"] != before["version"]:
                self._add_fault("invented", f"a decision on {name} was refused ({error.code}), but is stored")
            await decisions.cancel(self._database, self._case.scope, context.run_id)
            return
        self._database.transactions_until_crash = None
        after = await self._extraction_row()
        entry = await self._fetch_row(
            "select status, code, result, data from public.tool_calls where run_id = %s", context.run_id
        )
        if outcome_kind == "reject":
            if after["version"] != before["version"] or entry["status"] != "refused":
                self._add_fault("invented", f"{name} was rejected and is {entry['status']}")
        else:
            outcome = ToolOutcome(entry["result"], entry["code"], entry["data"], entry["status"] == "failed")
            self._check_outcome(before, after, name, arguments, outcome, spoken=True)
        self._report.done["decided"] += 1
        await decisions.cancel(self._database, self._case.scope, context.run_id)

    async def _perform_set(self, before: Any, path: str, value: Any, end: str) -> None:
        try:
            steps = paths.parse(path)
        except FieldmarkError:
            return
        if await self._change_as_user(before, end, lambda: self._write_as_user(FieldWrite(steps, value))):
            self._check_stored(await self._extraction_row(), steps, value, "a user's write")

    async def _perform_remove(self, before: Any, path: str, end: str) -> None:
        try:
            steps = paths.parse(path)
        except FieldmarkError:
            return
        if await self._change_as_user(before, end, lambda: self._write_as_user(FieldRemoval(steps))):
            self._check_removed(before, await self._extraction_row(), steps)

    async def _perform_restore(self, before: Any, version: int, end: str) -> None:
        async def restore() -> None:
            prepared = await extractions.prepare_restore(
                self._database, self._case.scope, DocumentIndexes(), self._extraction, version
            )
            async with self._database.as_user(self._case.scope) as conn:
                await extractions.apply(conn, prepared)

        if await self._change_as_user(before, end, restore):
            after = await self._extraction_row()
            if version in self._versions and _json_text(after["extracted_fields"]) != _json_text(
                self._versions[version]
            ):
                self._add_fault("lost", f"version {version} was restored, but other fields are stored")

    # Writes by a user ----------------------------------------------------------------------------------------------

    async def _write_as_user(self, write: Any) -> None:
        prepared = await extractions.prepare_write(
            self._database, self._case.scope, DocumentIndexes(), self._extraction, write, PERSON
        )
        async with self._database.as_user(self._case.scope) as conn:
            await extractions.apply(conn, prepared)

    async def _change_as_user(self, before: Any, end: str, operation: Callable[[], Any]) -> bool:
        """Make a user's change and return whether it was committed."""
        if end == "dies":
            self._database.transactions_until_crash = 2  # transactions: read the row, read the words, write
        try:
            await operation()
        except SimulatedCrash:
            after = await self._extraction_row()
            if after["version"] != before["version"] or after["locks"] != before["locks"]:
                self._add_fault("invented", "a user's change crashed before its commit, but is stored")
            self._report.done["crashed"] += 1
            return False
        except FieldmarkError as error:
            self._report.done[f"user: {error.code}"] += 1
            after = await self._extraction_row()
            if after["version"] != before["version"]:
                self._add_fault("invented", f"a user's change was refused ({error.code}), but is stored")
            return False
        finally:
            self._database.transactions_until_crash = None
        self._report.done["user: ok"] += 1
        return True

    # Checks ------------------------------------------------------------------------------------------------

    def _check_outcome(
        self, before: Any, after: Any, name: str, arguments: dict[str, Any], outcome: ToolOutcome, *, spoken: bool
    ) -> None:
        self._report.done[f"{name}: {outcome.code}"] += 1
        if outcome.code == "internal":
            self._add_fault("unrecorded", f"{name} had an internal error")
        changed = after["version"] != before["version"]
        if outcome.is_error or outcome.code in ("not_stored", "not_removed"):
            if changed:
                self._add_fault("invented", f"{name} returned {outcome.code}, but stored version {after['version']}")
            return
        data = outcome.data if isinstance(outcome.data, dict) else {}
        if "version" in data and data["version"] != after["version"]:
            self._add_fault("lost", f"{name} returned version {data['version']}, but {after['version']} is stored")
        kept = set(data.get("proposed", []))
        if not spoken:
            self._check_locks(before, after)
        is_completed = name == "complete_extraction" or data.get("complete_extraction") == "completed"
        if is_completed and after["status"] != "completed":
            self._add_fault("lost", "completion was acknowledged, but the extraction is not completed")
        match name:
            case "update_field" if outcome.code == "stored":
                self._check_stored(after, paths.parse(arguments["path"]), arguments["value"], name)
            case "extract_fields" if outcome.code == "stored" and not kept:
                for key, value in arguments["fields"].items():
                    if not isinstance(value, dict):
                        self._check_stored(after, (key,), value, name)
            case "remove_field":
                self._check_removed(before, after, paths.parse(arguments["path"]))

    def _check_locks(self, before: Any, after: Any) -> None:
        """Check that values locked by a user are unchanged."""
        now = dict(leaves(after["extracted_fields"]))
        for name, value in leaves(before["extracted_fields"]):
            moved = "[" in name and _json_text(value) in {
                _json_text(other) for other in now.values()
            }  # an earlier item was removed
            if (
                name in before["locks"]
                and not moved
                and (name not in now or _json_text(now[name]) != _json_text(value))
            ):
                self._add_fault("unlocked", f"{name} was {value!r}, set by a user, and is {now.get(name)!r}")

    def _check_stored(self, row: Any, path: paths.Path, value: Any, what: str) -> None:
        # SQL distinguishes keys and indexes by the container: `a[0]` is key "0" if `a` is an object.
        found = _value_at(row["extracted_fields"], path)
        if isinstance(found, Missing) or _json_text(found) != _json_text(value):
            self._add_fault(
                "lost", f"{what} of {value!r} at {paths.name(path)} was acknowledged, but {found!r} is stored"
            )

    def _check_removed(self, before: Any, after: Any, path: paths.Path) -> None:
        parent = _value_at(before["extracted_fields"], path[:-1])
        now = _value_at(after["extracted_fields"], path[:-1])
        if isinstance(parent, list):
            index = int(path[-1])
            if _json_text(now) != _json_text(parent[:index] + parent[index + 1 :]):
                self._add_fault("lost", f"{paths.name(path)} was removed, but {now!r} is stored")
        elif isinstance(now, dict) and str(path[-1]) in now:
            self._add_fault("lost", f"{paths.name(path)} was removed, but is still stored")

    async def _check_ledger(self, run_id: UUID, call_id: str, outcome: ToolOutcome) -> None:
        entry = await self._fetch_row(
            "select status, code, result, data from public.tool_calls where run_id = %s and id = %s", run_id, call_id
        )
        options = (entry["status"], entry["code"], entry["result"], entry["data"])
        if options != ("failed" if outcome.is_error else "done", outcome.code, outcome.sentence, outcome.data):
            self._add_fault("unrecorded", f"returned {outcome}, but the ledger has {options}")

    async def _check_journal(self) -> None:
        """Check that the journal leads to the current version, and to one earlier version."""
        row = await self._extraction_row()
        was = self._versions.get(row["version"])
        if was is not None and _json_text(was) != _json_text(row["extracted_fields"]):
            self._add_fault("unexplained", f"version {row['version']} was {was!r} and is {row['extracted_fields']!r}")
        self._versions[row["version"]] = row["extracted_fields"]
        asked = {row["version"], *random.Random(len(self._steps)).sample(sorted(self._versions), 1)}
        for version in asked:
            found = await self._fetch_row("select private.fields_at(%s, %s) as f", self._extraction, version)
            if version in self._versions and _json_text(found["f"]) != _json_text(self._versions[version]):
                self._add_fault(
                    "unexplained", f"version {version} was {self._versions[version]!r}; the journal has {found['f']!r}"
                )
        named = {name for name, _ in leaves(row["extracted_fields"])}
        for what in ("locks", "evidence", "confidences"):
            if left := row[what].keys() - named - _container_names(row["extracted_fields"]):
                self._add_fault("unexplained", f"{what} of missing values: {sorted(left)[:3]}")

    async def _extraction_row(self) -> dict[str, Any]:
        return await self._fetch_row(
            """select e.*, (
                   select coalesce(json_agg(p order by p.created_at), '[]') from public.extraction_proposals as p
                   where p.extraction_id = e.id and p.status = 'pending') as proposals
               from public.extractions as e where id = %s""",
            self._extraction,
        )

    async def _fetch_row(self, query: str, *parameters: Any) -> dict[str, Any]:
        row = await (await self._owner.execute(query.encode(), parameters)).fetchone()
        assert row is not None
        return row

    def _add_fault(self, what: str, why: str) -> None:
        self._report.faults.append((what, why, list(self._steps)))


def _value_at(fields: Any, path: tuple[Any, ...]) -> Any:
    """Return the value at a path. As in SQL, a step is a key in an object and an index in a list."""
    for step in path:
        if isinstance(fields, list) and str(step).isdigit():
            fields = value_at(fields, (int(step),))
        elif isinstance(fields, dict):
            fields = value_at(fields, (str(step),))
        else:
            return Missing()
    return fields


def _container_names(fields: Any, above: tuple[Any, ...] = ()) -> set[str]:
    items = fields.items() if isinstance(fields, dict) else enumerate(fields) if isinstance(fields, list) else ()
    found = {paths.name(above)} if above else set()
    for step, value in items:
        found |= _container_names(value, (*above, step))
    return found


def _json_text(value: Any) -> str:
    return json.dumps(_with_plain_numbers(value), sort_keys=True)


def _with_plain_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_plain_numbers(below) for key, below in value.items()}
    if isinstance(value, list):
        return [_with_plain_numbers(below) for below in value]
    if isinstance(value, float) and value.is_integer():
        return int(Decimal(repr(value)))  # by its shortest decimal form, as Postgres reads it
    return value


async def make_calls(
    owner_url: str,
    app_url: str,
    *,
    calls: int,
    seed: int = 0,
    deadline: float = 36_000,
    plans: Sequence[tuple[bool, Sequence[tuple[Any, ...]]]] | None = None,
) -> Report:
    """Make `calls` calls, by these plans or by generated ones, and return the faults found."""
    report = Report()
    until = time.monotonic() + deadline
    generated = draw_plans(PLANS, -(-calls // OPERATIONS_PER_EXTRACTION), seed) if plans is None else plans
    async with (
        AsyncExitStack() as stack,
        CrashingDatabase(app_url, size=4) as database,
        await psycopg.AsyncConnection.connect(owner_url, autocommit=True, row_factory=dict_row) as owner,
    ):
        case = await stack.enter_async_context(
            document_with_pages(database, owner_url, await scope_of_user(database, uuid4()), [INVOICE])
        )
        for with_schema, operations in generated:
            extraction_case = RandomExtractionCase(
                await case.another_extraction(SCHEMA if with_schema else None), owner, report
            )
            await extraction_case.start_run()
            for operation in operations:
                if report.calls >= calls or time.monotonic() > until:
                    return report
                try:
                    await extraction_case.perform(operation)
                except Exception:  # noqa: BLE001  reported; continue with the next extraction
                    extraction_case.record_exception(traceback.format_exc())
                    break
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=25_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=7200, help="end after this time")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # the disk is not tested
    with tempfile.TemporaryDirectory(prefix="fieldmark-calls-", dir=memory, ignore_cleanup_errors=True) as directory:
        Path(directory).chmod(0o755)
        with embedded_postgres(Path(directory) / "home", 18) as server:
            asyncio.run(migrate(server.owner_url, app_password=server.app_password, agents=agent_rows()))
            report = asyncio.run(
                make_calls(
                    server.owner_url, server.app_url, calls=options.calls, seed=options.seed, deadline=options.seconds
                )
            )
    print(*report.lines(), sep="\n")
    sys.exit(1 if report.faults else 0)


if __name__ == "__main__":
    main()
