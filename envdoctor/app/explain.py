"""`explain`: a check by its code or name, or the checks that find what an error text complains of."""

import os
import re
from pathlib import Path
from typing import BinaryIO

from envdoctor.analysis.symptoms import SUBJECTS, containing, described, recognize
from envdoctor.app.checks import all_rules, find_rule
from envdoctor.app.result import Result
from envdoctor.errors import UsageError
from envdoctor.facts.regular_file import open_regular
from envdoctor.model.symptom import FoundSymptom, Recognized

LOG_END = 16 * 1024 * 1024
"""How many bytes at the end of a log are read."""
_CHUNK = 1024 * 1024
_HINT = "`envdoctor check` examines the environment itself"
_MOST_SHOWN = 60


def explain(wanted: str) -> Result:
    """Return the check of that code or name, or what is known of an error text. Raises UsageError."""
    asked = wanted.strip()
    names = _names()
    if asked.lower() not in {key.lower() for pair in names.items() for key in pair} and (
        found := recognize(asked, names) or (containing(asked, names) if len(asked.split()) > 1 else ())
    ):
        return Result(command="explain text", data=Recognized(source="", left_out=0, found=found))
    if len(asked.split()) > 1:
        raise UsageError(f"no known error text in `{_shortened(asked)}`", _HINT)
    return Result(command="explain", data=find_rule(wanted))


def explain_log(log: str, stdin: BinaryIO) -> Result:
    """Return the known error texts in the end of a log; "-" is standard input. Raises UsageError."""
    try:
        if log == "-":
            data, left_out = _end_of_stream(stdin)
        else:
            with open_regular(Path(log)) as file:
                left_out = max(0, os.fstat(file.fileno()).st_size - LOG_END)
                file.seek(left_out)
                data = file.read(LOG_END)
    except OSError as error:
        raise UsageError(f"cannot read the log {log}: {error.strerror}", "name a file, or `-` for stdin") from None
    text = data.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    found = recognize(re.sub("\x1b\\[[0-9;]*m", "", text), _names())
    if not found:
        where = "standard input" if log == "-" else log
        part = f"the last {LOG_END // 1024 // 1024} MiB of " if left_out else ""
        raise UsageError(f"no known error text in {part}{where}", _HINT)
    return Result(command="explain text", data=Recognized(source=log, left_out=left_out, found=found))


def all_symptoms() -> dict[str, tuple[FoundSymptom, ...]]:
    """Return subject -> what is known of each error text."""
    names = _names()
    return {subject: tuple(described(symptom, names) for symptom in symptoms) for subject, symptoms in SUBJECTS.items()}


def _names() -> dict[str, str]:
    return {rule.code: rule.name for rule in all_rules()}


def _end_of_stream(stream: BinaryIO) -> tuple[bytes, int]:
    kept, seen = b"", 0
    while chunk := stream.read(_CHUNK):
        seen += len(chunk)
        kept += chunk
        if len(kept) > 2 * LOG_END:
            kept = kept[-LOG_END:]
    kept = kept[-LOG_END:]
    return kept, seen - len(kept)


def _shortened(text: str) -> str:
    line = "".join(letter if letter.isprintable() else " " for letter in text)
    return line if len(line) <= _MOST_SHOWN else f"{line[:_MOST_SHOWN]}…"
