"""Whether a wheel may be installed at all, looked at before it is: by its table of contents, here or on its server."""

from envdoctor.wheels.index import File
from envdoctor.wheels.urls import Access, IndexUnreadableError
from envdoctor.wheels.wheel_file import WheelListing, contents_of


def look_into(file: File, access: Access) -> WheelListing:
    """Return what its table of contents says of a wheel: whether it may be installed, and how large it is unpacked.

    A remote wheel that cannot be looked into before it is fetched (its server sends files only whole, or does not
    answer) has no verdict here: its hash and uv's own unpacking are what then speaks.
    """
    if file.local is not None:
        return contents_of(file.local)
    from envdoctor.wheels.remote_file import NoRangesError, open_remote  # noqa: PLC0415 - only for what is to be fetched

    try:
        with open_remote(file.url, access) as content:
            return contents_of(content)
    except (NoRangesError, IndexUnreadableError, OSError):
        return WheelListing()
