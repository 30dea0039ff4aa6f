"""What a killed worker leaves in temporary files: the next one removes it, and nobody's who lives."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fieldmark.runs.engine.scratch_dir import NEW_SECONDS

AT_WORK = """
import sys, tempfile
from fieldmark.runs.engine.scratch_dir import remove_abandoned, scratch_dir
with scratch_dir():
    print(tempfile.mkdtemp(prefix="claude-resume-"), flush=True)
    for _ in sys.stdin:
        remove_abandoned()
        print(flush=True)
"""


@contextmanager
def at_work(base: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A process at its scratch_dir, and a temporary folder that a library has made there."""
    command = [sys.executable, "-c", AT_WORK]
    environment = {**os.environ, "TMPDIR": str(base)}  # noqa: TID251  handed on
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())


def clear_up(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    process.stdout.readline()


def age(base: Path) -> None:
    for scratch_dir in base.iterdir():
        seconds = scratch_dir.stat().st_mtime - NEW_SECONDS - 1
        os.utime(scratch_dir, (seconds, seconds))


def test_folders_of_killed_processes_are_removed_those_in_use_are_not(tmp_path):
    with at_work(tmp_path) as (dead, lost), at_work(tmp_path) as (next_one, own):
        age(tmp_path)
        clear_up(next_one)
        assert lost.is_dir() and own.is_dir()
        dead.kill()
        dead.wait()
        new = tmp_path / "fieldmark-scratch-new"  # made just now, and not locked yet
        new.mkdir()
        clear_up(next_one)
        assert not lost.parent.exists() and own.is_dir() and new.is_dir()
        age(tmp_path)
        clear_up(next_one)
        assert not new.exists()
    assert next_one.returncode == 0 and list(tmp_path.iterdir()) == []
