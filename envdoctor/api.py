"""The Python interface: the same functions that the command line calls, without a terminal (docs/api.md).

Nothing of an examined environment is run or imported, nothing is changed, and nothing is printed: what a command would
say beside its result goes to the logger `envdoctor`.
"""

import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from envdoctor.app import check as checking
from envdoctor.app import diff as comparing
from envdoctor.app import explore as exploring
from envdoctor.app.result import Result, ShowProgress
from envdoctor.compare.difference import Comparison
from envdoctor.doctor.workspace import Workspace
from envdoctor.errors import EnvdoctorError, UsageError
from envdoctor.model.events import Listener
from envdoctor.model.frozen import field_names
from envdoctor.model.verdict import Verdict
from envdoctor.model.why import Answer
from envdoctor.report.formats.legal import escaped
from envdoctor.report.rendering import as_format, as_text
from envdoctor.report.style import Style, on_terminal
from envdoctor.standards.redaction import redacted, secrets_of

__all__ = ["Answer", "Comparison", "EnvdoctorError", "Verdict", "check", "diff", "why"]
_LOG = logging.getLogger("envdoctor")
_Named = str | PathLike[str]
_WIDTH = 100
"""Columns of a report as text, where nobody says how wide it may be."""


class CheckedVerdict(Verdict):
    """A verdict that a notebook shows as a page, and everything else as the report of the command line."""

    _result: Result

    @classmethod
    def of(cls, result: Result) -> "CheckedVerdict":
        """Return the verdict of a check's result."""
        verdict = result.data.verdict
        made = cls(**{name: getattr(verdict, name) for name in field_names(Verdict)})
        object.__setattr__(made, "_result", result)
        return made

    def __eq__(self, other: object) -> bool:
        """Compare what was found, however it would be shown."""
        if not isinstance(other, Verdict):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in field_names(Verdict))

    __hash__ = Verdict.__hash__

    def __str__(self) -> str:
        """Return the report as text."""
        return _clean(as_text(self._result, Style(width=_WIDTH))).rstrip("\n")

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: FBT001 - IPython's protocol
        """Print the report in IPython's own terminal."""
        printer.text("…" if cycle else str(self))

    def _repr_html_(self) -> str:
        """Return the page, in a frame of its own: its style must not meet the notebook's, and it runs no script."""
        page = escaped(as_format(self._result, "html", _clean))
        style = "width: 100%; height: 32rem; border: 1px solid #888; resize: vertical"
        return f'<iframe title="envdoctor check" sandbox="" style="{style}" srcdoc="{page}"></iframe>'


def _clean(text: str) -> str:
    """Return a text without secrets and control characters, as the command line writes it."""
    return redacted(on_terminal(text), secrets_of(os.environ))


def check(
    path: _Named = "",
    profile: _Named | None = None,
    *,
    lock: _Named | None = None,
    deep: bool = False,
    require: Iterable[str] = (),
) -> Verdict:
    """Examine an environment and return what the checks found.

    path: a venv, its interpreter or a project with a `.venv`; empty for the default of the command line ($VIRTUAL_ENV,
    $CONDA_PREFIX, the nearest `.venv`). profile: a name or the path of a profile. lock: a lock of any tool, compared in
    place of a profile. deep: hash every installed file. require: requirements that must be met ("torch>=2.8").

    Raises EnvdoctorError: TargetError for what is no environment, ProfileError, LockError, UsageError. Each has
    `message`, `hint` and `exit_code`.
    """
    wishes = checking.CheckOptions(deep=deep, lock=fspath(lock) if lock else "", required=tuple(require))
    result = checking.check(_workspace(path, profile), wishes, _Silent())
    return CheckedVerdict.of(result)


def why(name: str, path: _Named = "") -> Answer:
    """Say where a library (`libcudnn.so.9`), a module, a path or a distribution of an environment comes from.

    Raises EnvdoctorError as `check` does, and UsageError for a name that nothing there has.
    """
    answer: Answer = exploring.why(_workspace(path), name).data
    return answer


def diff(a: _Named, b: _Named = "") -> Comparison:
    """Compare two stacks, each a venv, a fingerprint's file, a profile or a backup (`VENV@N`); `b` as `check`'s path.

    Raises EnvdoctorError as `check` does.
    """
    comparison: Comparison = comparing.diff(_workspace(""), fspath(a), fspath(b)).data
    return comparison


def _workspace(path: _Named, profile: _Named | None = None) -> Workspace:
    named = "" if profile is None else fspath(profile)
    # A Path is a path: `Path("small.toml")` is not looked up as a name.
    return Workspace.open(fspath(path), str(Path.cwd() / named) if named and isinstance(profile, Path) else named)


class _Silent:
    """Nobody watches: notes and steps are logged, questions cannot be asked."""

    def show(self, result: Result) -> None:
        _LOG.info("%s", result.command)

    def agreed(self, question: str) -> bool:
        raise UsageError(f"nobody can answer: {question}", "run the command")

    def needs_answer(self, hint: str) -> None:
        raise UsageError("nobody can answer a question", hint)

    def note(self, text: str) -> None:
        _LOG.info("%s", text)

    @contextmanager
    def listening(self, *, plain: bool = False) -> Iterator[Listener]:
        del plain
        yield lambda event: _LOG.debug("%s", event.text)

    def waiting(self, text: str) -> AbstractContextManager[None]:
        _LOG.info("%s", text)
        return nullcontext()

    def stage(self, text: str) -> AbstractContextManager[None]:
        _LOG.info("%s", text)
        return nullcontext()

    def hashing(self) -> AbstractContextManager[ShowProgress | None]:
        return nullcontext()
