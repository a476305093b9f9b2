"""Bytecode as Python's import system would use it: which files, and whether each can be unmarshalled.

A .pyc with the flags 0b01 (PEP 552, "unchecked hash-based") is never compared with its .py: `compileall
--invalidation-mode unchecked-hash` writes them, as some packagers do. One with a time or a checked hash is compared at
each import. Where Python would not use one (another magic number, another time or size of the source, a header that is
cut), it compiles the source again, and nothing is wrong. One that it uses must be whole: it is unmarshalled in a child
process with limits, since damaged bytes can crash that; no code in it is run.
"""

import _imp
import importlib.util
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from envdoctor.facts.children import run_child
from envdoctor.facts.context import Reading
from envdoctor.facts.regular_file import read_prefix, read_regular
from envdoctor.model.frozen import field, mutable, replace
from envdoctor.probes.venv import digest_memo
from envdoctor.probes.venv.bytecode import BYTECODE_HEADER, MAGIC, BytecodeState, DamagedBytecode, StaleBytecode
from envdoctor.probes.venv.digest_memo import DigestMemo, key_of
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.probes.venv.records import index

_UNCHECKED, _CHECKED = 0b01, 0b11
_MAXIMUM_SOURCE = 16 * 1024 * 1024
_LONGEST, _MEMORY = 64 * 1024 * 1024, 4 * 1024 * 1024 * 1024
_BATCH, _BATCH_SECONDS, _MOST_ENDS = 2000, 60, 20
_UNREAD = "?"
_OPTIMIZED = {"": "", ".opt-1": "-O", ".opt-2": "-OO"}
"""Part of the name -> Python's option that makes it use such files."""
_WHOLE = b"1"
_CHILD = f"""
import marshal, os, resource, sys
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
hard = resource.getrlimit(resource.RLIMIT_AS)[1]
resource.setrlimit(resource.RLIMIT_AS, ({_MEMORY} if hard < 0 else min({_MEMORY}, hard), hard))
code = type((lambda: None).__code__)
os.write(1, b"\\n")
for path in sys.stdin.buffer.read().split(b"\\0"):
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            file.seek({BYTECODE_HEADER})
            data = file.read({_LONGEST} + 1)
        if len(data) > {_LONGEST}:
            told = "?it is larger than {_LONGEST} bytes"
        else:
            told = "" if isinstance(marshal.loads(data), code) else "it holds no code"
    except OSError as error:
        told = "?" + str(error.strerror)
    except Exception as error:
        told = f"{{type(error).__name__}}: {{error}}".removesuffix(": ")
    os.write(1, told.encode("ascii", "backslashreplace").replace(b"\\n", b" ") + b"\\n")
"""
"""Writes a line when it has started and one for each path: empty for a whole file. Where it ends tells the file that
ended it."""
_CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL)


class _Used(NamedTuple):
    owner: str
    path: str
    key: bytes
    sourceless: bool = False
    option: str = ""


@mutable
class _Found:
    """What Python would use."""

    known: dict[bytes, bytes]
    used: list[_Used] = field(default_factory=list)
    kept: list[bytes] = field(default_factory=list)
    """Keys of files that an earlier run has unmarshalled."""
    stale: list[StaleBytecode] = field(default_factory=list)


def bytecode_state(reading: Reading, sourceless: Sequence[tuple[str, str]]) -> BytecodeState:
    """Look at the bytecode of every module that a RECORD of the environment lists, for its own interpreter.

    sourceless: (owner, absolute path) of files that are in the place of their source.
    """
    python = reading.fact(Interpreter)
    # Two metadata folders of one distribution list the same module.
    candidates = list(dict.fromkeys(_candidates(reading, python)))
    if python.minor not in MAGIC:
        return BytecodeState(unread=len(candidates), reason=f"the format of Python {python.minor} is not known")
    magic = MAGIC[python.minor]
    memo = digest_memo.load(reading.target.prefix, reading.host, "bytecode")
    memo.notes.clear()  # the digests' notes say the same
    algorithm = f"marshal-{magic}"
    found = _Found(known={} if reading.options.everything else memo.known.get(algorithm, {}))
    for candidate in candidates:
        _judge(candidate, magic, found)
    for owner, path in sourceless:
        try:
            key = key_of(os.stat(path))  # noqa: PTH116 - a string path
        except OSError:
            continue  # it went meanwhile
        if key in found.known:
            found.kept.append(key)
        else:
            found.used.append(_Used(owner, path, key, sourceless=True))
    state = BytecodeState(whole=len(found.kept), stale=tuple(found.stale))
    if not found.used:
        return state
    if magic != int.from_bytes(importlib.util.MAGIC_NUMBER[:2], "little"):
        own = f"{sys.version_info.major}.{sys.version_info.minor}"
        reason = f"it is Python {python.minor}'s, and envdoctor runs on {own}"
        return replace(state, unread=len(found.used), reason=reason)
    return _with_contents(state, found, memo, algorithm)


def _with_contents(state: BytecodeState, found: _Found, memo: DigestMemo, algorithm: str) -> BytecodeState:
    started = time.time_ns()
    told = list(zip(found.used, _unmarshalled([item.path for item in found.used]), strict=True))
    whole = [item.key for item, words in told if not words]
    unread = [words for _, words in told if words.startswith(_UNREAD)]
    keys = [*found.kept, *(key for key in whole if key and digest_memo.settled(key, started))]
    digest_memo.save(memo, {algorithm: dict.fromkeys(keys, _WHOLE)})
    return replace(
        state,
        whole=len(found.kept) + len(whole),
        unread=len(unread),
        reason=unread[0].removeprefix(_UNREAD) if unread else "",
        damaged=tuple(
            DamagedBytecode(
                owner=item.owner, bytecode=item.path, reason=words, sourceless=item.sourceless, option=item.option
            )
            for item, words in told
            if words and not words.startswith(_UNREAD)
        ),
    )


