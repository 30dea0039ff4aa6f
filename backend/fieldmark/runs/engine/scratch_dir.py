"""A worker's folder for temporary files. Folders left by killed workers are found and removed."""

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
    """Put all temporary files of this process, including the SDK's, into one locked folder during the block. A folder
    whose lock is free was left by a killed process."""
    if _system_temp_dir() != Path(tempfile.gettempdir()):  # a second service in one process
        yield
        return
    previous = tempfile.tempdir
    folder = Path(tempfile.mkdtemp(prefix=_SCRATCH_DIR))
    lock = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder.chmod(0o711)  # the CLI's user must traverse it to reach its own folder
        tempfile.tempdir = str(folder)  # the SDK has no option for where it puts a resumed conversation
        yield
    finally:
        tempfile.tempdir = previous
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def remove_abandoned() -> None:
    """Remove the scratch folders of killed processes."""
    for folder in _system_temp_dir().glob(f"{_SCRATCH_DIR}*"):
        with contextlib.suppress(OSError):
            lock = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_DIRECTORY)
            try:
                is_ours = os.fstat(lock).st_uid == os.geteuid()
                is_new = time.time() - os.fstat(lock).st_mtime < NEW_SECONDS  # created but not locked yet
                if is_ours and not is_new:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def _system_temp_dir() -> Path:
    current = Path(tempfile.gettempdir())
    return current.parent if current.name.startswith(_SCRATCH_DIR) else current
