"""An embedder for tests: an endpoint in the shape of OpenAI's embeddings that knows which words mean the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

from loopback import listening

ALIKE = (("roof", "shingles"), ("cellar", "basement"), ("garden", "lawn"))


class FakeEmbedder:
    """What it was asked, and what it answers: vectors, or a status and a body."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[tuple[dict[str, str], dict[str, Any]]] = []
        self.refusal: tuple[int, bytes] | None = None
        self.dimensions = len(ALIKE) + 1

    def vector(self, text: str) -> list[float]:
        said = [float(sum(text.lower().count(word) for word in words)) for words in ALIKE]
        return [*said, 0.1, *([0.0] * (self.dimensions - len(ALIKE) - 1))]

    def answer(self, body: dict[str, Any]) -> tuple[int, bytes]:
        if self.refusal is not None:
            return self.refusal
        data = [{"index": n, "embedding": self.vector(text)} for n, text in enumerate(body["input"])]
        return 200, json.dumps({"data": data[::-1]}).encode()  # in whatever order


@contextmanager
def embedding() -> Iterator[FakeEmbedder]:
    """An embedder that answers on loopback while the block lasts."""
    fake = FakeEmbedder()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            fake.asked.append((dict(self.headers), body))
            status, answer = fake.answer(body) if self.path == "/v1/embeddings" else (404, b"")
            if self.path == "/elsewhere":
                fake.refusal, kept = None, fake.refusal
                status, answer = fake.answer(body)
                fake.refusal = kept
            self.send_response(status)
            if status == 307:
                self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with listening(Handler) as url:
        fake.url = f"{url}/v1"
        yield fake
