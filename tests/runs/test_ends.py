"""Every end of a run is recorded, and removes its CLI process and its folder."""

from __future__ import annotations

import asyncio
import signal
import tempfile
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path

import pytest
from claude_agent_sdk import CLIConnectionError, CLINotFoundError

from child_processes import children, cli_processes, command_line
from extraction_case import home_folder, run_in_progress, until
from fieldmark.errors import Unavailable
from fieldmark.offline_model.messages import raw_call, text
from fieldmark.offline_model.server import OfflineModel
from fieldmark.runs.engine.options import ModelService
from fieldmark.runs.engine.pool import CliPool
from fieldmark.runs.run import Runner
from fieldmark.testing.script import Script, repeat_forever, stall_connection

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli("processes and folders")]


@pytest.fixture
def cli_folders():
    return []


@pytest.fixture
def recording_script(cli_folders):
    def script(*steps):
        inner = Script(steps)

        async def answer(body):
            cli_folders.extend(home_folder(cli) for cli in cli_processes())
            return await inner(body)

        return answer

    return script


def nested_json(depth: int) -> str:
    return '{"path": "a", "confidence": 1, "value": %s}' % ("[" * depth + "]" * depth)


@pytest.mark.parametrize(
    ("steps", "limits", "status", "code"),
    [
        ([[text("Done.")]], {}, "completed", None),
        ([stall_connection(600)], {"seconds": 1}, "failed", "deadline"),
        # Too deep for the JSON parser of Python (3.11: a thousand levels, 3.13: ten thousand), but not for the CLI.
        ([[raw_call("update_field", nested_json(12_000))]], {}, "failed", "call_unreadable"),
        ([[raw_call("update_field", '{"path": "a", "confidence": 1, "value": "%s"}' % ("x" * 9_000_000))]], {},
         "failed", "call_unreadable"),
    ],
    ids=["success", "deadline", "depth", "size"],
)  # fmt: skip
async def test_run_end_is_recorded_and_no_process_is_left(
    case, recording_script, cli_folders, steps, limits, status, code
):
    finished = await case.execute_run(recording_script(*steps), **limits)
    assert (finished.state["status"], finished.state["error_code"]) == (status, code)
    assert finished.state["finished_at"] is not None
    last = finished.events[-1]
    assert last.get("complete") is (True if code is None else None) and last.get("code") == code
    assert last.get("error") == finished.state["error"]
    assert case.extraction()["version"] == 0
    assert cli_folders or code == "deadline"  # on a slow machine it may pass before the first request
    assert cli_processes() == [] and not any(home.exists() for home in cli_folders)


async def test_run_with_killed_cli_is_retried(case):
    run_id = await case.queue_run()
    for failures, signal_number in enumerate((signal.SIGKILL, signal.SIGTERM), 1):
        async with run_in_progress(case, run_id=run_id) as (task, cli):
            home = home_folder(cli)
            cli.send_signal(signal_number)
            with pytest.raises(Unavailable):
                await asyncio.wait_for(task, 60)
            state = case.state(run_id)
            assert (state["status"], state["consecutive_failures"]) == ("running", failures)
            assert cli_processes() == [] and not home.exists()
    finished = await case.execute_run(Script([repeat_forever([text("Done.")])]), run_id=run_id)
    assert (finished.state["status"], finished.state["fencing_token"]) == ("completed", 3)


@pytest.mark.parametrize(
    ("error", "status"), [(CLIConnectionError("disconnected"), "running"), (CLINotFoundError("not found"), "failed")]
)
async def test_failed_cli_start_is_retried_missing_cli_is_not(case, error, status):
    class FailingPool(CliPool):
        @asynccontextmanager
        async def acquire(self, *_, **__):
            raise error
            yield

    run_id = await case.queue_run()
    service = ModelService("http://127.0.0.1:9", "test-key", None)
    pool = FailingPool(service, seconds=60)
    runner = Runner(case.database, pool, model="claude-sonnet-5", max_turns=5, seconds=60)
    with pytest.raises(Unavailable) if status == "running" else nullcontext():
        await runner.execute(run_id)
    state = case.state(run_id)
    assert (state["status"], state["error_code"]) == (status, None if status == "running" else "agent_process")


async def test_cli_without_folder_releases_its_user_and_is_retried(case, monkeypatch, memory_path):
    def list_locks() -> list[str]:
        links = [link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
        return [str(link) for link in links if link.name.isdigit() and "fieldmark" in str(link.parent)]

    run_id, before = await case.queue_run(), list_locks()
    async with OfflineModel(Script([[text("Done.")]])) as model:
        with monkeypatch.context() as patched:
            patched.setattr(tempfile, "tempdir", str(memory_path / "full"))
            with pytest.raises(Unavailable):
                await case.runner(model).execute(run_id)
        assert list_locks() == before and case.state(run_id)["status"] == "running"
        await case.runner(model).execute(run_id)
    assert case.state(run_id)["status"] == "completed"


async def test_second_cancellation_leaves_no_process(case):
    async with run_in_progress(case) as (task, cli):
        home = home_folder(cli)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        await until(lambda: not cli_processes() and not home.exists())


async def test_worker_stopped_during_cli_start_leaves_no_cli(case):
    run_id = await case.queue_run()
    async with OfflineModel(Script([stall_connection(600)])) as model:
        task = asyncio.create_task(case.runner(model).execute(run_id))
        # The launcher or, if it was too quick to be seen, the CLI.
        await until(lambda: any("sealed-cli" in command_line(child) for child in children()) or cli_processes())
        task.cancel()
        await asyncio.wait({task})
    assert cli_processes() == [] and not any("sealed-cli" in command_line(child) for child in children())
    assert case.state(run_id)["status"] == "queued"
