"""Whether a wheel may be installed at all, looked at before it is: by its table of contents, here or on its server."""

from envdoctor.stack.index import Access, File, IndexUnreadableError
from envdoctor.stack.offers import path_of
from envdoctor.stack.remote_file import NoRangesError, open_remote
from envdoctor.stack.wheel_file import WheelError, open_wheel


def unsafe(file: File, access: Access) -> tuple[str, ...]:
    """Return a sentence for each entry that would leave the venv or is a link.

    A wheel that cannot be looked into before it is fetched (its server sends files only whole, or does not answer, or
    the file is no zip) has no verdict here: its hash and uv's own unpacking are what then speaks.
    """
    local = path_of(file)
    try:
        with local.open("rb") if local is not None else open_remote(file.url, access) as content:
            return open_wheel(content).faults()
    except (WheelError, NoRangesError, IndexUnreadableError, OSError):
        return ()
