"""One digest for what a stack is: equal for two environments exactly when the same code would run in them."""

import hashlib
import json

from envdoctor.model.codec import encode
from envdoctor.model.frozen import frozen

SCHEME = 1
"""Goes into the digest; raised when what it covers changes."""


@frozen
class Member:
    """One distribution."""

    name: str
    version: str
    content: str
    """Digest of its RECORD without what its place and its installer add; empty when it has no RECORD."""
    editable: bool = False


@frozen
class Identity:
    """What a stack is. Nothing here tells where it lies, who made it or when."""

    python: str
    """"3.12", or "3.13t" for a build without the GIL."""
    machine: str
    torch: str
    """The build as torch/version.py states it; empty without torch."""
    torch_commit: str
    members: tuple[Member, ...]
    """Sorted by name."""
    providers: tuple[tuple[str, str, str], ...]
    """(soname, distribution, version) of every library that `import torch` would take from a distribution, sorted."""
    deviations: tuple[str, ...] = ()
    """What is not as the RECORDs say: missing and resized files, whose bytes are on contested paths, code at start-up
    that no distribution owns. Sorted; empty in a healthy environment."""


def digest(identity: Identity) -> str:
    """Return "sha256:" and 64 hex digits."""
    text = json.dumps({"scheme": SCHEME, **encode(identity)}, sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
