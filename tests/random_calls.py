"""Calls drawn at random, made as an agent and as a person, with crashes in between: is what was acknowledged there?

An agent's calls go through the ledger, as in a run; a person's through the services, as over HTTP. Now and then the
caller dies right after it was answered, right before its transaction commits, or in the middle; the same call comes
again, another worker takes the run up. After each step the database is asked:

    lost        an acknowledged write that does not stand, or an acknowledged removal of what still does
    invented    a write that was refused, or that died before its commit, and stands all the same
    unexplained a version that the journal does not lead to, or a stored extraction that is another than it says
    unrecorded  a call whose ledger entry says otherwise than its answer
    unlocked    a leaf that a person set and that an agent changed
    broken      an act that ended as no act of a service may: with an error that is none of its own

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

import hypothesis
import psycopg
import structlog
from hypothesis import strategies as st
from psycopg.rows import dict_row

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

STEPS = 40
"""Of one extraction. Then comes a new one."""

SCHEMA = {"type": "object", "properties": {"total": {"type": "number"}, "vendor": {"type": "object"}}}

# What is drawn --------------------------------------------------------------------------------------------------------

# Few keys and small lists, so that one call meets what another did; and what is hard to write down.
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
_STEPS_OF_PATHS = st.lists(_KEYS | st.integers(0, 3), min_size=1, max_size=4)
_PATHS = st.one_of(
    _STEPS_OF_PATHS.map(paths.name),
    st.sampled_from(["vendor.name", "a", "b", "items", "items[0]", "total"]),
    st.sampled_from(["vendor.name", "items[0]", "items[1].a", "total", "a", "b.a", '["a.b"]', "items", "vendor"]),
    st.text(max_size=6),
)
_CONFIDENCES = st.sampled_from([0.0, 0.5, 1.0, 1, 2, "1", None])
_FIELDS = st.dictionaries(_KEYS | st.just("items"), _VALUES, min_size=0, max_size=3)
# How a call ends: well; its answer is lost and the call comes again; it dies before its commit; another worker has it.
_ENDS = st.sampled_from(["well"] * 8 + ["again", "dies", "dies", "fenced"])
_CALLS = st.one_of(
    st.tuples(
        st.just("update_field"), st.fixed_dictionaries({"path": _PATHS, "value": _VALUES, "confidence": _CONFIDENCES})
    ),
    st.tuples(st.just("extract_fields"), st.fixed_dictionaries({"fields": _FIELDS, "confidences": st.just({})})),
    st.tuples(st.just("remove_field"), st.fixed_dictionaries({"path": _PATHS})),
    st.tuples(st.just("complete_extraction"), st.just({})),
)
_ACTS = st.one_of(
    st.tuples(st.just("agent"), _CALLS, _ENDS),
    st.tuples(st.just("agent"), _CALLS, _ENDS),
    st.tuples(st.just("agent"), _CALLS, _ENDS),
    st.tuples(st.just("ask"), _CALLS, st.sampled_from(["approve", "approve", "reject", "dies", "moved"])),
    st.tuples(st.just("set"), _PATHS, _VALUES, _ENDS),
    st.tuples(st.just("remove"), _PATHS, _ENDS),
    st.tuples(st.just("restore"), st.integers(0, 12), _ENDS),
    st.tuples(st.just("correction"), _CALLS, _ENDS),
)
PLANS = st.tuples(st.booleans(), st.lists(_ACTS, min_size=STEPS, max_size=STEPS))


class Died(BaseException):
    """The process that made the call is no more: nobody catches that."""


class Dying(Database):
    """A database whose caller may die right before a commit. Armed, the second transaction from then on ends so:
    `armed` counts the transactions until then."""

    armed: int | None = None

    @asynccontextmanager
    async def as_user(self, scope: Scope) -> AsyncIterator[Connection]:
        async with super().as_user(scope) as conn:
            yield conn
            if self.armed is not None:
                self.armed -= 1
                if self.armed < 0:
                    self.armed = None
                    raise Died


@dataclass
class Report:
    calls: int = 0
    done: collections.Counter[str] = field(default_factory=collections.Counter)
    faults: list[tuple[str, str, list[str]]] = field(default_factory=list)

    def lines(self) -> list[str]:
        told = [f"{n:8} {what}" for what, n in sorted(self.done.items(), key=lambda item: -item[1])]
        for what, why, steps in self.faults[:20]:
            told += [f"{what}: {why}", *(f"    {step[:400]}" for step in steps[-6:])]
        counted = collections.Counter(what for what, _, _ in self.faults)
        found = " ".join(f"{what} {n}" for what, n in sorted(counted.items())) or "nothing found"
        return [*told, f"{self.calls} calls: {found}"]


class Play:
    """One extraction, what is done to it, and what must then stand."""

    def __init__(self, case: ExtractionCase, owner: psycopg.AsyncConnection[Any], report: Report) -> None:
        self._case = case
        self._extraction = case.extraction_id
        self._database: Dying = case.database  # type: ignore[assignment]
        self._owner = owner
        self._report = report
        self._steps: list[str] = []
        self._versions: dict[int, Any] = {0: {}}
        self._context: RunContext | None = None

    async def begin(self) -> None:
        self._context = await self._case.context()

    async def act(self, act: tuple[Any, ...]) -> None:
        what, *rest = act
        self._steps.append(repr(act))
        before = await self._row()
        self._report.calls += 1
        await getattr(self, f"_{what}")(before, *rest)
        self._database.armed = None
        await self._look()

    def broke(self, why: str) -> None:
        self._database.armed = None
        self._fault("broken", why)

    # Acts ----------------------------------------------------------------------------------------------------------

    async def _agent(self, before: Any, call: tuple[str, dict[str, Any]], end: str) -> None:
        assert self._context is not None
        await self._call(self._context, before, call, end)
        if call[0] == "complete_extraction":  # a run that has completed writes no more
            self._context = await self._case.context()

    async def _correction(self, before: Any, call: tuple[str, dict[str, Any]], end: str) -> None:
        # Its own run waits in a queue that nobody serves here: it is taken up at once, as if it were alone.
        context = await self._case.context(await self._case.queue_run("correct"))
        await self._call(context, before, call, end)

    def _is_approved(self, name: str, arguments: dict[str, Any]) -> bool:
        """Whether the permission hook would let the call in."""
        with contextlib.suppress(Exception):
            return EXTRACTION.toolset.check(name, arguments) is not None
        self._report.done["not approved"] += 1
        return False

    async def _execute(self, context: RunContext, name: str, call_id: str, arguments: dict[str, Any]) -> ToolOutcome:
        call = ToolCall(name, call_id, arguments)
        return await execute(EXTRACTION.create_tools(context), context, call, by=StartedBy.POLICY)

    async def _call(self, context: RunContext, before: Any, call: tuple[str, dict[str, Any]], end: str) -> None:
        name, arguments = call
        call_id = str(uuid4())
        if not self._is_approved(name, arguments):
            return
        await self._case.record_call(context, name, arguments, call_id)
        if end == "dies":
            # The claim, or whatever comes before it: reading the row, and at last the write itself.
            self._database.armed = random.Random(call_id).randrange(3)
        if end == "fenced":
            await self._case.context(context.run_id)  # another worker
        try:
            outcome = await self._execute(context, name, call_id, arguments)
        except Died:
            self._report.done["died"] += 1
            self._database.armed = None
            after = await self._row()
            if after["extracted_fields"] != before["extracted_fields"] or after["version"] != before["version"]:
                self._fault("invented", f"{name} died before its commit and stands")
            outcome = await self._execute(context, name, call_id, arguments)
        except FieldmarkError as error:
            if end != "fenced":
                raise
            self._report.done["fenced"] += 1
            after = await self._row()
            if after["version"] != before["version"]:
                self._fault("invented", f"a worker that lost the run wrote: {error}")
            if context is self._context:
                self._context = await self._case.context(context.run_id)
            return
        if end == "fenced" and outcome.code not in ("already_completed",):
            self._fault("invented", f"a worker that lost the run was answered {outcome.code}")
        self._database.armed = None
        after = await self._row()
        if end == "again":
            again = await self._execute(context, name, call_id, arguments)
            if again != replace(
                outcome, needs_attention=again.needs_attention
            ):  # which is for those behind it in one message only
                self._fault("unrecorded", f"{name} was answered {outcome} and then {again}")
            if (await self._row())["version"] != after["version"]:
                self._fault("invented", f"{name} was done twice")
        self._acknowledged(before, after, name, arguments, outcome, spoken=context is not self._context)
        await self._recorded(context.run_id, call_id, outcome)

    async def _ask(self, before: Any, call: tuple[str, dict[str, Any]], how: str) -> None:
        name, arguments = call
        if not self._is_approved(name, arguments):
            return
        context = await self._case.context(await self._case.queue_run(approval="ask"))
        try:
            await self._case.record_call(context, name, arguments, "asked", ask=True)
        except Exception:  # noqa: BLE001  nothing that could be shown
            await decisions.cancel(self._database, self._case.scope, context.run_id)
            self._report.done["not approved"] += 1
            return
        if how == "moved":
            write = FieldWrite(("moved",), self._report.calls)
            await self._write(write)
            before = await self._row()
        if how == "dies":
            self._database.armed = random.Random(str(context.run_id)).randrange(3)
        decision = decisions.ApprovalDecision("asked", how != "reject")
        try:
            try:
                await decisions.decide(self._database, self._case.scope, context.run_id, decision)
            except Died:
                self._database.armed = None
                if (await self._row())["version"] != before["version"]:
                    self._fault("invented", f"a decision on {name} died before its commit and stands")
                self._report.done["died"] += 1
                await decisions.decide(self._database, self._case.scope, context.run_id, decision)
        except FieldmarkError as error:
            self._database.armed = None
            self._report.done[f"ask: {error.code}"] += 1
            if (await self._row())["version"] != before["version"]:
                self._fault("invented", f"a decision on {name} was refused ({error.code}) and stands")
            await decisions.cancel(self._database, self._case.scope, context.run_id)
            return
        self._database.armed = None
        after = await self._row()
        entry = await self._one(
            "select status, code, result, data from public.tool_calls where run_id = %s", context.run_id
        )
        if how == "reject":
            if after["version"] != before["version"] or entry["status"] != "refused":
                self._fault("invented", f"{name} was rejected and is {entry['status']}")
        else:
            outcome = ToolOutcome(entry["result"], entry["code"], entry["data"], entry["status"] == "failed")
            self._acknowledged(before, after, name, arguments, outcome, spoken=True)
        self._report.done["decided"] += 1
        await decisions.cancel(self._database, self._case.scope, context.run_id)

    async def _set(self, before: Any, path: str, value: Any, end: str) -> None:
        try:
            steps = paths.parse(path)
        except FieldmarkError:
            return
        if await self._as_person(before, end, lambda: self._write(FieldWrite(steps, value))):
            self._stands(await self._row(), steps, value, "a person's write")

    async def _remove(self, before: Any, path: str, end: str) -> None:
        try:
            steps = paths.parse(path)
        except FieldmarkError:
            return
        if await self._as_person(before, end, lambda: self._write(FieldRemoval(steps))):
            self._gone(before, await self._row(), steps)

    async def _restore(self, before: Any, version: int, end: str) -> None:
        async def restore() -> None:
            prepared = await extractions.prepare_restore(
                self._database, self._case.scope, DocumentIndexes(), self._extraction, version
            )
            async with self._database.as_user(self._case.scope) as conn:
                await extractions.apply(conn, prepared)

        if await self._as_person(before, end, restore):
            after = await self._row()
            if version in self._versions and _text(after["extracted_fields"]) != _text(self._versions[version]):
                self._fault("lost", f"version {version} was restored, and something else stands")

    # How --------------------------------------------------------------------------------------------------------------

    async def _write(self, write: Any) -> None:
        prepared = await extractions.prepare_write(
            self._database, self._case.scope, DocumentIndexes(), self._extraction, write, PERSON
        )
        async with self._database.as_user(self._case.scope) as conn:
            await extractions.apply(conn, prepared)

    async def _as_person(self, before: Any, end: str, act: Callable[[], Any]) -> bool:
        """Whether it was done. One that dies is not, and is tried again."""
        if end == "dies":
            self._database.armed = 2  # reads the row, reads the words, writes
        try:
            await act()
        except Died:
            after = await self._row()
            if after["version"] != before["version"] or after["locks"] != before["locks"]:
                self._fault("invented", "a person's change died before its commit and stands")
            self._report.done["died"] += 1
            return False
        except FieldmarkError as error:
            self._report.done[f"person: {error.code}"] += 1
            after = await self._row()
            if after["version"] != before["version"]:
                self._fault("invented", f"a person's change was refused ({error.code}) and stands")
            return False
        finally:
            self._database.armed = None
        self._report.done["person: ok"] += 1
        return True

    # What must stand ------------------------------------------------------------------------------------------------

    def _acknowledged(
        self, before: Any, after: Any, name: str, arguments: dict[str, Any], outcome: ToolOutcome, *, spoken: bool
    ) -> None:
        self._report.done[f"{name}: {outcome.code}"] += 1
        if outcome.code == "internal":
            self._fault("unrecorded", f"{name} had an internal error")
        changed = after["version"] != before["version"]
        if outcome.is_error or outcome.code in ("not_stored", "not_removed"):
            if changed:
                self._fault("invented", f"{name} was answered {outcome.code}, and version {after['version']} stands")
            return
        data = outcome.data if isinstance(outcome.data, dict) else {}
        if "version" in data and data["version"] != after["version"]:
            self._fault("lost", f"{name} was answered version {data['version']}, and {after['version']} stands")
        kept = set(data.get("proposed", []))
        if not spoken:
            self._kept(before, after)
        match name:
            case "update_field" if outcome.code == "stored":
                self._stands(after, paths.parse(arguments["path"]), arguments["value"], name)
            case "extract_fields" if outcome.code == "stored" and not kept:
                for key, value in arguments["fields"].items():
                    if not isinstance(value, dict):
                        self._stands(after, (key,), value, name)
            case "remove_field":
                self._gone(before, after, paths.parse(arguments["path"]))
            case "complete_extraction":
                if after["status"] != "completed":
                    self._fault("lost", "it was completed, and is not")

    def _kept(self, before: Any, after: Any) -> None:
        """What a person set is as it was, whatever an agent did without that person's word."""
        now = dict(leaves(after["extracted_fields"]))
        for name, value in leaves(before["extracted_fields"]):
            moved = "[" in name and _text(value) in {_text(other) for other in now.values()}  # its list has closed up
            if name in before["locks"] and not moved and (name not in now or _text(now[name]) != _text(value)):
                self._fault("unlocked", f"{name} was {value!r}, set by a person, and is {now.get(name)!r}")

    def _stands(self, row: Any, path: paths.Path, value: Any, what: str) -> None:
        # The database tells keys from indexes by what stands there: `a[0]` where `a` is an object is its key "0".
        found = _found(row["extracted_fields"], path)
        if isinstance(found, Missing) or _text(found) != _text(value):
            self._fault("lost", f"{what} of {value!r} at {paths.name(path)} was acknowledged, and {found!r} stands")

    def _gone(self, before: Any, after: Any, path: paths.Path) -> None:
        parent = _found(before["extracted_fields"], path[:-1])
        now = _found(after["extracted_fields"], path[:-1])
        if isinstance(parent, list):
            index = int(path[-1])
            if _text(now) != _text(parent[:index] + parent[index + 1 :]):
                self._fault("lost", f"{paths.name(path)} was removed, and {now!r} stands")
        elif isinstance(now, dict) and str(path[-1]) in now:
            self._fault("lost", f"{paths.name(path)} was removed, and stands")

    async def _recorded(self, run_id: UUID, call_id: str, outcome: ToolOutcome) -> None:
        entry = await self._one(
            "select status, code, result, data from public.tool_calls where run_id = %s and id = %s", run_id, call_id
        )
        said = (entry["status"], entry["code"], entry["result"], entry["data"])
        if said != ("failed" if outcome.is_error else "done", outcome.code, outcome.sentence, outcome.data):
            self._fault("unrecorded", f"answered {outcome}, and the ledger has {said}")

    async def _look(self) -> None:
        """What stands is what the journal leads to, at this version and at each one before."""
        row = await self._row()
        was = self._versions.get(row["version"])
        if was is not None and _text(was) != _text(row["extracted_fields"]):
            self._fault("unexplained", f"version {row['version']} was {was!r} and is {row['extracted_fields']!r}")
        self._versions[row["version"]] = row["extracted_fields"]
        asked = {row["version"], *random.Random(len(self._steps)).sample(sorted(self._versions), 1)}
        for version in asked:
            found = await self._one("select private.fields_at(%s, %s) as f", self._extraction, version)
            if version in self._versions and _text(found["f"]) != _text(self._versions[version]):
                self._fault(
                    "unexplained", f"version {version} was {self._versions[version]!r}; the journal says {found['f']!r}"
                )
        named = {name for name, _ in leaves(row["extracted_fields"])}
        for what in ("locks", "evidence", "confidence_scores"):
            if left := row[what].keys() - named - _containers(row["extracted_fields"]):
                self._fault("unexplained", f"{what} of what does not stand: {sorted(left)[:3]}")

    async def _row(self) -> dict[str, Any]:
        return await self._one(
            """select e.*, (
                   select coalesce(json_agg(p order by p.created_at), '[]') from public.extraction_proposals as p
                   where p.extraction_id = e.id and p.status = 'pending') as proposals
               from public.extractions as e where id = %s""",
            self._extraction,
        )

    async def _one(self, query: str, *parameters: Any) -> dict[str, Any]:
        row = await (await self._owner.execute(query.encode(), parameters)).fetchone()
        assert row is not None
        return row

    def _fault(self, what: str, why: str) -> None:
        self._report.faults.append((what, why, list(self._steps)))


