"""A full disk is named as the reason of a failed run."""

from __future__ import annotations

import errno

import psycopg.errors
import pytest

from fieldmark.errors import Unavailable, is_disk_full


def caused_by(error: BaseException) -> BaseException:
    outer = RuntimeError("The conversation could not be stored.")
    outer.__cause__ = error
    return outer


@pytest.mark.parametrize(
    ("error", "is_full"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (OSError(errno.EDQUOT, "Quota exceeded"), True),
        (psycopg.errors.DiskFull("could not extend file"), True),
        (caused_by(psycopg.errors.DiskFull("could not extend file")), True),
        (caused_by(caused_by(OSError(errno.ENOSPC, "No space left on device"))), True),
        (FileNotFoundError(errno.ENOENT, "No such file"), False),
        (psycopg.errors.OutOfMemory("out of memory"), False),
        (Unavailable("The database does not answer."), False),
    ],
)
def test_full_disk_is_recognised_in_an_error_and_its_causes(error: BaseException, is_full: bool) -> None:
    assert is_disk_full(error) is is_full
