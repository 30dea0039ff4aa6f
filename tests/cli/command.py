"""The command line as people use it: commands as processes, with a home of their own."""

from __future__ import annotations

import fcntl
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import psutil
import structlog
from typer.testing import CliRunner

import fieldmark
from fieldmark.cli import _app
from fieldmark.cli.process import LOCAL_USER
from fieldmark.identity.tokens import LocalTokens
from living import children
from standing import PATIENCE
from zygote import Command

# A suite that was started with nohup ignores SIGHUP, and so would every command that it starts.
COMMAND = "import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL); from fieldmark.cli import main; main()"
# What Python reads when it starts.
_OF_PYTHON = ("PYTHON", "LC_", "LANG")
SAMPLES = Path(__file__).parents[2] / "docs" / "samples"


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Home:
    """A FIELDMARK_HOME. Commands run in `folder`, with nothing in their environment but what is given."""

    path: Path
    folder: Path
    major: int

    def start(
        self,
        *arguments: str | Path,
        group: bool = False,
        redirected: str = "",
        is_fresh: bool = False,
        **environment: str,
    ) -> subprocess.Popen[str]:
        """Starts a command; `group`: in a process group of its own, as a terminal does; `redirected`: as a shell has it
        (`2>&-`); `is_fresh`: in an interpreter of its own."""
        given = {
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": str(Path(fieldmark.__file__).parents[1]),
            "FIELDMARK_HOME": str(self.path),
            "FIELDMARK_WARM_PROCESSES": "0",
            "FIELDMARK_POSTGRES_MAJOR": str(self.major),
            **environment,
        }
        streams: dict[str, Any] = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "text": True,
            "encoding": "utf-8",
            "env": {name: value for name, value in given.items() if value},
            "cwd": self.folder,
            "start_new_session": group,
        }
        if not redirected and not is_fresh and not any(name.startswith(_OF_PYTHON) for name in environment):
            return Command(arguments, **streams)
        shell = ["sh", "-c", f'exec "$@" {redirected}', "sh"] if redirected else []
        return subprocess.Popen([*shell, sys.executable, "-c", COMMAND, *map(str, arguments)], **streams)

    def run(self, *arguments: str | Path, redirected: str = "", is_fresh: bool = False, **environment: str) -> Done:
        """Runs a command to its end."""
        return finish(self.start(*arguments, redirected=redirected, is_fresh=is_fresh, **environment))

    def file(self, name: str | bytes, content: str | bytes) -> Path:
        """A file in the folder that commands run in."""
        path = self.folder / os.fsdecode(name)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def is_free(self) -> bool:
        """Whether no process of the embedded Postgres lives: they all hold its lock."""
        if not (self.path / "postgres").exists():
            return True
        with (self.path / "postgres" / "server").open("r+b") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True


def said_at_once(*arguments: str | Path) -> Done:
    """What a command says that ends before it begins anything: in this process, since starting one takes longer."""
    logs, handlers, level = structlog.get_config(), logging.root.handlers[:], logging.root.level
    try:
        done = CliRunner().invoke(_app, [*map(str, arguments)])
    finally:  # a command that read its settings logs to its own standard error, which is closed by now
        structlog.configure(**logs)
        logging.basicConfig(level=level, handlers=handlers, force=True)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return Done(done.exit_code, done.stdout, done.stderr)


def finish(process: subprocess.Popen[str]) -> Done:
    """Waits for a command's end."""
    with process:
        try:
            out, err = process.communicate(timeout=PATIENCE)
        except BaseException:
            process.kill()
            raise
    return Done(process.returncode, out, err)


def read_until(stream: IO[str] | None, words: str) -> str:
    """Reads lines up to the one with these words."""
    assert stream is not None
    seen = ""
    for line in stream:
        seen += line
        if words in line:
            return seen
    raise AssertionError(f"it never said {words!r}, but: {seen}")


def family(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """The process and all that it has started, as far as they are still its children."""
    return [psutil.Process(process.pid), *children(process.pid)]


def signalled(process: subprocess.Popen[str], number: signal.Signals, *, group: bool = False) -> Done:
    """Sends a signal (`group`: to all in its process group, as Ctrl-C does) and waits for the end."""
    os.killpg(process.pid, number) if group else process.send_signal(number)
    return finish(process)


@dataclass
class Serving:
    """A running `fieldmark serve`: its address, and a token of the local user."""

    process: subprocess.Popen[str]
    url: str
    token: str

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.token}"}


@contextmanager
def serving(home: Home, *arguments: str, is_fresh: bool = False, **environment: str) -> Iterator[Serving]:
    """`fieldmark serve` on a free port, as soon as it says where; ended with the block if nobody did before."""
    process = home.start("serve", "--port", "0", *arguments, is_fresh=is_fresh, **environment)
    try:
        said = read_until(process.stderr, "serves at")
        yield Serving(process, said.split("serves at ")[1].split()[0], LocalTokens(home.path).sign(LOCAL_USER))
    finally:
        if process.poll() is None:
            process.terminate()
            finish(process)
