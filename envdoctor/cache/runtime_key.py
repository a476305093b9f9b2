"""Asking the venv's own torch for its key: runs the venv's interpreter, and only when told to."""

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from envdoctor.cache.key_parts import KeyPart
from envdoctor.errors import CacheError
from envdoctor.facts.children import run_child

TIMEOUT_SECONDS = 300.0
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
# Runs in the target venv: prints one JSON line after a mark, because importing torch may print anything.
_MARK = "envdoctor-key:"
_SCRIPT = """
import json, sys
import torch
from torch._inductor import codecache, config
from torch._functorch import config as functorch

def plain(value):
    if callable(value):
        return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__name__)}"
    return repr(value)

system = codecache.CacheBase.get_system()
try:
    from triton.runtime.cache import triton_key
    triton = triton_key()
except ImportError:
    triton = ""
values = {f"inductor.{k}": plain(v) for k, v in config.save_config_portable(ignore_private_configs=False).items()}
saved = functorch.save_config_portable(ignore_private_configs=False)
values.update({f"functorch.{k}": plain(v) for k, v in saved.items()})
print(sys.argv[1] + json.dumps({
    "version": torch.__version__, "key": codecache.torch_key().hex(), "triton": triton,
    "gpu": (system.get("device") or {}).get("name") or "", "config": values,
}))
"""


# `-c` puts the current folder in front of Python's own modules, where a launched script has its own folder.
_NOT_THE_FOLDER = "import sys\nif sys.path and sys.path[0] == '': del sys.path[0]\n"


def ask(python: Path, environ: Mapping[str, str], cwd: Path) -> Mapping[str, Any]:
    """Return what the venv's torch says of its key. Raises CacheError when it cannot be asked."""
    answer = run_script(python, _SCRIPT, (), environ, cwd)
    if not isinstance(answer, dict):
        raise CacheError(f"{python}: the venv's torch gave no answer", "omit `--live`")
    return answer


def merged(static: Sequence[KeyPart], answer: Mapping[str, Any]) -> tuple[KeyPart, ...]:
    """Return the static parts with what torch itself said in their place, and its configuration added."""
    told = {"torch.version": answer["version"], "torch.sources": answer["key"], "gpu.name": answer["gpu"]}
    if answer["triton"]:
        told["triton.sources"] = answer["triton"]
    parts = [
        KeyPart(name=part.name, value=told[part.name], means=part.means) if part.name in told else part
        for part in static
    ]
    config = [
        KeyPart(name=f"config.{name}", value=_ADDRESS.sub("", value))
        for name, value in sorted(answer["config"].items())
    ]
    return (*parts, *config)


def run_script(python: Path, script: str, arguments: Sequence[str], environ: Mapping[str, str], cwd: Path) -> object:
    """Run a script with the venv's interpreter and return the JSON value it prints after the mark."""
    try:
        done = run_child(
            [python, "-c", _NOT_THE_FOLDER + script, _MARK, *arguments],
            text=True,
            errors="replace",
            timeout=TIMEOUT_SECONDS,
            env=dict(environ),
            cwd=cwd,
        )
    except OSError as error:
        raise CacheError(f"{python} cannot be run: {error.strerror}", "omit `--live`") from error
    except subprocess.TimeoutExpired as error:
        raise CacheError(f"{python}: no answer within {TIMEOUT_SECONDS:g} s", "omit `--live`") from error
    for line in reversed(done.stdout.splitlines()):
        if line.startswith(_MARK):
            return json.loads(line.removeprefix(_MARK))
    last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
    raise CacheError(
        f"{python}: the venv's torch could not be queried (exit {done.returncode}): {last[-300:]}",
        "`envdoctor check` tells what is wrong with it",
    )