def _found(fields: Any, path: tuple[Any, ...]) -> Any:
    """As the database finds it: a step is a key in an object and an index in a list, however it was written."""
    for step in path:
        if isinstance(fields, list) and str(step).isdigit():
            fields = value_at(fields, (int(step),))
        elif isinstance(fields, dict):
            fields = value_at(fields, (str(step),))
        else:
            return Missing()
    return fields


def _containers(fields: Any, above: tuple[Any, ...] = ()) -> set[str]:
    items = fields.items() if isinstance(fields, dict) else enumerate(fields) if isinstance(fields, list) else ()
    found = {paths.name(above)} if above else set()
    for step, value in items:
        found |= _containers(value, (*above, step))
    return found


def _text(value: Any) -> str:
    """As jsonb has it: 1.0 and 1 are one number to Python, and 1e20 is no integer."""
    return json.dumps(_plain(value), sort_keys=True)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(below) for key, below in value.items()}
    if isinstance(value, list):
        return [_plain(below) for below in value]
    if isinstance(value, float) and value.is_integer():
        return int(Decimal(repr(value)))  # as it is written: a large one has digits that a float has not
    return value


async def play(
    owner_url: str,
    app_url: str,
    *,
    calls: int,
    seed: int = 0,
    deadline: float = 36_000,
    plans: Sequence[tuple[bool, Sequence[tuple[Any, ...]]]] | None = None,
) -> Report:
    """Make that many calls by these plans, or by drawn ones, and return what was found."""
    report = Report()
    until = time.monotonic() + deadline
    drawn = _plans(seed, -(-calls // STEPS)) if plans is None else plans
    async with (
        AsyncExitStack() as stack,
        Dying(app_url, size=4) as database,
        await psycopg.AsyncConnection.connect(owner_url, autocommit=True, row_factory=dict_row) as owner,
    ):
        case = await stack.enter_async_context(
            document_with_pages(database, owner_url, await scope_of_user(database, uuid4()), [INVOICE])
        )
        for with_schema, acts in drawn:
            one = Play(await case.another_extraction(SCHEMA if with_schema else None), owner, report)
            await one.begin()
            for act in acts:
                if report.calls >= calls or time.monotonic() > until:
                    return report
                try:
                    await one.act(act)
                except Exception:  # noqa: BLE001  told, and the next extraction is another
                    one.broke(traceback.format_exc())
                    break
    return report


def _plans(seed: int, number: int) -> Any:
    """Drawn a hundred at a time."""
    plans: list[Any] = []
    for part in range(-(-number // 100)):

        @hypothesis.seed(seed * 1_000_003 + part)
        @hypothesis.settings(
            max_examples=min(100, number - 100 * part),
            database=None,
            derandomize=False,
            deadline=None,
            phases=[hypothesis.Phase.generate],
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        @hypothesis.given(PLANS)
        def draw(plan: Any) -> None:
            plans.append(plan)

        draw()
        yield from plans
        plans.clear()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=25_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=7200, help="it ends then, however many were made")
    said = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # the disk is not what is tried
    with tempfile.TemporaryDirectory(prefix="fieldmark-calls-", dir=memory, ignore_cleanup_errors=True) as place:
        Path(place).chmod(0o755)
        with embedded_postgres(Path(place) / "home", 18) as server:
            asyncio.run(migrate(server.owner_url, app_password=server.app_password, agents=agent_rows()))
            report = asyncio.run(
                play(server.owner_url, server.app_url, calls=said.calls, seed=said.seed, deadline=said.seconds)
            )
    print(*report.lines(), sep="\n")
    sys.exit(1 if report.faults else 0)


if __name__ == "__main__":
    main()
