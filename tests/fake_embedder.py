"""A fake OpenAI-compatible embeddings endpoint that gives synonyms the same vector."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

from http_stub import http_stub

SYNONYMS = (("roof", "shingles"), ("cellar", "basement"), ("garden", "lawn"))


class FakeEmbedder:
    """Records requests and answers with vectors, or with `refusal` (status and body) if it is set."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[tuple[dict[str, str], dict[str, Any]]] = []
        self.refusal: tuple[int, bytes] | None = None
        self.dimensions = len(SYNONYMS) + 1

    def vector(self, text: str) -> list[float]:
        counts = [float(sum(text.lower().count(word) for word in words)) for words in SYNONYMS]
        return [*counts, 0.1, *([0.0] * (self.dimensions - len(SYNONYMS) - 1))]

    def answer(self, body: dict[str, Any]) -> tuple[int, bytes]:
        if self.refusal is not None:
            return self.refusal
        data = [{"index": n, "embedding": self.vector(text)} for n, text in enumerate(body["input"])]
        return 200, json.dumps({"data": data[::-1]}).encode()  # clients must not rely on the order


@contextmanager
def serve_fake_embedder() -> Iterator[FakeEmbedder]:
    """Serve the endpoint on loopback until the block ends."""
    fake = FakeEmbedder()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            fake.requests.append((dict(self.headers), body))
            status, answer = fake.answer(body) if self.path == "/v1/embeddings" else (404, b"")
            if self.path == "/elsewhere":
                fake.refusal, refusal = None, fake.refusal
                status, answer = fake.answer(body)
                fake.refusal = refusal
            self.send_response(status)
            if status == 307:
                self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with http_stub(Handler) as url:
        fake.url = f"{url}/v1"
        yield fake
