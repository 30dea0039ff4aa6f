"""Mutation testing: removes guards of the template database that the tests clone, one by one, and checks that a test
fails.

    sql         each policy dropped or made always true; each privilege revoked, and privileges granted that no role
                has; each constraint and trigger dropped; row security disabled; each rejection removed from a function.
    conditions  each condition in an SQL function: true where it selects rows, false where it decides.

    pip install '.[test,bench]' && python bench/mutants.py sql conditions --number 300 --seed 1 --into mutants.json

A mutant without a failing test has survived. bench/survivors.toml lists survivors that change nothing, with the reason.
A failing test must fail again when run alone: on a busy machine tests may fail without a mutant. A mutant is undecided
if its tests exceed the time limit, or fail only once. Running again with the same `--into` continues the earlier run.
Exits with 1 if an unlisted mutant survived, or a mutant is undecided.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import functools
import itertools
import json
import os
import queue
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from fieldmark.agents.registry import agent_rows
from fieldmark.db.embedded import EmbeddedServer, embedded_postgres
from fieldmark.db.migrate import migrate

ROOT = Path(__file__).parents[1]
SURVIVORS_FILE = Path(__file__).with_name("survivors.toml")
MIGRATED, TEMPLATE = "fieldmark_pristine", "fieldmark_template"
# The tests for each part, most likely failures first. (tests/sql/test_schemas.py is excluded: it compares the database
# with the files, so it would always fail.)
TESTS_OF_RIGHTS = (
    "tests/sql/test_policies.py::test_authenticated_has_exactly_these_privileges_and_other_roles_have_none",
    "tests/sql/test_policies.py::test_role_can_call_exactly_these_functions",
    "tests/sql/test_policies.py::test_no_role_has_a_privilege_outside_the_matrix",
)
TESTS_OF_CONSTRAINTS = ("tests/sql/test_constraints.py",)
TESTS_OF_SQL = (
    "tests/sql/test_policies.py", "tests/sql", "tests/tools", "tests/agents/extraction", "tests/db", "tests/services",
    "tests/api/test_api_keys.py", "tests/api/test_organisations.py",
)  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One removed guard. `name` is stable between runs."""

    kind: str
    name: str
    tests: tuple[str, ...]  # run one after the other
    statement: str


# SQL -----------------------------------------------------------------------------------------------------------------

