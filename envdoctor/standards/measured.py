"""A number in what a command prints: the pattern of `--measure`, and how numbers are written there."""

import contextlib
import re

from envdoctor.errors import UsageError
from envdoctor.model.wording import counted

_SCALES = {"k": 1e3, "m": 1e6}


def compiled(pattern: str) -> re.Pattern[str]:
    """Return the user's pattern. Raises UsageError for one without a group, or that is none."""
    try:
        made = re.compile(pattern)
    except re.error as error:
        raise UsageError(
            f"--measure {pattern}: {error}", "give a regular expression: `--measure 'tok/s=([0-9.]+)'`"
        ) from error
    if made.groups != 1:
        raise UsageError(
            f"--measure {pattern} has {counted(made.groups, 'group')}, not one",
            "put the number into one pair of parentheses: `--measure 'tok/s=([0-9.]+)'`",
        )
    return made


def number(text: str) -> float | None:
    """Return `17,300`, `17_300`, `1.7e4` or `21.5k` as a number; None for what is none."""
    plain = text.strip().replace(",", "").replace("_", "")
    scale = _SCALES.get(plain[-1:].lower())
    with contextlib.suppress(ValueError):
        return float(plain[:-1]) * scale if scale else float(plain)
    return None
