"""What an interrupted command says last: what the venv is now, from the disk and not from where it thinks it was."""

from collections.abc import Iterator
from contextlib import contextmanager

from envdoctor.errors import EnvdoctorError, Interrupted, RestoreError
from envdoctor.facts.stops import raise_lost
from envdoctor.swap.durable import inode
from envdoctor.swap.shown import AnotherVenvError
from envdoctor.swap.store import BackupStore


class Account:
    """The venv of a store before a command, and after it."""

    def __init__(self, store: BackupStore, new: str) -> None:
        """Keep the store; `new` is what its venv holds after the command ("the restored stack")."""
        self._store, self._new = store, new
        self.begin()

    def begin(self) -> None:
        """Take the venv as it is now for the one before."""
        self._before = inode(self._store.witness)

    @property
    def state(self) -> str:
        """Return what became of the venv, as a clause without its full stop."""
        target = self._store.target
        now = inode(self._store.witness)
        if now is None and self._before:
            return f"{target} is gone, and this command did not remove it"
        if now != self._before:
            return f"{target} holds {self._new}"
        return f"{target} is as it was" if self._before else f"{target} was not created"

    def after(self, error: EnvdoctorError) -> str:
        """Return the same after an error. A venv that somebody else put there holds nothing of this command."""
        return "nothing was swapped" if isinstance(error, AnotherVenvError) else self.state

    @contextmanager
    def told_with_errors(self) -> Iterator[None]:
        """Raise a RestoreError of the block with what the venv is now."""
        try:
            yield
        except RestoreError as error:
            kind = AnotherVenvError if isinstance(error, AnotherVenvError) else RestoreError
            raise kind(f"{error.message}\n{self.after(error)}", error.hint) from error


@contextmanager
def accounted(store: BackupStore, new: str) -> Iterator[Account]:
    """Raise Interrupted, which says what the venv is now, for an interrupt in the block."""
    account = Account(store, new)
    try:
        yield account
        raise_lost()  # one that came shortly before is told of here, where the venv's state is known
    except KeyboardInterrupt as error:
        raise Interrupted(f"interrupted\n{account.state}") from error
