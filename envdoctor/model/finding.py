"""One thing a check found."""

from typing import Literal

from envdoctor.model.frozen import field, frozen

Severity = Literal["error", "warning", "note"]
Confidence = Literal["high", "medium", "low"]

SEVERITY_ORDER: dict[Severity, int] = {"error": 0, "warning": 1, "note": 2}


BY_HAND = "; or, by hand: "
"""Between what a remedy's commands do and how one finding alone is fixed in the venv itself."""

_KINDS = ("missing:", "changed:", "not-a-file:", "bytecode:", "locked:", "published:")
"""How tokens begin that say what is wrong with a file. No other finding is linked by them: those have `file:`."""


@frozen
class Remediation:
    """What fixes a finding."""

    text: str
    commands: tuple[str, ...] = ()
    """Shell commands that can be pasted as they stand, in order."""
    safe: bool = False
    """True when the commands change nothing that was not shown first and can be undone."""
    by_hand: tuple[str, ...] = ()
    """Shell commands that do the same in the venv itself, in order: while they run, the venv is broken."""


@frozen
class Finding:
    """One thing a check found, with its evidence and what fixes it.

    `causes` and `symptom_of` hold tokens ("soname:libcudnn.so.9", "file:nvidia/cudnn/lib/libcudnn.so.9",
    "dist:torch"): a finding whose `symptom_of` meets another's `causes` is that one's consequence and hangs under it.
    """

    code: str
    name: str
    severity: Severity
    confidence: Confidence
    title: str
    subject: str
    evidence: tuple[str, ...]
    remediation: Remediation
    causes: tuple[str, ...] = ()
    symptom_of: tuple[str, ...] = ()
    explains: tuple[str, ...] = field(default=())
    """Codes of the findings that hang under this one; filled in by the verdict."""

    @property
    def extent(self) -> frozenset[str]:
        """The tokens that say how far it goes: one of the same code and subject with more of them is worse.

        What is named by an absolute path has another one on the next machine, and is left out. A file of which it says
        what is wrong counts with that: one that was changed and is missing now is worse.
        """
        told = frozenset(token for token in (*self.causes, *self.symptom_of) if ":/" not in token)
        return told - {f"file:{token.partition(':')[2]}" for token in told if token.startswith(_KINDS)}

    @property
    def files(self) -> frozenset[str]:
        """Those of them that are files."""
        return frozenset(token for token in self.extent if token.startswith(("file:", *_KINDS)))
