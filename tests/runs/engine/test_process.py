"""One CLI between two conversations: cleared or not, and what lies in its folder then."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from uuid import uuid4

import pytest
from claude_agent_sdk import ConversationResetMessage, ResultMessage

from desk import home_of
from fieldmark.agents.extraction.agent import EXTRACTION
from fieldmark.offline_model.messages import text
from fieldmark.offline_model.server import OfflineModel
from fieldmark.runs.engine.binding import RunBinding
from fieldmark.runs.engine.cli_attestation import COMMANDS, SandboxViolation
from fieldmark.runs.engine.options import CliKind, ModelService, agent_options
from fieldmark.runs.engine.process import Process
from fieldmark.testing.script import Script
from living import clis

pytestmark = pytest.mark.anyio


@pytest.fixture
async def process():
    """One that may be cleared, connected, and in front of a model that says Done."""
    kind, binding = CliKind.of(EXTRACTION, "claude-sonnet-5", 5), RunBinding(uuid4())
    async with OfflineModel(Script([[text("Done.")]])) as model:
        service = ModelService(model.base_url, "test-key", None)
        options_in = partial(agent_options, kind, binding, service=service, cpu_seconds=60, is_clearable=True)
        process = Process(options_in, kind, binding, is_clearable=True)
        try:
            await process.connect()
            yield process
        finally:
            await process.end(in_order=False)
    assert clis() == []


async def say(process: Process, words: str) -> list:
    return [message async for message in process.converse(words)]


async def test_it_is_cleared_with_all_that_lies_in_its_folder(process):
    (cli,) = clis()
    assert process.lives() and process.memory_mb() > 20 and process.cpu_seconds() > 0
    before = process.session_id
    await say(process, "Canary")
    assert process.ended_well
    outside = home_of(cli).parent / f"outside-{uuid4()}"
    outside.mkdir()
    try:
        (outside / "kept").write_text("kept")
        (home_of(cli) / "link").symlink_to(outside)
        (home_of(cli) / "config" / "history.jsonl").write_text("Canary")
        await process.clear()
        assert process.session_id != before
        assert not process.ended_well and (outside / "kept").exists()
    finally:
        (outside / "kept").unlink()
        outside.rmdir()
    lying = [path for path in home_of(cli).rglob("*") if path.is_file()]
    assert lying and not [path for path in lying if "Canary" in path.read_text(errors="replace")]
    assert not (home_of(cli) / "link").is_symlink() and str(before) not in str(lying)
    await say(process, "Another")
    assert process.ended_well


async def test_one_that_does_not_answer_is_not_cleared(process):
    (cli,) = clis()
    cli.suspend()
    with pytest.raises(TimeoutError):
        await process.clear(seconds=0.5)


async def test_one_that_answers_anything_but_that_it_was_cleared_is_not(process, monkeypatch):
    before, other, said = str(process.session_id), str(uuid4()), []

    async def receive():
        for message in said:
            yield message

    async def query(prompt): ...

    monkeypatch.setattr(process._client, "query", query)
    monkeypatch.setattr(process._client, "receive_response", receive)
    reset = ConversationResetMessage(new_conversation_id="new", uuid="u", session_id=before)
    done = ResultMessage("success", 1, 1, is_error=False, num_turns=0, session_id=other)
    for answers in (
        [],
        [done],
        [reset],
        [reset, reset, done],
        [replace(reset, session_id=other), done],
        [reset, replace(done, session_id=before)],
        [reset, replace(done, is_error=True)],
        [reset, replace(done, num_turns=1)],
    ):
        said[:] = answers
        with pytest.raises(SandboxViolation, match="not cleared"):
            await process.clear()
        assert str(process.session_id) == before
    said[:] = [reset, done]
    await process.clear()
    assert str(process.session_id) == other


async def test_one_that_is_in_another_conversation_may_not_speak(process):
    process.binding.begin(uuid4())
    with pytest.raises(SandboxViolation, match="another conversation"):
        await say(process, "Go on.")


async def test_one_that_has_not_our_commands_may_not_speak(process):
    process._commands = COMMANDS - {"clear"}
    with pytest.raises(SandboxViolation, match="slash_commands"):
        await process.clear()
