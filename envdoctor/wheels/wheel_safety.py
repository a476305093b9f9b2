"""Whether a wheel may be installed at all, looked at before it is: by its table of contents, here or on its server."""

from envdoctor.wheels.index import File
from envdoctor.wheels.urls import Access, IndexUnreadableError
from envdoctor.wheels.wheel_file import unsafe_entry


def unsafe(file: File, access: Access) -> str:
    """Return what is wrong with the first entry that would leave the venv or is not a plain file; empty when none is.

    A remote wheel that cannot be looked into before it is fetched (its server sends files only whole, or does not
    answer) has no verdict here: its hash and uv's own unpacking are what then speaks.
    """
    if file.local is not None:
        return unsafe_entry(file.local)
    from envdoctor.wheels.remote_file import NoRangesError, open_remote  # noqa: PLC0415 - only for what is to be fetched

    try:
        with open_remote(file.url, access) as content:
            return unsafe_entry(content)
    except (NoRangesError, IndexUnreadableError, OSError):
        return ""
