"""What the RECORDs of a venv promise, file by file, and whether the disk keeps it."""

import base64
import csv
import hashlib
import io
import os
from pathlib import Path
from typing import NamedTuple

from packaging.utils import canonicalize_name

from envdoctor.model.frozen import frozen
from envdoctor.probes.venv.installed_files import BYTECODE

# Files a RECORD lists without a hash (packaging.python.org, "Recording installed projects").
_UNHASHED = ("RECORD", "RECORD.jws", "RECORD.p7s")


@frozen
class Fault:
    """One thing that is not as the lock and the RECORDs say."""

    owner: str
    path: str
    problem: str

    def __str__(self) -> str:
        """Return "nvidia-nccl-cu12: nvidia/nccl/lib/libnccl.so.2: changed"."""
        return ": ".join(part for part in (self.owner, self.path, self.problem) if part)


class Claim(NamedTuple):
    """One row of a RECORD: the file, and the sha256 (urlsafe base64, unpadded; empty where none is recorded)."""

    owner: str
    path: Path
    shown: str
    digest: str
    size: int


def claims_of(info: Path, site: Path, venv: Path, claims: list[Claim], faults: list[Fault]) -> None:
    """Add what one dist-info folder claims to `claims`, and what is wrong with its RECORD to `faults`."""
    owner = canonicalize_name(info.name.removesuffix(".dist-info").rpartition("-")[0])
    try:
        text = (info / "RECORD").read_text(encoding="utf-8")
        rows = [row for row in csv.reader(io.StringIO(text)) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        faults.append(Fault(owner=owner, path=f"{info.name}/RECORD", problem=f"cannot be read ({error})"))
        return
    for row in rows:
        fault = _claim(row, owner, info, site, venv, claims)
        if fault is not None:
            faults.append(fault)


def _claim(row: list[str], owner: str, info: Path, site: Path, venv: Path, claims: list[Claim]) -> Fault | None:
    path = row[0]
    full = Path(os.path.normpath(site / path))
    if not full.is_relative_to(venv):
        return Fault(owner=owner, path=path, problem="leads out of the venv")
    algorithm, _, digest = row[1].partition("=") if len(row) == 3 else ("", "", "")
    if not algorithm:
        claims.append(Claim(owner, full, path, "", 0))
        harmless = full.parent == info and full.name in _UNHASHED
        return (
            None
            if harmless or path.endswith(BYTECODE)
            else Fault(owner=owner, path=path, problem="has no hash in RECORD")
        )
    if algorithm != "sha256":
        return Fault(owner=owner, path=path, problem=f"is recorded with {algorithm}, not sha256")
    claims.append(Claim(owner, full, path, digest, int(row[2]) if row[2].isdecimal() else 0))
    return None


def problem_of(claim: Claim) -> str:
    """Return what is wrong with the file, or an empty string. hashlib lets go of the interpreter while it hashes."""
    try:
        with claim.path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").digest()
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    text = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    return "" if text == claim.digest else "does not have the recorded hash"
