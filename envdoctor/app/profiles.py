"""The known-good stacks that can be named."""

from envdoctor.app.result import Result
from envdoctor.documents import profile_store
from envdoctor.facts.host import Host


def profiles(host: Host) -> Result:
    """Return every profile that can be named in the current folder. Raises ProfileError."""
    found = [profile_store.find(name, host.cwd) for name in profile_store.names(host.cwd)]
    return Result(command="profiles", data=found)
