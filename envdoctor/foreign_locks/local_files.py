"""What a file of requirements names on this machine, and uv would open: wheels, folders, further files.

The forms are those that uv and pip read (pip's "Requirements File Format"): `name @ file:///PATH`, also without spaces,
a path alone, `-e PATH`, `-f PATH`, and `-r FILE` or `-c FILE`, which name further requirements.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from urllib.parse import unquote, urlsplit

from envdoctor.facts.regular_file import read_text

_MAXIMUM = 64 * 1024 * 1024
_MOST_FILES = 200
_LONGEST, _MOST_SIGNS = 3 * 4096, 64
"""Characters of a path, each of them percent-encoded, and places in a word where one may begin."""
_FURTHER = re.compile(r"(?:-r|-c|--requirements?|--constraints?)(?:\s*=\s*|\s+|(?<=-[rc]))(.+)")
_VARIABLE = re.compile(r"\$\{([A-Z0-9_]+)\}")
_ENDS = re.compile(r"\s(?:#|;|--hash)")
_PARTS = re.compile(r"[\s=@;,'\"\[\]#]+")
_FILES = (".whl", ".zip", ".gz", ".tgz", ".bz2", ".xz", ".tar", ".zst", ".txt", ".in")


def local_files(text: str, folder: Path, environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield the paths that may be meant, also such as are not there; each once.

    text: of a file in `folder`. A further file is yielded before it is read; what is not a regular file is not read.
    """
    told = {Path(os.devnull)}  # `-c /dev/null`: nothing is in it, and nobody waits there
    waiting = [(text, folder)]
    read = 0
    while waiting:
        text, beside = waiting.pop()
        for line in text.splitlines():
            if line.lstrip().startswith("#") or ("==" in line and "/" not in line):
                continue
            named = _expanded(line, environ, folder)
            # uv takes some relative to the folder that it runs in, and some relative to the file.
            for word in _candidates(named):
                for path in dict.fromkeys((beside / word, folder / word)):
                    if path not in told:
                        told.add(path)
                        yield path
            match = _FURTHER.match(named.strip())
            for place in dict.fromkeys((beside, folder)) if match else ():
                further = place / _as_path(_ENDS.split(match[1])[0].strip("'\" ")) if match else place
                if further not in told:
                    yield further
                if read < _MOST_FILES:
                    read += 1
                    with suppress(OSError, ValueError):
                        waiting.append((read_text(further, _MAXIMUM), further.parent))


def _expanded(line: str, environ: Mapping[str, str], folder: Path) -> str:
    known = {"PROJECT_ROOT": str(folder), **environ}
    return _VARIABLE.sub(lambda match: known.get(match[1], match[0]), line)


def _candidates(line: str) -> Iterator[str]:
    """Yield what may be a path: words, what follows a sign of the syntax in them, and the line up to its end."""
    body = _ENDS.split(line.strip())[0].rstrip()
    words = [body, body.partition(" ")[2].strip(), body.rpartition("@")[2].strip()]
    for word in body.split():
        signs = list(islice(_PARTS.finditer(word[:_LONGEST]), _MOST_SIGNS))
        words += [word, *(word[sign.end() :] for sign in signs), *(word[: sign.start()] for sign in signs)]
    for word in dict.fromkeys(word for word in words if len(word) <= _LONGEST):
        path = _as_path(word)
        if path and ("/" in path or path.lower().endswith(_FILES)):
            yield path
            # A marker, extras or a fragment after it.
            yield from filter(None, (_PARTS.split(path)[0],))


def _as_path(word: str) -> str:
    if not word.startswith("file:"):
        return unquote(word) if "%" in word else word
    with suppress(ValueError):
        return unquote(urlsplit(word).path)
    return ""
