"""Regular expressions that are compiled when they are first used: a check imports 110 and uses a third of them."""

import re
from typing import Any, AnyStr, cast


def pattern(text: AnyStr, flags: int = 0) -> "re.Pattern[AnyStr]":
    """Return what `re.compile` does, compiled when one of its methods is first used."""
    return cast("re.Pattern[AnyStr]", _Uncompiled(text, flags))


class _Uncompiled:
    def __init__(self, text: str | bytes, flags: int) -> None:
        self._text, self._flags = text, flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, found)
        return found
