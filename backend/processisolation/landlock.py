"""Confine a process with the Linux security module Landlock. It needs no privileges and cannot be undone.

A confined process and its children can open only the files that were allowed. They cannot trace processes outside the
sandbox, and from Landlock version 6 on cannot signal them.

Run as a program, it confines itself and executes the agent's CLI: `landlock.py FOLDER CONFIG PROGRAM COMMAND…`. So it
imports only the standard library.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Sequence
from pathlib import Path

SCOPES_SIGNALS = 6
"""The first Landlock version in which a confined process cannot signal processes outside its sandbox."""

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every supported architecture
_QUERY_VERSION, _PATH_BENEATH = 1, 1
_PR_SET_NO_NEW_PRIVS = 38

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE, _IOCTL = (1 << bit for bit in (0, 1, 2, 3, 14, 15))
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_FILE_RIGHTS = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL
_RIGHT_COUNTS = {1: 13, 2: 14, 3: 15, 4: 15}  # number of file rights by version; 16 from version 5 on
_BIND, _CONNECT = 1, 2
_SCOPED_SOCKETS, _SCOPED_SIGNALS = 1, 2

# Paths that every program needs: to read and execute, and devices to write. /run/systemd/resolve is for DNS.
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/proc", "/sys", "/run/systemd/resolve")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")


def version() -> int:
    """Return the Landlock version of this machine. 0 if the kernel or container does not support it."""
    if sys.platform != "linux":
        return 0
    return max(0, _libc().syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_QUERY_VERSION)))


def confine(readable: Sequence[str] = (), writable: Sequence[str] = (), *, may_connect: bool = False) -> bool:
    """Limit this thread and its children to files below these paths, and forbid binding TCP ports.

    Paths that do not exist are ignored. Return False, without any effect, if Landlock is not supported.
    """
    abi_version = version()
    if not abi_version:
        return False
    all_rights = (1 << _RIGHT_COUNTS.get(abi_version, 16)) - 1
    attributes = struct.pack("=Q", all_rights)
    if abi_version >= 4:
        attributes += struct.pack("=Q", _BIND if may_connect else _BIND | _CONNECT)
    if abi_version >= SCOPES_SIGNALS:
        attributes += struct.pack("=Q", _SCOPED_SOCKETS | _SCOPED_SIGNALS)
    rules = _raise_if_failed(
        _libc().syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint32(0))
    )
    try:
        for path in readable:
            _allow(rules, path, all_rights & _READ)
        for path in writable:
            _allow(rules, path, all_rights)
        _raise_if_failed(_libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        _raise_if_failed(_libc().syscall(_RESTRICT_SELF, ctypes.c_int(rules), ctypes.c_uint32(0)))
    finally:
        os.close(rules)
    return True


def _allow(rules: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not Path(path).is_dir():
            rights &= _FILE_RIGHTS
        beneath = struct.pack("=Qi", rights, descriptor)
        _raise_if_failed(
            _libc().syscall(_ADD_RULE, ctypes.c_int(rules), ctypes.c_int(_PATH_BENEATH), beneath, ctypes.c_uint32(0))
        )
    finally:
        os.close(descriptor)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _raise_if_failed(answer: int) -> int:
    if answer < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return answer


def _exec_confined(folder: str, config: str, program: str, *command: str) -> None:
    confine((*_SYSTEM, program), (*_DEVICES, folder, config), may_connect=True)
    os.execv(command[0], command)  # noqa: S606


if __name__ == "__main__":
    _exec_confined(*sys.argv[1:])
