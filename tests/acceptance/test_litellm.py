"""Any model: Claude's CLI before LiteLLM's real proxy, before a server that has only chat completions."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx
import pytest

from fieldmark.offline_model.messages import call, text
from fieldmark.testing.script import Script
from http_stub import http_stub
from running_server import PATIENCE

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.full,
    pytest.mark.long,
    pytest.mark.real_cli("what it sends passes another provider's gateway"),
]

KEY = "sk-litellm"

Reply = tuple[str, dict[str, Any]] | str
"""A tool's name with its arguments, or a text."""


class ChatCompletions:
    """A server with POST /v1/chat/completions only, which gives the next reply of a script to each request."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.requests: list[dict[str, Any]] = []

    @contextmanager
    def serving(self) -> Iterator[str]:
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.0"

            def log_message(self, format: str, *args: Any) -> None:
                pass

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                if self.path != "/v1/chat/completions":
                    self.send_error(404)
                    return
                model.requests.append(body)
                if not model.replies:
                    self.send_error(400)
                    return
                self.send_response(200)
                kind = "text/event-stream" if body.get("stream") else "application/json"
                self.send_header("content-type", kind)
                self.end_headers()
                self.wfile.write(b"".join(answer(body, model.replies.pop(0))))

        with http_stub(Handler) as url:
            yield f"{url}/v1"


def answer(body: dict[str, Any], reply: Reply) -> Iterator[bytes]:
    """Yield the parts of a response: whole, or streamed with the arguments in small pieces."""
    usage = {"prompt_tokens": 1000, "completion_tokens": 20, "total_tokens": 1020}
    shared = {"id": "c1", "created": int(time.time()), "model": body["model"]}
    if isinstance(reply, str):
        reason, message, parts = "stop", {"content": reply}, [{"content": reply[:5]}, {"content": reply[5:]}]
    else:
        name = next(one["function"]["name"] for one in body["tools"] if one["function"]["name"].endswith(reply[0]))
        arguments = json.dumps(reply[1])
        function = {"index": 0, "id": f"call_{time.time_ns()}", "type": "function"}
        message = {"content": None, "tool_calls": [{**function, "function": {"name": name, "arguments": arguments}}]}
        pieces = [arguments[start : start + 12] for start in range(0, len(arguments), 12)]
        parts = [{"tool_calls": [{**function, "function": {"name": name, "arguments": ""}}]}]
        parts += [{"tool_calls": [{"index": 0, "function": {"arguments": piece}}]} for piece in pieces]
        reason = "tool_calls"
    if not body.get("stream"):
        choice = {"index": 0, "finish_reason": reason, "message": {"role": "assistant", **message}}
        yield json.dumps({**shared, "object": "chat.completion", "choices": [choice], "usage": usage}).encode()
        return
    chunks = [{"index": 0, "delta": {"role": "assistant", **part}, "finish_reason": None} for part in parts]
    for choice in [*chunks, {"index": 0, "delta": {}, "finish_reason": reason}]:
        chunk = {**shared, "object": "chat.completion.chunk", "choices": [choice]}
        yield f"data: {json.dumps(chunk)}\n\n".encode()
    last = {**shared, "object": "chat.completion.chunk", "choices": [], "usage": usage}
    yield f"data: {json.dumps(last)}\n\ndata: [DONE]\n\n".encode()


@pytest.fixture
def litellm(pytestconfig: pytest.Config) -> Path:
    """Return the path of the program. It has an environment of its own, since it pins packages of ours."""
    chosen = pytestconfig.getoption("--litellm")
    if chosen is None:
        pytest.skip("--litellm is not given: the path of the program of `pip install 'litellm[proxy]'`.")
    return Path(chosen)


@asynccontextmanager
async def proxy(litellm: Path, model_url: str) -> AsyncIterator[str]:
    """Start the proxy with the configuration of docs/models.md. Yield its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    page = (Path(__file__).parents[2] / "docs" / "models.md").read_text("utf-8")
    config = page.partition("```yaml\n")[2].partition("```")[0].replace("http://127.0.0.1:8000/v1", model_url)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "litellm.yaml").write_text(config)
        environment = {
            "LITELLM_MASTER_KEY": KEY,
            "PATH": f"{litellm.parent}:/usr/bin:/bin",
            "HOME": folder,
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        }
        command = [litellm, "--config", "litellm.yaml", "--host", "127.0.0.1", "--port", str(port)]
        with (Path(folder) / "log").open("w") as log:
            process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
        try:
            url = f"http://127.0.0.1:{port}"
            async with httpx.AsyncClient(base_url=url) as http:
                for _ in range(int(PATIENCE * 2)):
                    assert process.poll() is None, (Path(folder) / "log").read_text()
                    try:
                        if (await http.get("/health/liveliness")).status_code == 200:
                            break
                    except httpx.TransportError:
                        pass
                    await asyncio.sleep(1)
            yield url
        finally:
            process.terminate()
            process.wait(20)


