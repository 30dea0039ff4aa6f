"""Long computations run round-robin across organisations, in threads of their own."""

from __future__ import annotations

import ast
import asyncio
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest

import fieldmark
from extraction_case import until
from fieldmark.db.worker_thread import run_in_thread
from fieldmark.errors import TooManyAtOnce
from fieldmark.services.fair_share import (
    MAX_QUEUED,
    THREADS,
    FairLimiter,
    run_queued,
    run_queued_unbounded,
    run_unqueued,
)
from running_server import PATIENCE

pytestmark = pytest.mark.anyio


async def test_an_organisation_with_many_computations_does_not_delay_another():
    loud, quiet, others = uuid4(), uuid4(), [uuid4() for _ in range(THREADS)]
    released, quiet_is_done, done = threading.Event(), threading.Event(), list[int]()

    def compute(number: int) -> None:
        # Only the first ones may start before the other organisation's, which the last ones would wait for in vain.
        assert number < THREADS or quiet_is_done.wait(PATIENCE)
        done.append(number)

    blocking = [asyncio.create_task(run_queued(other, released.wait)) for other in others]
    await asyncio.sleep(0.05)
    tasks = [asyncio.create_task(run_queued(loud, compute, number)) for number in range(10)]
    await asyncio.sleep(0.05)
    tasks.append(asyncio.create_task(run_queued(quiet, quiet_is_done.set)))
    await asyncio.sleep(0.05)
    assert done == []
    released.set()
    await asyncio.gather(*blocking, *tasks)
    assert done == [*range(10)]


async def test_slots_are_limited_over_all_organisations():
    released, taken = asyncio.Event(), []
    limiter = FairLimiter(2)

    async def take() -> None:
        async with limiter.slot(uuid4()):
            taken.append(1)
            await released.wait()

    tasks = [asyncio.create_task(take()) for _ in range(5)]
    await asyncio.sleep(0.1)
    assert len(taken) == 2
    released.set()
    await asyncio.gather(*tasks)
    assert len(taken) == 5


async def test_a_full_queue_refuses_its_organisation_only_and_never_the_unbounded_call():
    org, released, started = uuid4(), threading.Event(), []

    def wait() -> None:
        started.append(1)
        released.wait()

    tasks = [asyncio.create_task(run_queued(org, wait)) for _ in range(MAX_QUEUED)]
    await until(lambda: started)
    await asyncio.sleep(0.1)
    assert len(started) == 1  # one at a time per organisation
    with pytest.raises(TooManyAtOnce):
        await run_queued(org, int)
    tasks.append(asyncio.create_task(run_queued_unbounded(org, wait)))
    assert await asyncio.wait_for(run_queued(uuid4(), int), PATIENCE) == 0
    released.set()
    await asyncio.gather(*tasks)
    assert len(started) == MAX_QUEUED + 1 and await run_queued(org, int) == 0


async def test_failed_and_cancelled_computations_free_their_slot():
    org = uuid4()
    with pytest.raises(ZeroDivisionError):
        await run_queued(org, divmod, 1, 0)
    waiting = asyncio.create_task(run_queued(org, threading.Event().wait, 0.2))
    await asyncio.sleep(0.05)
    waiting.cancel()
    assert await asyncio.wait_for(run_queued(org, int), PATIENCE) == 0


async def test_computations_do_not_use_the_threads_of_file_access():
    released = threading.Event()
    tasks = [
        asyncio.create_task(run(released.wait))
        for _ in range(50)
        for run in (partial(run_queued, uuid4()), run_unqueued)
    ]
    await asyncio.sleep(0.05)
    assert await asyncio.wait_for(asyncio.to_thread(int), PATIENCE) == 0
    assert await asyncio.wait_for(run_in_thread(int), PATIENCE) == 0
    released.set()
    await asyncio.gather(*tasks)


async def test_queued_and_unqueued_computations_do_not_block_each_other():
    turns = [partial(run_queued, uuid4()) for _ in range(THREADS)]
    for blocking, other in ((turns, run_unqueued), ([run_unqueued] * THREADS, partial(run_queued, uuid4()))):
        released = threading.Event()
        tasks = [asyncio.create_task(run(released.wait)) for run in blocking]
        await asyncio.sleep(0.05)
        try:
            assert await asyncio.wait_for(other(int), PATIENCE) == 0
        finally:
            released.set()
            await asyncio.gather(*tasks)


SLOW_FUNCTIONS = {
    *("text_blocks", "group_lines", "fold", "DocumentIndex", "chunks", "find_mismatches", "current_extraction"),
    *("violations", "check_schema", "preview_of"),
}


def iterate_called_names(node: ast.AST) -> Iterator[str]:
    """Yield the names that a function calls, without those that its inner functions call."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.Call) and isinstance(child.func, ast.Name | ast.Attribute):
            yield child.func.id if isinstance(child.func, ast.Name) else child.func.attr
        yield from iterate_called_names(child)


def test_no_coroutine_calls_a_slow_document_function_directly():
    assert "text_blocks" in {*iterate_called_names(ast.parse("async def f():\n    return text_blocks(page)").body[0])}
    sources = {file: file.read_text(encoding="utf-8") for file in Path(fieldmark.__file__).parent.rglob("*.py")}
    found = {
        f"{file.name}: {node.name}"
        for file, source in sources.items()
        if any(f"{name}(" in source for name in SLOW_FUNCTIONS)  # parsing takes long
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.AsyncFunctionDef) and SLOW_FUNCTIONS.intersection(iterate_called_names(node))
    }
    assert not found
