"""The folder of one worker for temporary files: what a killed one left behind is found by it and removed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

NEW_SECONDS = 10
_SCRATCH_DIR = "fieldmark-scratch-"


@contextmanager
def scratch_dir() -> Generator[None]:
    """What this process and the SDK put into temporary files lies in one folder of this process meanwhile. It is
    locked: what a killed process left behind, transcripts among it, is known by the lock that is free."""
    if _outside() != Path(tempfile.gettempdir()):  # a second service in one process
        yield
        return
    before = tempfile.tempdir
    folder = Path(tempfile.mkdtemp(prefix=_SCRATCH_DIR))
    lock = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder.chmod(0o711)  # the CLI's own user goes through it into its folder
        tempfile.tempdir = str(folder)  # the SDK cannot be told where to put a conversation that it resumes
        yield
    finally:
        tempfile.tempdir = before
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def clear_up() -> None:
    """Remove what processes that were killed have left in their scratch folders."""
    for folder in _outside().glob(f"{_SCRATCH_DIR}*"):
        with contextlib.suppress(OSError):
            lock = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_DIRECTORY)
            try:
                is_ours = os.fstat(lock).st_uid == os.geteuid()
                is_new = time.time() - os.fstat(lock).st_mtime < NEW_SECONDS  # made, and not locked yet
                if is_ours and not is_new:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def _outside() -> Path:
    """Where scratch folders stand: the system's own folder for temporary files."""
    here = Path(tempfile.gettempdir())
    return here.parent if here.name.startswith(_SCRATCH_DIR) else here