async def test_a_model_behind_litellm_extracts_corrects_and_answers(serve, litellm):
    model = ChatCompletions(
        ("identify_document", {"document_type": "invoice", "confidence": 0.9}),
        # The commonest mistake of weaker models: a number as text.
        ("extract_fields", {"fields": {"number": "1", "total": "10.00"}, "confidences": {"number": 0.9, "total": 0.9}}),
        ("complete_extraction", {}),
        "Done.",
        ("update_field", {"path": "total", "value": 12}),
        ("complete_extraction", {}),
        "Corrected.",
        ("record_intent", {"intent": "qa", "confidence": 0.9, "reasoning": "A question."}),
        ("search_documents", {"query": "dragons"}),
        ("submit_answer", {"answer": "No document names one.", "confidence": 0.9, "nothing_found": True}),
    )
    schema = {"type": "object", "properties": {"number": {"type": "string"}, "total": {"type": "number"}}}
    with model.serving() as model_url:
        async with proxy(litellm, model_url) as url:
            settings = {
                "anthropic_base_url": url,
                "anthropic_auth_token": KEY,
                "model": "local",
                "model_price": "0/0",
            }
            async with serve(**settings) as server:
                document = str(await server.upload_text())
                started = await server.http.post(
                    "/api/agent/extract", json={"document_id": document, "schema": schema, "approval": "ask"}
                )
                run, decided = started.json(), []
                while run["status"] == "awaiting_approval":
                    call = run["waits_for"]
                    decided.append(call["tool"])
                    approval = {"call_id": call["call_id"], "approved": True}
                    body = {"run_id": run["run_id"], "approvals": [approval]}
                    run = (await server.http.post("/api/agent/approve", json=body)).json()
                assert (run["status"], run["answer"]) == ("completed", "Done."), run
                assert "extract_fields" in decided
                extraction = run["extraction"]
                assert extraction["extracted_fields"] == {"number": "1", "total": 10.0}
                assert extraction["evidence"]["total"]["page"] == 1
                assert run["usage"]["input_tokens"] >= 4000 and run["cost_usd"] == 0, run["usage"]
                body = {"extraction_id": extraction["id"], "message": "set total to 12"}
                corrected = (await server.http.post("/api/agent/correct", json=body)).json()
                assert corrected["extraction"]["extracted_fields"]["total"] == 12, corrected
                asked = (await server.http.post("/api/agent/ask", json={"message": "Which dragons are there?"})).json()
                assert asked["status"] == "completed" and asked["answer"].startswith("No document names"), asked
    assert model.replies == []
    assert {request["model"] for request in model.requests} == {"YOUR_MODEL"}


@pytest.mark.parametrize("total", [10, 12])
async def test_a_model_behind_litellm_reads_a_second_time(serve, litellm, total):
    """A value of the second model agrees, or is one to review with its location. Afterwards the provider refuses."""
    model = ChatCompletions(("submit_reading", {"fields": {"number": "1", "total": total}}), "The fields are read.")
    first = [[call("extract_fields", {"fields": {"number": "1", "total": 10}, "confidences": {}})], [text("Done.")]]
    with model.serving() as model_url:
        async with proxy(litellm, model_url) as url:
            second = {"second_model": "local", "second_base_url": url, "second_auth_token": KEY}
            async with serve(Script(first * 2), second_model_price="0/0", **second) as server:
                document = await server.upload_text("Invoice number: 1\nTotal: 10.00 EUR\nPaid: 12.00 EUR\n")
                run = await server.extract(document, second_reading="all")
                found, proof = run["second_reading"], run["extraction"]["evidence"]["total"]
                assert found["code"] is None, found
                if total == 10:
                    assert (found["agrees"], found["differs"]) == (2, 0)
                    assert proof["second_reading"]["result"] == "agrees"
                else:
                    assert (found["agrees"], found["differs"]) == (1, 1)
                    other = proof["second_reading"]
                    assert (proof["doubts"], other["value"], other["page"]) == (["second_reading"], 12, 1)
                    assert proof["boxes"] and other["boxes"] and proof["boxes"] != other["boxes"]
                model.replies.clear()
                refused = await server.extract(await server.upload_text("Number: 1 Total: 10"), second_reading="all")
                assert (refused["status"], refused["second_reading"]["code"]) == ("completed", "model_refused_request")
                assert refused["extraction"]["extracted_fields"] == {"number": "1", "total": 10}