_OWN_SCHEMAS = "any ('{public,private}'::regnamespace[])"
# Supabase and the test shim grant service_role everything; our schemas do not.
_NOT_OWN_GRANTS = "array[0, 'service_role'::regrole]"
_CATALOG = f"""
select 'policy', format('drop policy %I on %s', polname, polrelid::regclass) from pg_policy
  where polrelid in (select oid from pg_class where relnamespace = {_OWN_SCHEMAS})
union all select 'policy', format('alter policy %I on %s using (true)', polname, polrelid::regclass) from pg_policy
  where polqual is not null and polrelid in (select oid from pg_class where relnamespace = {_OWN_SCHEMAS})
union all select 'policy', format('alter policy %I on %s with check (true)', polname, polrelid::regclass) from pg_policy
  where polwithcheck is not null and polrelid in (select oid from pg_class where relnamespace = {_OWN_SCHEMAS})
union all select 'constraint', format('alter table %s drop constraint %I cascade', conrelid::regclass, conname)
  from pg_constraint where contype in ('c', 'f', 'u') and connamespace = {_OWN_SCHEMAS} and conrelid <> 0
  and conparentid = 0
union all select 'trigger', format('drop trigger %I on %s', tgname, tgrelid::regclass) from pg_trigger
  where not tgisinternal and tgparentid = 0
  and tgrelid in (select oid from pg_class where relnamespace = {_OWN_SCHEMAS})
union all select 'security', format('alter table %s disable row level security', oid::regclass) from pg_class
  where relrowsecurity and relnamespace = {_OWN_SCHEMAS}
union all select 'security', format('alter table %s no force row level security', oid::regclass) from pg_class
  where relforcerowsecurity and relnamespace = {_OWN_SCHEMAS}
union all select 'right', format('grant %s on %s to %s', what, c.oid::regclass, who) from pg_class as c,
  (values ('insert, update, delete', 'authenticated'), ('truncate', 'authenticated'), ('select', 'anon'))
  as v (what, who)
  where relkind in ('r', 'p') and relnamespace = {_OWN_SCHEMAS}
union all select 'right', format('revoke %s on %s from %s', lower(a.privilege_type), c.oid::regclass,
    a.grantee::regrole)
  from pg_class as c, aclexplode(c.relacl) as a
  where relnamespace = {_OWN_SCHEMAS} and a.grantee <> c.relowner and a.grantee <> all ({_NOT_OWN_GRANTS})
union all select 'right', format('revoke %s (%I) on %s from %s', lower(a.privilege_type), t.attname,
    t.attrelid::regclass, a.grantee::regrole)
  from pg_attribute as t join pg_class as c on c.oid = t.attrelid, aclexplode(t.attacl) as a
  where relnamespace = {_OWN_SCHEMAS} and not attisdropped
union all select 'right', format('grant execute on function %s to public', oid::regprocedure) from pg_proc
  where pronamespace = {_OWN_SCHEMAS} and prokind = 'f' and not exists (
    select from aclexplode(proacl) where grantee = 0 and privilege_type = 'EXECUTE')
union all select 'right', format('revoke execute on function %s from %s', p.oid::regprocedure, a.grantee::regrole)
  from pg_proc as p, aclexplode(p.proacl) as a
  where pronamespace = {_OWN_SCHEMAS} and prokind = 'f'
  and a.grantee <> p.proowner and a.grantee <> all ({_NOT_OWN_GRANTS})
"""
# A rejection up to the end of its statement. Texts may contain semicolons.
_REFUSAL = re.compile(
    r"raise exception\s(?:'(?:[^']|'')*'|[^;'])*;|perform private\.check_\w+\((?:'(?:[^']|'')*'|[^;'])*;", re.IGNORECASE
)


def sql_mutants(server: EmbeddedServer) -> list[Mutant]:
    with psycopg.connect(_with_database(server.owner_url, MIGRATED), autocommit=True) as conn:
        conn.execute("set search_path = pg_catalog")
        found = [
            Mutant("sql", f"{kind}: {statement}", _tests_of_sql(statement), statement)
            for kind, statement in conn.execute(_CATALOG.encode()).fetchall()
        ]
        functions = conn.execute(
            f"""select p.oid::regprocedure::text, pg_get_functiondef(p.oid) from pg_proc as p
                where pronamespace = {_OWN_SCHEMAS} and prokind = 'f'
                  and pg_get_functiondef(p.oid) ~* 'raise exception|private.check_'"""
        ).fetchall()
    for name, text in functions:
        for number, refusal in enumerate(_REFUSAL.finditer(text), 1):
            changed = text[: refusal.start()] + "null;" + text[refusal.end() :]
            rejection = " ".join(refusal[0].split())[:120]
            tests = _tests_of_sql(f"{name} {rejection}")
            found.append(Mutant("sql", f"refusal {number} of {name}: {rejection}", tests, changed))
    return sorted(found, key=lambda one: one.name)


def condition_mutants(server: EmbeddedServer) -> list[Mutant]:
    """Return a mutant for each condition in the bodies of our SQL functions."""
    with psycopg.connect(_with_database(server.owner_url, MIGRATED), autocommit=True) as conn:
        conn.execute("set search_path = pg_catalog")
        functions = conn.execute(
            f"""select p.oid::regprocedure::text, pg_get_functiondef(p.oid) from pg_proc as p
                where pronamespace = {_OWN_SCHEMAS} and prokind = 'f'"""
        ).fetchall()
    found: list[Mutant] = []
    for name, text in functions:
        body = re.search(r"^(?:AS \$|BEGIN ATOMIC|RETURN )", text, re.MULTILINE)
        assert body is not None, name
        for number, (word, start, end) in enumerate(_conditions(text, body.start()), 1):
            becomes = "true" if word in ("where", "and") else "false"
            condition = " ".join(text[start:end].split())[:120]
            changed = f"{text[:start]}{becomes}{text[end:]}"
            mutant = f"condition {number} of {name}: {word} {condition} → {becomes}"
            found.append(Mutant("conditions", mutant, _tests_of_sql(f"{name} {condition}"), changed))
    return sorted(found, key=lambda one: one.name)


