"""Long texts that no pattern may take the square of: each is read in a child with a limit of processor time."""

from collections.abc import Callable
from pathlib import Path

import pytest

from envdoctor.catalog.variables import may_be_secret
from envdoctor.documents.lines import key_lines, pinned_lines
from envdoctor.foreign_locks.local_files import local_files
from envdoctor.probes.venv import companions, enforced, launchers
from envdoctor.standards.lock import logical_lines
from envdoctor.standards.redaction import redacted, secret_place
from envdoctor.wheels import uv_errors
from tests.factories.forked import forked
from tests.factories.make_facts import distribution

LENGTH = 240_000
"""At its square one of them took minutes."""


def _in_file(name: str, read: Callable[[Path], object]) -> Callable[[Path, str], object]:
    def written(folder: Path, text: str) -> object:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return read(path)

    return written


READERS: dict[str, Callable[[Path, str], object]] = {
    "a failed run of uv": lambda _, text: uv_errors.explain(text, 1),
    "a lock": lambda _, text: logical_lines(text),
    "lines of a lock": lambda _, text: (pinned_lines(text), key_lines(text)),
    "files of a lock": lambda folder, text: list(local_files(text, folder, {})),
    "a variable": lambda _, text: may_be_secret("ANY", text),
    "the redactor": lambda _, text: (redacted(text), secret_place(f"https://mirror.example/{text}")),
    "bin/activate": _in_file("bin/activate", lambda path: launchers._activates(path.parent.parent)),
    "transformers' table": _in_file("dependency_versions_table.py", companions._windows),
    "transformers' check": _in_file(
        "transformers/dependency_versions_check.py",
        lambda path: enforced.enforced([distribution("transformers", site=str(path.parent.parent))]),
    ),
}
REPEATED = {
    "line ends": ("", "\n"),
    "spaces": ("name", " "),
    "colons": ("", ":"),
    "paths": ("", " /:"),
    "letters": ("No solution found Failed to build `x`\n", "a"),
    "dots": ("No solution found Failed to build `x`\n", "A."),
    "lists": ("", "pkgs_to_check_at_runtime = [\n"),
}


@pytest.mark.parametrize("repeated", REPEATED)
@pytest.mark.parametrize("reader", READERS)
def test_a_long_text_takes_a_time_that_grows_with_it(tmp_path: Path, reader: str, repeated: str) -> None:
    first, again = REPEATED[repeated]
    text = first + again * (LENGTH // len(again))
    forked(lambda: bool(READERS[reader](tmp_path, text)), seconds=20)
