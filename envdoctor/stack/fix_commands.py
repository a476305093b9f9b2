"""Which printed commands can be carried out on a copy of the venv, and what they are there."""

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import PurePosixPath

from envdoctor.errors import EnvdoctorError
from envdoctor.model.pattern import pattern
from envdoctor.standards.need import parse_need

_PUNCTUATION = "&|;<>()"
# What a shell would replace; printed commands quote what they mean as it stands.
_EXPANDED = frozenset("$`*?~[{\n")
# Options of printed lines whose value is no requirement; an editable's name is behind `--reinstall-package`.
_WITH_PLACE = frozenset(
    """
    --python --index --default-index --find-links --index-strategy --allow-insecure-host --torch-backend --link-mode
    --config-setting --editable
    """.split()  # noqa: SIM905
)
_QUOTED = pattern(r"'[^']*'")


class NotOnACopyError(EnvdoctorError):
    """A command does something beyond the venv's own files; the message says what."""


def on_a_copy(command: str, prefix: str, copy: str) -> tuple[tuple[str, ...], ...]:
    """Return the words of each part of a command (`a && b`), with the copy's paths in place of the venv's.

    Taken are `uv pip install` and `uv pip uninstall` into the venv, and `rm` and `mv` of paths inside it: in a copy of
    hard links these replace, and change no file that the venv has too. Raises NotOnACopyError for anything else.
    """
    return tuple(_moved(part, prefix, copy) for part in _parts(command))


def _parts(command: str) -> Iterator[list[str]]:
    if _EXPANDED & set(_QUOTED.sub("", command)):
        raise NotOnACopyError("a shell has to expand it")
    reader = shlex.shlex(command, posix=True, punctuation_chars=_PUNCTUATION)
    reader.whitespace_split = True
    try:
        words = list(reader)
    except ValueError as error:
        raise NotOnACopyError(str(error)) from error
    part: list[str] = []
    for word in words:
        if word == "&&":
            yield part
            part = []
        elif set(word) <= set(_PUNCTUATION):
            raise NotOnACopyError(f"a shell has to read its `{word}`")
        else:
            part.append(word)
    yield part


def _moved(words: list[str], prefix: str, copy: str) -> tuple[str, ...]:
    head = words[0] if words else ""
    if head == "uv":
        _refuse_other_uv(words, prefix)
    elif head in ("rm", "mv"):
        for word in (word for word in words[1:] if not word.startswith("-")):
            if not _inside(word, prefix):
                raise NotOnACopyError(f"{word} is outside of the environment")
    elif head in ("export", "unset"):
        raise NotOnACopyError("it is about your shell")
    elif head == "chmod" or words[:2] == ["sudo", "chmod"]:
        # A copy is hard links: a mode is the file's, and so the old venv's too.
        raise NotOnACopyError("it changes permissions, which a copy shares with the venv")
    else:
        raise NotOnACopyError("only `uv pip`, `rm` and `mv` are carried out on a copy")
    return tuple(copy + word.removeprefix(prefix) if _inside(word, prefix) else word for word in words)


def _refuse_other_uv(words: list[str], prefix: str) -> None:
    if words[1:3] not in (["pip", "install"], ["pip", "uninstall"]):
        raise NotOnACopyError("it is about more than the packages of the environment")
    at = words.index("--python") + 1 if "--python" in words else len(words)
    if at >= len(words) or not _inside(words[at], prefix):
        raise NotOnACopyError("it is about another environment")


def touched(words: Sequence[str], installed: Mapping[str, str]) -> set[str]:
    """Return which of the installed distributions (name -> version) such a line of uv may replace or remove.

    Without `--no-deps` an install may replace all but those that it asks for as they are; so may one of a bare path.
    """
    if "--dry-run" in words:
        return set()
    asked = [word for before, word in pairwise(words[2:]) if not word.startswith("-") and before not in _WITH_PLACE]
    needs = [parse_need(word) for word in asked]
    if words[2] == "uninstall" or ("--no-deps" in words and None not in needs):
        return {need.name for need in needs if need} & installed.keys()
    return {name for name, version in installed.items() if f"{name}==={version}" not in words}


def _inside(word: str, prefix: str) -> bool:
    if not word.startswith(f"{prefix}/") or ".." in PurePosixPath(word).parts:
        return False
    home, folder = os.path.realpath(prefix), os.path.realpath(word.rpartition("/")[0])
    return folder == home or folder.startswith(f"{home}/")