_TOKEN = re.compile(r"--[^\n]*|'(?:[^']|'')*'|\"[^\"]*\"|\w+|.", re.DOTALL)
_AFTER_A_CONDITION = re.compile(
    r"and|or|then|order|group|limit|for|returning|union|loop|when|else|end|join|left|having|where|from|cross|;|,"
)


def _conditions(text: str, begin: int) -> Iterator[tuple[str, int, int]]:
    """Yield (keyword, start, end) of each condition after `where`, `and`, `or` and `if`."""
    tokens = [
        (found.start(), found[0].lower())
        for found in _TOKEN.finditer(text, begin)
        if found[0].strip() and not found[0].startswith("--")
    ]
    for n, (at, word) in enumerate(tokens):
        if word not in ("where", "and", "or", "if", "elsif") or tokens[n - 1][1] == "end":
            continue
        if word == "and" and any(before == "between" for _, before in tokens[max(0, n - 4) : n]):
            continue
        depth = cases = within = 0
        end = n + 1
        while end < len(tokens):
            now = tokens[end][1]
            if now in "([":
                depth += 1
            elif now in ")]":
                depth -= 1
            elif depth == 0 and now == "case":
                cases += 1
            elif depth == 0 and now == "end" and cases:
                cases -= 1
            elif depth == 0 and not cases and now == "between":
                within = 1
            elif depth == 0 and not cases and now == "and" and within:
                within = 0
            elif depth == 0 and not cases and _AFTER_A_CONDITION.fullmatch(now) and tokens[end - 1][1] != "distinct":
                break
            if depth < 0:
                break
            end += 1
        if end < len(tokens) and end > n + 1:
            last, ending = tokens[end - 1]
            yield word, at + len(word) + 1, last + len(ending)


def _tests_of_sql(about: str) -> tuple[str, ...]:
    """Return the tests of privileges or constraints, those that name the changed object, and then all SQL tests."""
    first: tuple[str, ...] = ()
    if re.match("grant|revoke", about):
        first = TESTS_OF_RIGHTS[1:] if " on function " in about else (TESTS_OF_RIGHTS[0], TESTS_OF_RIGHTS[2])
    first += TESTS_OF_CONSTRAINTS if "drop constraint" in about else ()
    if not re.match("public|private", about):  # not a function body, but a policy for example
        first += TESTS_OF_SQL[:1]
    named = re.search(r"(?:public|private)\.(\w+)", about)
    return tuple(dict.fromkeys([*first, *(_tests_that_name(named[1]) if named else ()), *TESTS_OF_SQL]))


@functools.cache
def _tests_that_name(name: str) -> tuple[str, ...]:
    """Return the five test files that name a table or function most often."""
    counted = {path: len(re.findall(rf"\b{name}\b", text)) for path, text in _test_files().items()}
    most = sorted((path for path in counted if counted[path]), key=lambda path: (-counted[path], path))
    return tuple(most[:5])


@functools.cache
def _test_files() -> dict[str, str]:
    files = sorted(path for path in (ROOT / "tests").rglob("test_*.py") if "browser" not in path.parts)
    return {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in files}


# Running -------------------------------------------------------------------------------------------------------------

