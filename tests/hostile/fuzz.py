"""`make fuzz`: mutated files for every reader. A traceback, a hang or 300 MB is a failure; `--keep` keeps its input.

Each reader runs in a child of its own, with a limit of its processor time for each input and of its memory. The same
seed gives the same inputs. `corpus/` holds what once failed; it is read first.
"""

# ruff: noqa: T201 - a program that prints
import argparse
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

from envdoctor.errors import EnvdoctorError
from tests.hostile.readers import Subject, subjects

CORPUS = Path(__file__).with_name("corpus")
SECONDS = 5.0
"""Of the processor, for one input."""
MEGABYTES = 300
_TOKENS = (
    b"\0", b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\x80", b"\n", b"\r", b'"', b"'", b"\\", b"[" * 50, b"{}," * 20,
    b"../", b"/", b"\xed\xa0\x80", b"\xe2\x80\xae", b"\x1b[2J", b"-1", b"1e999", b"9" * 40, b"true", b"null", b"= ",
    b"\xef\xbb\xbf", b",", b";", b":", b"%00", b"$(x)", b"a" * 5000, b"nan", b"0x", b"[tool]\n", b"[[a]]\n",
)  # fmt: skip
_EDGES = (0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 0x7FFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF)


def mutated(seed: bytes, chance: random.Random) -> bytes:
    """Return a file with one to five changes: bits, edges of numbers, tokens, pieces left out, doubled or moved."""
    data = bytearray(seed)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 5))):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(9):
            case 0 if data:
                data[at % len(data)] ^= 1 << chance.randrange(8)
            case 1:
                del data[at:]
            case 2:
                del data[at : at + chance.choice((1, 2, 4, 8, 64, 512))]
            case 3:
                data[at:at] = chance.choice(_TOKENS)
            case 4:
                token = chance.choice(_TOKENS)
                data[at : at + len(token)] = token
            case 5:
                size = chance.choice((1, 2, 4, 8))
                edge = chance.choice(_EDGES) & ((1 << 8 * size) - 1)
                data[at : at + size] = edge.to_bytes(size, chance.choice(("little", "big")))
            case 6:
                data[at:at] = data[at : at + chance.choice((4, 32, 256))] * chance.choice((1, 2, 50))
            case 7:
                other = chance.randrange(len(data) + 1)
                data[at : at + 16], data[other : other + 16] = data[other : other + 16], data[at : at + 16]
            case _:
                data[at : at + 8] = bytes(chance.randrange(256) for _ in range(8))
    return bytes(data)


class _TooLongError(BaseException):
    """An input took more than its time."""


def _attempt(subject: Subject, data: bytes) -> str:
    """Return what went wrong with an input; empty for an answer, and for a refusal."""
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        subject.read(data)
    except (EnvdoctorError, OSError):
        return ""
    except _TooLongError:
        return f"more than {SECONDS:g} s"
    except BaseException:  # noqa: BLE001 - that is what is looked for
        return traceback.format_exc(limit=-4)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return ""


def inputs(name: str, subject: Subject, number: int, seed: int) -> Iterator[bytes]:
    """Yield what once failed for this reader, its seed file, and so many mutations of these."""
    kept = [path.read_bytes() for path in sorted(CORPUS.glob(f"{_stem(name)}-*.bin"))]
    yield from (*kept, subject.seed)
    chance = random.Random(f"{seed} {name}")  # noqa: S311 - the same seed, the same inputs
    for _ in range(number):
        yield mutated(chance.choice((*kept, subject.seed)) if kept else subject.seed, chance)


def _stem(name: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in name)


def run(name: str, subject: Subject, number: int, seed: int) -> tuple[int, list[tuple[bytes, str]], int]:
    """Return the inputs read, the failures, and the megabytes that reading took at most."""

    def stop(*_: object) -> None:
        raise _TooLongError

    signal.signal(signal.SIGPROF, stop)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    failures: list[tuple[bytes, str]] = []
    count = 0
    for data in inputs(name, subject, number, seed):
        count += 1
        if (problem := _attempt(subject, data)) and len(failures) < 5:
            failures.append((data, problem))
    took = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
    if took > MEGABYTES:
        failures.append((b"", f"it took {took} MB"))
    return count, failures, took


def in_child(name: str, subject: Subject, number: int, seed: int, keep: Path | None) -> tuple[int, int]:
    """Fuzz one reader in a child; print what it found, and return (inputs, failures)."""
    reader, writer = os.pipe()
    if os.fork():
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            said = pipe.read().split()
        _, status = os.wait()
        return (int(said[0]), int(said[1])) if said and not status else (0, 1)
    started = time.process_time()
    count, failures, took = run(name, subject, number, seed)
    seconds = time.process_time() - started
    print(f"{name:24} {count:7} inputs  {seconds:6.1f} s  {took:4} MB  {len(failures)} failures")
    for data, problem in failures:
        print(f"  {data[:100]!r} ({len(data)} bytes)\n{problem}")
        if keep is not None and data:
            (keep / f"{_stem(name)}-{len(list(keep.glob(f'{_stem(name)}-*')))}.bin").write_bytes(data)
    sys.stdout.flush()
    os.write(writer, f"{count} {len(failures)}".encode())
    os._exit(0)


def names() -> list[str]:
    """Return the names of all readers."""
    with tempfile.TemporaryDirectory() as folder:
        return list(subjects(Path(folder).resolve()))


def main() -> int:
    """Fuzz every reader, or the named ones; 1 where one failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--each", type=int, default=5000, help="mutations for each reader")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="default: another one in each run")
    parser.add_argument("--keep", action="store_true", help="write what failed into corpus/")
    parser.add_argument("reader", nargs="*", help="default: all of them")
    wanted = parser.parse_args()
    print(f"seed {wanted.seed}", flush=True)
    CORPUS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        # What the children read and write of it is each reader's own.
        made = subjects(Path(folder).resolve())
        keep = CORPUS if wanted.keep else None
        found = [in_child(name, made[name], wanted.each, wanted.seed, keep) for name in wanted.reader or made]
    count, bad = (sum(numbers) for numbers in zip(*found, strict=True))
    print(f"{count} inputs over {len(found)} readers, {bad} failures")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