class _Candidate(NamedTuple):
    owner: str
    source: str
    compiled: str
    option: str


def _candidates(reading: Reading, python: Interpreter) -> Iterator[_Candidate]:
    """Yield each file in which Python looks for bytecode of a listed module."""
    optimize = reading.host.environ.get("PYTHONOPTIMIZE", "")
    level = optimize if optimize.isdecimal() or not optimize else "1"
    options = _OPTIMIZED | {f".opt-{level.lstrip('0')}": ""}
    tag = f".cpython-{python.minor.replace('.', '')}{'t' if python.free_threaded else ''}"
    prefix = "" if reading.options.fresh else reading.host.environ.get("PYTHONPYCACHEPREFIX", "")
    items, records = reading.fact(Distributions).items, index(reading)
    folders: dict[str, tuple[str, frozenset[str]]] = {}
    for at, rows in records.rows.items():
        if items[at].origin != "site-packages":
            continue
        if reading.options.fresh and not any(row[0].endswith(".pyc") for row in rows):
            continue  # nothing has run there that could have written any
        for path, _, _ in rows:
            if not path.endswith(".py"):
                continue
            folder, _, name = f"{items[at].site}/{path}".rpartition("/")
            if folder not in folders:
                beside = f"{reading.host.cwd / prefix}{folder}" if prefix else f"{folder}/__pycache__"
                folders[folder] = (beside, _names(beside))
            cache, names = folders[folder]
            stem = name.removesuffix(".py")
            for optimized, option in options.items() if names else ():
                if (compiled := f"{stem}{tag}{optimized}.pyc") in names:
                    yield _Candidate(items[at].name, f"{folder}/{name}", f"{cache}/{compiled}", option)


def _names(folder: str) -> frozenset[str]:
    try:
        return frozenset(os.listdir(folder))  # noqa: PTH208 - names only, and fast
    except OSError:
        return frozenset()


def _judge(candidate: _Candidate, magic: int, found: _Found) -> None:
    owner, source, compiled, option = candidate
    try:
        status = os.stat(compiled)  # noqa: PTH116 - a string path
        if not stat.S_ISREG(status.st_mode):
            return
        key = key_of(status)
        if key in found.known:
            found.kept.append(key)
            return
        header = read_prefix(compiled, BYTECODE_HEADER)
        use = _use(source, header, magic)
    except OSError:
        return
    if use == "stale":
        found.stale.append(StaleBytecode(owner=owner, source=source, bytecode=compiled, option=option))
    elif use:
        # What is known of one that is compared by hash depends on its source.
        found.used.append(_Used(owner, compiled, key if use == "by time" else b"", option=option))


def _use(source: str, header: bytes, magic: int) -> Literal["by time", "by hash", "stale", ""]:
    """Tell, as importlib's SourceLoader.get_code does, whether Python would use bytecode with that header."""
    if len(header) < BYTECODE_HEADER or header[:4] != magic.to_bytes(2, "little") + b"\r\n":
        return ""
    flags = int.from_bytes(header[4:8], "little")
    if flags == 0:
        of = os.stat(source)  # noqa: PTH116 - a string path
        return "by time" if header[8:] == _word(int(of.st_mtime)) + _word(of.st_size) else ""
    if flags not in (_UNCHECKED, _CHECKED):
        return ""
    # importlib.util.source_hash with the magic number of the Python that wrote it.
    hashed = _imp.source_hash(int.from_bytes(header[:4], "little"), read_regular(source, _MAXIMUM_SOURCE))
    if hashed == header[8:]:
        return "by hash"
    return "stale" if flags == _UNCHECKED else ""


def _word(number: int) -> bytes:
    return (number & 0xFFFFFFFF).to_bytes(4, "little")


def _unmarshalled(paths: Sequence[str]) -> list[str]:
    """Return for each file what is wrong with it: "" for nothing, "?" and the reason for one that was not read."""
    told: list[str] = []
    ended = 0
    while len(told) < len(paths):
        if ended == _MOST_ENDS:
            left = f"{_UNREAD}the child that reads them ended {ended} times"
            return [*told, *[left] * (len(paths) - len(told))]
        batch = paths[len(told) : len(told) + _BATCH]
        given = b"\0".join(map(os.fsencode, batch))
        try:
            done = run_child([sys.executable, "-I", "-S", "-c", _CHILD], given, timeout=_BATCH_SECONDS, cwd="/")
            lines, ending = done.stdout, _end(done.returncode)
        except subprocess.TimeoutExpired as late:
            lines, ending = late.stdout or b"", f"{_UNREAD}it was not read within {_BATCH_SECONDS} s"
        started, *answers = lines.decode("ascii").split("\n")[:-1] or [None]
        told += answers
        if len(answers) < len(batch):
            told.append(ending if started is not None else f"{_UNREAD}the child that reads it did not start")
            ended += 1
    return told


def _end(code: int) -> str:
    """Say how the child ended at a file: what ended it may be the file, or somebody's signal."""
    if -code in _CRASHES:
        return f"Python ends when it reads it ({signal.Signals(-code).name})"
    return f"{_UNREAD}the child that reads it ended with {code}"
