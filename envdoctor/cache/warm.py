"""Warming a cache with the trainer's own warm-up, and proving that it is warm.

The command runs twice. It prints one JSON object as its last line of output, with torch's own counters in it (anywhere,
one set for each of its processes): fxgraph_cache_miss, fxgraph_cache_hit and so on, as torch._dynamo.utils.counters
names them. The proof is the second run: no counter of a miss or a bypass is above zero, and no file was added.
"""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from envdoctor.cache.layout import Root, files
from envdoctor.errors import CacheError
from envdoctor.facts.children import start_child
from envdoctor.facts.left_running import ending_all
from envdoctor.model.frozen import frozen

DEFAULT_COMMAND = ("{python}", "-m", "trainer.warmup", "--profile", "{profile}")
# A bypass is a graph the cache cannot hold: it is compiled at every start, so it counts as one that was compiled.
_COMPILED = (
    "fxgraph_cache_miss",
    "fxgraph_cache_bypass",
    "autograd_cache_miss",
    "autograd_cache_bypass",
)
_HITS = ("fxgraph_cache_hit",)


@frozen
class WarmupRun:
    """One run of the warm-up."""

    seconds: float
    counters: Mapping[str, int]
    """Counters of torch that are not zero, summed over the command's processes."""
    added: tuple[str, ...]
    """Files that were not there before, as "root/path"."""

    @property
    def compiled(self) -> int:
        """Return how many graphs were not served by the cache."""
        # AOTAutograd looks first and inductor second: a graph that misses both is one graph.
        return max((self.counters.get(name, 0) for name in _COMPILED), default=0)

    @property
    def hits(self) -> int:
        """Return how many graphs the cache served."""
        return sum(self.counters.get(name, 0) for name in _HITS)


@frozen
class Warmed:
    """Both runs."""

    first: WarmupRun
    second: WarmupRun
    was_cold: bool
    """Whether the cache held no graph before the first run: only then is its time that of a cold start."""

    @property
    def compile_seconds(self) -> float:
        """Return what compiling cost: the first run's time beyond the second's."""
        return max(0.0, self.first.seconds - self.second.seconds)

    @property
    def doubts(self) -> tuple[str, ...]:
        """Return why the second run is not proof, one sentence each; empty when it is."""
        found = [
            f"the second run counted {self.second.counters[name]} {name}"
            for name in _COMPILED
            if self.second.counters.get(name)
        ]
        if self.second.added:
            found.append(f"the second run added {len(self.second.added)} files: {', '.join(self.second.added[:3])}")
        if not self.second.hits:
            found.append("the second run counted no fxgraph_cache_hit: it compiled nothing that the cache could serve")
        return tuple(found)


def command(template: Sequence[str], python: Path, profile: str) -> list[str]:
    """Return the command with the interpreter and the profile's name filled in."""
    filled = {"{python}": str(python), "{profile}": profile}
    return [filled.get(word, word) for word in template or DEFAULT_COMMAND]


def warm(
    words: Sequence[str], environ: Mapping[str, str], cwd: Path, roots: Sequence[Root], note: Callable[[str], None]
) -> Iterator[WarmupRun]:
    """Run the command twice and yield each run; what it leaves running is ended, and `note` is told what is waited for.

    Raises CacheError when it fails or says nothing of torch's counters.
    """
    for _ in range(2):
        before = {(file.root, file.path) for file in files(roots)}
        started = time.monotonic()
        printed = _run(words, environ, cwd, note)
        seconds = time.monotonic() - started
        added = sorted({(file.root, file.path) for file in files(roots)} - before)
        yield WarmupRun(
            seconds=seconds,
            counters=_counters(printed, words),
            added=tuple(f"{root}/{path}" for root, path in added),
        )


def _run(words: Sequence[str], environ: Mapping[str, str], cwd: Path, note: Callable[[str], None]) -> str:
    # Its stderr is ours: a warm-up takes minutes and says how far it is. Its stdout is no pipe: that
    # would be read for as long as anything that it leaves running holds the other end.
    with os.fdopen(os.memfd_create("warm-up"), "w+", encoding="utf-8", errors="replace") as output:
        with ending_all(note) as started:
            try:
                process = start_child(words, env={**environ, **started.mark}, cwd=cwd, stdout=output)
            except OSError as error:
                raise CacheError(
                    f"`{words[0]}` cannot be run: {error.strerror}", "set compile.warm_command in the profile"
                ) from error
            process.wait()
        output.seek(0)
        printed = output.read()
    if process.returncode:
        raise CacheError(
            f"the warm-up `{' '.join(words)}` ended with {process.returncode}; the cache is not warm",
            "its own message stands above",
        )
    return printed


def _counters(printed: str, words: Sequence[str]) -> Mapping[str, int]:
    lines = printed.strip().splitlines()
    try:
        document = json.loads(lines[-1])
    except (IndexError, ValueError):
        document = None
    found: dict[str, int] = {}
    for name, value in _numbers(document):
        if name in (*_COMPILED, *_HITS):
            found[name] = found.get(name, 0) + value
    if not found:
        raise CacheError(
            f"the warm-up `{' '.join(words)}` said nothing of torch's counters, so nothing is proven",
            "its last line of output must be a JSON object with torch._dynamo.utils.counters in it",
        )
    return found


def _numbers(value: object) -> Iterator[tuple[str, int]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if isinstance(inner, int) and not isinstance(inner, bool):
                yield name, inner
            else:
                yield from _numbers(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _numbers(inner)
