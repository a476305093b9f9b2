"""A profile and its lock, from wheels that a test made."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.factories.make_wheel import sha256


def make_profile(
    root: Path,
    name: str,
    wheels: Iterable[Path],
    *,
    torch: str = "",
    cuda: str = "",
    python: Iterable[str] = ("3.11", "3.12", "3.13", "3.14"),
    environment: Mapping[str, str] | None = None,
    lines: Iterable[str] = (),
) -> Path:
    """Write profiles/NAME.toml and lockfiles/NAME.txt under `root`; return the profile. `lines` are more TOML."""
    pins = [[*path.name.split("-")[:2], sha256(path)] for path in wheels]
    lock = "".join(
        f"{package.replace('_', '-')}=={version} --hash=sha256:{digest}\n" for package, version, digest in pins
    )
    toml = [
        "schema = 1",
        f'name = "{name}"',
        'summary = "for a test"',
        "[python]",
        f"versions = {json.dumps(list(python))}",
        "[torch]",
        f'version = "{torch}"',
        f'cuda = "{cuda}"',
        "[lock]",
        f'file = "{name}.txt"',
        "[environment.set]",
        *(f"{key} = {json.dumps(value)}" for key, value in (environment or {}).items()),
        *lines,
    ]
    for folder in ("profiles", "lockfiles"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "lockfiles" / f"{name}.txt").write_text(lock)
    path = root / "profiles" / f"{name}.toml"
    path.write_text("\n".join(toml) + "\n")
    return path