# A process that has imported all modules. Each test run is forked from it, which avoids the imports.
_TEST_SERVER_CODE = """
import gc, json, os, sys
import fieldmark.api.app, fieldmark.cli, fieldmark.agents.extraction.offline
import httpx, hypothesis.strategies, pytest, uvicorn, xdist.plugin
import _pytest.pytester, anyio.pytest_plugin, anyio._backends._asyncio, pytest_timeout
gc.freeze()
for line in sys.stdin:
    arguments, output = json.loads(line)
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        out = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(out, 2)
        code = pytest.main(arguments)
        sys.stdout.flush()
        os._exit(code)
    print(pid, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


class MutantRunner:
    """A Postgres in which mutants are tested one after the other."""

    def __init__(self, folder: Path, server: EmbeddedServer) -> None:
        self._home = folder / "home"
        self._output_file = folder / "output"
        self._server = server
        path = os.pathsep.join([f"{ROOT}/backend", f"{ROOT}/tests", os.environ.get("PYTHONPATH", "")])
        self._test_server = subprocess.Popen(
            [sys.executable, "-c", _TEST_SERVER_CODE],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def close(self) -> None:
        with self._test_server as process:
            process.kill()

    def test_mutant(self, mutant: Mutant, seconds: float) -> tuple[str, str]:
        """Return (killed, survived, undecided or impossible; the failing test or the reason)."""
        try:
            self._create_template(mutant.statement)
        except psycopg.Error as error:  # other objects depend on it
            return "impossible", str(error).strip().splitlines()[0]
        until = time.monotonic() + seconds
        for number, test in enumerate(mutant.tests):
            passed = (f"--deselect={one}" for one in mutant.tests[:number])
            verdict, failing_test = self._run_tests([test, *passed], until)
            if verdict == "failed" and test in TESTS_OF_RIGHTS:
                verdict = "killed"  # reads only the catalog, so it never fails without a mutant
            elif verdict == "failed" and "::" in failing_test:
                # Without parameters, which pytest may truncate in its output.
                verdict, _ = self._run_tests([failing_test.partition("[")[0]], until)
                verdict = "killed" if verdict == "failed" else "undecided"
            elif verdict == "failed":
                verdict = "undecided"  # fails at import
            if verdict != "passed":
                return verdict, failing_test
        return "survived", ""

    def _create_template(self, statement: str) -> None:
        with psycopg.connect(self._server.owner_url, autocommit=True) as conn:
            conn.execute(f"drop database if exists {TEMPLATE} with (force)")
            conn.execute(f"create database {TEMPLATE} template {MIGRATED} strategy wal_log")
        with psycopg.connect(_with_database(self._server.owner_url, TEMPLATE), autocommit=True) as conn:
            conn.execute(statement.encode())

    def _run_tests(self, tests: list[str], until: float) -> tuple[str, str]:
        """Run tests. Return (passed, failed or undecided; the failing test or the reason)."""
        arguments = [
            "-x", "-n0", "--reruns=0", "--no-header", "--tb=no", "--timeout=60", f"--home={self._home}",
            "--deselect=tests/sql/test_schemas.py", "-p", "no:cacheprovider",
            "-W", "ignore::pytest.PytestAssertRewriteWarning", *tests,
        ]  # fmt: skip
        process = self._test_server
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps([arguments, str(self._output_file)]) + "\n")
        process.stdin.flush()
        pid = int(process.stdout.readline())
        timed_out = threading.Event()

        def stop_tests() -> None:
            timed_out.set()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)

        timer = threading.Timer(max(1, until - time.monotonic()), stop_tests)
        timer.start()
        code = int(process.stdout.readline())
        timer.cancel()
        if timed_out.is_set():
            return "undecided", f"time limit exceeded in {tests[0]}"
        output = self._output_file.read_text("utf-8", "replace")
        if code in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            return "passed", ""
        failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", output, re.MULTILINE)
        failing_test = failed[1] if failed else output.strip()[-200:]
        is_test_failure = code in (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED)
        return ("failed" if is_test_failure and "from pytest-timeout" not in output else "undecided"), failing_test


def _with_database(url: str, database: str) -> str:
    return urlsplit(url)._replace(path=f"/{database}").geturl()


def select_mutants(options: argparse.Namespace, server: EmbeddedServer) -> list[Mutant]:
    """Return the requested number of mutants of each kind, in an order determined by the seed."""
    found: list[list[Mutant]] = []
    for kind in options.kinds:
        mutants = sql_mutants(server) if kind == "sql" else condition_mutants(server)
        of_kind = [mutant for mutant in mutants if re.search(options.only, mutant.name)]
        random.Random(f"{options.seed} {kind}").shuffle(of_kind)
        found.append(of_kind[: options.number])
    # Alternating, so that each kind gets its share of the time.
    return [mutant for turn in itertools.zip_longest(*found) for mutant in turn if mutant is not None]


def expected_survivors() -> dict[str, str]:
    return {one["mutant"]: one["why"] for one in tomllib.loads(SURVIVORS_FILE.read_text("utf-8")).get("known", [])}


def run(options: argparse.Namespace) -> int:
    into: Path = options.into
    results: dict[str, Any] = json.loads(into.read_text("utf-8")) if into.exists() else {}
    until = time.monotonic() + options.seconds
    writing = threading.Lock()
    waiting: queue.SimpleQueue[Mutant] = queue.SimpleQueue()

    def work(runner: MutantRunner) -> None:
        while time.monotonic() < until:
            try:
                mutant = waiting.get_nowait()
            except queue.Empty:
                return
            began = time.monotonic()
            verdict, failing_test = runner.test_mutant(mutant, min(options.each, max(1, until - began)))
            with writing:
                result = {"verdict": verdict, "by": failing_test, "seconds": round(time.monotonic() - began, 1)}
                results[mutant.name] = result
                into.write_text(json.dumps(results, indent=1, ensure_ascii=False), "utf-8")
                print(f"{verdict:10} {result['seconds']:6.1f} s  {mutant.name[:150]}  {failing_test[:100]}", flush=True)

    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(prefix="fieldmark-mutants-", dir=memory, ignore_cleanup_errors=True) as directory:
        directory_path = Path(directory)
        directory_path.chmod(0o755)
        servers = [
            embedded_postgres(directory_path / str(n) / "home", options.postgres) for n in range(options.workers)
        ]
        running_servers = [server.__enter__() for server in servers]
        try:
            for server in running_servers:
                with psycopg.connect(server.owner_url, autocommit=True) as conn:
                    for setting in ("fsync", "synchronous_commit", "full_page_writes", "autovacuum"):
                        conn.execute(f"alter system set {setting} = off")
                    conn.execute("select pg_reload_conf()")
                    conn.execute(f"create database {MIGRATED}")
                asyncio.run(
                    migrate(
                        _with_database(server.owner_url, MIGRATED),
                        app_password=server.app_password,
                        agents=agent_rows(),
                    )
                )
            mutants = select_mutants(options, running_servers[0])
            # Mutants that exceeded the time before come last.
            for remaining in ("not tried", "undecided"):
                for mutant in mutants:
                    if results.get(mutant.name, {"verdict": "not tried"})["verdict"] == remaining:
                        waiting.put(mutant)
            runners = [MutantRunner(directory_path / str(n), server) for n, server in enumerate(running_servers)]
            threads = [threading.Thread(target=work, args=[runner]) for runner in runners]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            for runner in runners:
                runner.close()
        finally:
            for server in servers:
                server.__exit__(None, None, None)
    return _print_results(results, [mutant.name for mutant in mutants])


def _print_results(results: dict[str, Any], names: list[str]) -> int:
    expected = expected_survivors()
    counted = collections.Counter(results.get(name, {"verdict": "not tried"})["verdict"] for name in names)
    remaining = [name for name in names if results.get(name, {}).get("verdict") == "survived"]
    for name in remaining:
        print(f"survived: {name}\n    {expected.get(name, 'UNEXPECTED')}")
    print(" ".join(f"{verdict} {n}" for verdict, n in sorted(counted.items())))
    return 1 if set(remaining) - expected.keys() or counted.keys() & {"undecided", "not tried"} else 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="+", choices=["sql", "conditions"])
    parser.add_argument("--number", type=int, default=100_000, help="maximum of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="regular expression that mutant names must match")
    parser.add_argument("--into", type=Path, default=Path("mutants.json"))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=3600, help="time limit; untested mutants are reported")
    parser.add_argument("--each", type=float, default=900, help="time limit of one mutant")
    parser.add_argument("--postgres", type=int, default=18)
    sys.exit(run(parser.parse_args()))


if __name__ == "__main__":
    main()
