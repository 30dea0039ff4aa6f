"""Temporary folders of killed workers are removed by the next worker, folders in use are not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fieldmark.runs.engine.scratch_dir import NEW_SECONDS

PROCESS_CODE = """
import sys, tempfile
from fieldmark.runs.engine.scratch_dir import remove_abandoned, scratch_dir
with scratch_dir():
    print(tempfile.mkdtemp(prefix="claude-resume-"), flush=True)
    for _ in sys.stdin:
        remove_abandoned()
        print(flush=True)
"""


@contextmanager
def start_process(base: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Start a process with a scratch folder, and yield it with a temporary folder in there."""
    command = [sys.executable, "-c", PROCESS_CODE]
    environment = {**os.environ, "TMPDIR": str(base)}  # noqa: TID251  passed on
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())


def remove_abandoned(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    process.stdout.readline()


def make_old(base: Path) -> None:
    for scratch_dir in base.iterdir():
        seconds = scratch_dir.stat().st_mtime - NEW_SECONDS - 1
        os.utime(scratch_dir, (seconds, seconds))


def test_folders_of_killed_processes_are_removed_those_in_use_are_not(tmp_path):
    with start_process(tmp_path) as (killed, abandoned), start_process(tmp_path) as (running, used):
        make_old(tmp_path)
        remove_abandoned(running)
        assert abandoned.is_dir() and used.is_dir()
        killed.kill()
        killed.wait()
        new = tmp_path / "fieldmark-scratch-new"  # new, not locked yet
        new.mkdir()
        remove_abandoned(running)
        assert not abandoned.parent.exists() and used.is_dir() and new.is_dir()
        make_old(tmp_path)
        remove_abandoned(running)
        assert not new.exists()
    assert running.returncode == 0 and list(tmp_path.iterdir()) == []
