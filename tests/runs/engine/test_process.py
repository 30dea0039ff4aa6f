"""Clearing a CLI between two conversations."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from uuid import uuid4

import pytest
from claude_agent_sdk import ConversationResetMessage, Message, ResultMessage, SystemMessage

from child_processes import cli_processes
from extraction_case import home_folder
from fieldmark.agents.extraction.agent import EXTRACTION
from fieldmark.offline_model.messages import text
from fieldmark.offline_model.server import OfflineModel
from fieldmark.runs.engine.binding import RunBinding
from fieldmark.runs.engine.cli_attestation import SandboxViolation
from fieldmark.runs.engine.options import CliKind, ModelService, agent_options
from fieldmark.runs.engine.process import CliProcess
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def start_cli(script: Script) -> AsyncIterator[CliProcess]:
    """Start a CLI that can be cleared, with a scripted model."""
    async with OfflineModel(script) as model:
        process = create_cli(ModelService(model.base_url, "test-key", None))
        try:
            await process.connect()
            yield process
        finally:
            await process.end(gracefully=False)
    assert cli_processes() == []


def create_cli(service: ModelService) -> CliProcess:
    kind, binding = CliKind.of(EXTRACTION, "claude-sonnet-5", 5), RunBinding(uuid4())
    options_in = partial(agent_options, kind, binding, service=service, cpu_seconds=60, is_clearable=True)
    return CliProcess(options_in, kind, binding, is_clearable=True)


async def converse(process: CliProcess, prompt: str) -> list:
    return [message async for message in process.converse(prompt)]


@pytest.mark.real_cli("clearing")
async def test_clearing_removes_the_conversation_and_its_files():
    async with start_cli(Script([[text("Done.")]])) as process:
        (cli,) = cli_processes()
        assert process.is_running() and process.memory_mb() > 20 and process.cpu_seconds() > 0
        before = process.session_id
        await converse(process, "Canary")
        assert process.has_completed
        outside = home_folder(cli).parent / f"outside-{uuid4()}"
        outside.mkdir()
        try:
            (outside / "kept").write_text("kept")
            (home_folder(cli) / "link").symlink_to(outside)
            (home_folder(cli) / "config" / "history.jsonl").write_text("Canary")
            await process.clear()
            assert process.session_id != before
            assert not process.has_completed and (outside / "kept").exists()
        finally:
            (outside / "kept").unlink()
            outside.rmdir()
        files = [path for path in home_folder(cli).rglob("*") if path.is_file()]
        assert files and not [path for path in files if "Canary" in path.read_text(errors="replace")]
        assert not (home_folder(cli) / "link").is_symlink() and str(before) not in str(files)
        await converse(process, "Another")
        assert process.has_completed
        cli.suspend()
        with pytest.raises(TimeoutError):  # a CLI that does not answer
            await process.clear(seconds=0.5)


class FakeClient:
    """An SDK client that returns these messages."""

    def __init__(self, *messages: Message) -> None:
        self.messages = messages

    async def query(self, prompt: object) -> None: ...

    async def receive_response(self) -> AsyncIterator[Message]:
        for message in self.messages:
            yield message


async def test_clearing_fails_unless_the_cli_confirms_it(tmp_path):
    process = create_cli(ModelService(None, "test-key", None))
    process._folder = tmp_path
    before, other = str(process.session_id), str(uuid4())
    reset = ConversationResetMessage(new_conversation_id="new", uuid="u", session_id=before)
    done = ResultMessage("success", 1, 1, is_error=False, num_turns=0, session_id=other)
    for messages in (
        [],
        [done],
        [reset],
        [reset, reset, done],
        [replace(reset, session_id=other), done],
        [reset, replace(done, session_id=before)],
        [reset, replace(done, is_error=True)],
        [reset, replace(done, num_turns=1)],
        [SystemMessage("init", {"slash_commands": ["unheard-of"]}), reset, done],
    ):
        process._client = FakeClient(*messages)
        with pytest.raises(SandboxViolation):
            await process.clear()
        assert str(process.session_id) == before
    process._client = FakeClient(done)
    with pytest.raises(SandboxViolation):
        await converse(process, "Go on.")
    process._client = FakeClient(reset, done)
    await process.clear()
    assert str(process.session_id) == other
