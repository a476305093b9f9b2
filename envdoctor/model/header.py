"""What a report says about its subject, beside the verdict."""

from envdoctor.model.frozen import frozen


@frozen
class Header:
    """One examined environment, in words. Empty means there is none; `torch` then says which nothing it is."""

    target: str
    """The environment's prefix, as an absolute path."""
    tool_version: str
    found_by: str = ""
    """Why this environment was taken, where it was not named as it is: "from $VIRTUAL_ENV"."""
    taken_at: str = ""
    """UTC, ISO 8601: when the facts were read."""
    profile: str = ""
    profile_path: str = ""
    """Where it lies, when its name led to a folder above the current one; empty for a shipped profile."""
    lock: str = ""
    """A lock that was compared without a profile."""
    torch: str = ""
    """The build as torch/version.py states it ("2.11.0+cu128"); empty when there is no readable torch."""
    torch_note: str = ""
    """Why `torch` is empty ("not installed", "could not be read: ...")."""
