"""The law itself: obey what a check prints, check again, and say where that did not end well."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.closure.commands import Done
from tests.closure.scene import PYTHON, Scene, failing
from tests.closure.stock import NEEDS

ROUNDS = 8
_BROUGHT_BY = {"triton": "torch"}
"""Module -> what alone requires it: where that is gone too, nothing that is installed misses it."""
_OF_FILES = ("ED2", "ED3", "ED4")
Finding = Mapping[str, Any]


@dataclass(slots=True, kw_only=True)
class Outcome:
    """How one state ended."""

    state: str
    failures: list[str] = field(default_factory=list)
    """"kind: what happened", each one thing that is forbidden."""
    trace: list[str] = field(default_factory=list)
    """What was found and obeyed, round by round."""
    made: bool = True
    """False where its two faults exclude each other."""


def judge(scene: Scene, state: str, about: frozenset[str], *, repairs: bool = True) -> Outcome:
    """Obey every command of the state in `scene` until none is left; `about` are words its findings may name.

    `repairs`: try `envdoctor repair` on it too, which costs as much as all the rest.
    """
    outcome = Outcome(state=state)
    scene.keep()
    shell = dict(scene.environment)
    mine = scene.mine()
    before = scene.imports()
    first = _findings(scene, outcome)
    if first is None:
        return outcome
    _seen(outcome, first, before)
    last = _obey(scene, outcome, first, before, about)
    if last is not None:
        _ended(scene, outcome, first, last)
    if not mine.items() <= scene.mine().items():
        outcome.failures.append("harm: what is somebody's own was changed or deleted")
    if not outcome.failures:
        scene.back()
        scene.environment = shell
        _agree(scene, outcome, first, repairs=repairs)
        if not mine.items() <= scene.mine().items():
            outcome.failures.append("harm: repair changed or deleted what is somebody's own")
    return outcome


def _findings(scene: Scene, outcome: Outcome) -> list[Finding] | None:
    done = scene.check()
    if done.code not in (0, 1, 3) or "Traceback" in done.err:
        outcome.failures.append(f"check: it ended with {done.code}: {(done.err or done.out).strip()[-600:]}")
        return None
    report = json.loads(done.out)
    found: list[Finding] = report["findings"]
    if report["could_not_tell"] and done.code == 0:
        outcome.trace.append(f"could not tell: {[item['code'] for item in report['could_not_tell']]}")
    outcome.trace += [f"  {_shown(item)}" for item in found if item["caused_by"] is None]
    return found


def _shown(item: Finding) -> str:
    commands = " && ".join(item["remediation"]["commands"])
    return f"{item['severity']} {item['code']} [{item['subject']}] {item['title']} $ {commands}"


def _seen(outcome: Outcome, found: list[Finding], imports: Mapping[str, str]) -> None:
    """Require that what the interpreter refuses is among the findings."""
    refused = failing(imports)
    for name, said in refused.items():
        # Whoever imports torch raises what torch raises, or dies with it.
        same = said == refused.get("torch", "") or ("status" in said and "status" in refused.get("torch", ""))
        if not _covered("torch" if same else name, said, found):
            outcome.failures.append(f"not seen: importing {name} raises {said!r}")


def _covered(name: str, said: str, found: list[Finding]) -> bool:
    """Tell whether a finding names the module, what it asks for, or the torch that it cannot do without."""
    harmful = [item for item in found if item["severity"] != "note"]
    # An interpreter that does not see the venv imports nothing of it.
    if any(item["code"] in ("ED101", "ED105") and item["severity"] == "error" for item in found):
        return True
    if name == PYTHON:
        return any(item["severity"] == "error" for item in harmful)
    if any(NEEDS.get(name, _BROUGHT_BY.get(name)) in _subjects(item) for item in harmful):
        return True
    quoted = {word.partition(".")[0] for word in re.findall(r"'([\w.]+)'", said)}
    words = {name.partition(".")[0], *quoted, *re.findall(r"lib[\w+-]+\.so[.\d]*", said)}
    told = json.dumps(harmful)
    return any(word in told or word.replace("_", "-") in told for word in words)


def _subjects(item: Finding) -> list[str]:
    """Return the names of a finding that is about several."""
    names: list[str] = item["subject"].split(", ")
    return names


def _primary(found: list[Finding]) -> list[Finding]:
    return [item for item in found if item["caused_by"] is None]


def _obey(
    scene: Scene, outcome: Outcome, found: list[Finding], imports: Mapping[str, str], about: frozenset[str]
) -> list[Finding] | None:
    """Obey the first command there is, and again, until none is left; return what is found then, None on a failure."""
    obeyed: list[tuple[str, str, str]] = []
    told = {_key(item) for item in found}
    conflicts = scene.conflicts()
    for _ in range(ROUNDS):
        item = next((item for item in _primary(found) if item["remediation"]["commands"]), None)
        if item is None:
            return found
        if _key(item) in obeyed:
            kind = "same cause" if obeyed[-1] == _key(item) else "cycle"
            outcome.failures.append(f"{kind}: {_shown(item)}")
            return None
        obeyed.append(_key(item))
        again = _findings(scene, outcome) if _run(scene, outcome, item) else None
        if again is None:
            return None
        now = scene.imports()
        wrong = [
            *_harm(imports, now, found),
            *_made(again, told, about),
            *_forbidden(scene.conflicts() - conflicts, again),
        ]
        if wrong:
            outcome.failures += [f"{kind}: after {_shown(item)}: {what}" for kind, what in wrong]
            return None
        told |= {_key(other) for other in again}
        found, imports = again, now
    outcome.failures.append(f"endless: after {ROUNDS} rounds {[_key(item) for item in _primary(found)]} are left")
    return None


def _harm(before: Mapping[str, str], now: Mapping[str, str], found: list[Finding]) -> Iterator[tuple[str, str]]:
    """Yield what worked and does not any more; an empty torch "works" until it is whole, and then misses a library."""
    for name, said in failing(now).items() if PYTHON not in before else ():
        if not before.get(name) and not _covered(name, said, found):
            yield "harm", f"{name} worked, and now raises {said}"


def _made(found: list[Finding], told: set[tuple[str, str, str]], about: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Yield the errors that are new and about nothing that had happened."""
    for item in _primary(found):
        known = _key(item) in told or not about or any(word in json.dumps(item) for word in about)
        if item["severity"] == "error" and not known:
            yield "new error", _shown(item)


def _forbidden(conflicts: frozenset[str], found: list[Finding]) -> Iterator[tuple[str, str]]:
    """Yield what `uv pip check` complains of since the command, and no finding names."""
    for line in sorted(conflicts):
        if not _named(line, found):
            yield "metadata", line


def _named(conflict: str, found: list[Finding]) -> bool:
    names = re.findall(r"`([\w.-]+)[^`]*`", conflict)
    # Of one that is broken the file that cannot be read is named too.
    names = names[:1] if "broken or incomplete" in conflict else names
    told = json.dumps(found)
    return all(name in told for name in names)


def _key(item: Finding) -> tuple[str, str, str]:
    # What was an error and is a note is another thing: that both must stay was said.
    return item["code"], item["subject"], item["severity"]


def _run(scene: Scene, outcome: Outcome, item: Finding) -> bool:
    for command in item["remediation"]["commands"]:
        outcome.trace.append(f"$ {command}")
        done = scene.shell(command)
        if done.code:
            outcome.failures.append(f"command fails: {command}: {_last_words(done)}")
            return False
    return True


def _last_words(done: Done) -> str:
    return f"{done.code}: {(done.err or done.out).strip()[-500:]}"


def _ended(scene: Scene, outcome: Outcome, first: list[Finding], last: list[Finding]) -> None:
    """Require that what is left is told, with a word about what helps."""
    given_up = " ".join(line for line in outcome.trace if line.startswith("$ ") and " pip uninstall " in line)
    refused = failing(scene.imports())
    for name, said in refused.items():
        gone = re.search(rf" {re.escape(name.partition('.')[0].replace('_', '-'))}\b", given_up)
        # Whoever imports torch raises what torch raises.
        same = said == refused.get("torch", "")
        if not gone and not _covered("torch" if same else name, said, last):
            outcome.failures.append(f"not healed: importing {name} still raises {said!r}, and nothing is found")
    for item in _primary(last):
        if item["severity"] != "note" and not item["remediation"]["text"]:
            outcome.failures.append(f"no word: {_shown(item)}")


def _agree(scene: Scene, outcome: Outcome, first: list[Finding], *, repairs: bool) -> None:
    """Require that `repair`, `why` and `impact` say of the same state what `check` says."""
    errors = [item for item in _primary(first) if item["severity"] == "error"]
    _why(scene, outcome, first)
    commands = [command for item in errors for command in item["remediation"]["commands"]]
    removed = [word for command in commands if " pip uninstall " in command for word in command.split()[6:]]
    if removed:
        done = scene.cli("impact", "remove", *removed, "--venv", scene.venv.prefix, "--json")
        if done.code not in (0, 1):
            outcome.failures.append(f"impact: remove {removed}: {_last_words(done)}")
    # Where neither a file nor metadata is at fault there is nothing that repair could say.
    if not repairs or not scene.venv.python.exists() or not any(item["code"].startswith(_OF_FILES) for item in first):
        return
    healing = [item for item in errors if _only_reinstalls(item)]
    done = scene.cli("repair", "--venv", scene.venv.prefix, "--yes")
    outcome.trace.append(f"repair: {_last_words(done)}")
    if "Traceback" in done.err:
        outcome.failures.append(f"repair: a traceback: {done.err[-600:]}")
    elif "an error that the venv does not have" in done.err:
        outcome.failures.append(f"repair: makes a fault itself: {_last_words(done)}")
    elif "is a link out of the venv" in done.err:
        outcome.trace.append("what is behind a link out of the venv is not repaired on a copy, and it says so")
    elif healing and len(healing) == len(errors) and done.code:
        outcome.failures.append(f"repair: refuses what a reinstall heals: {_last_words(done)}")
    elif healing and not done.code:
        again = _findings(scene, outcome) or []
        left = [item for item in _primary(again) if _key(item) in {_key(other) for other in healing}]
        if left:
            outcome.failures.append(f"repair: says it is done, and check says {_shown(left[0])}")


def _only_reinstalls(item: Finding) -> bool:
    """Tell what `repair` can do too; an editable install is built from its source, which only its owner may run."""
    commands = item["remediation"]["commands"]
    return bool(commands) and all(
        (" --reinstall-package " in command and " --editable " not in command) or command.startswith("envdoctor repair")
        for command in commands
    )


def _why(scene: Scene, outcome: Outcome, found: list[Finding]) -> None:
    """Ask `why` of the first few files and sonames that the findings name; where a file is damaged, of its owner."""
    for item in _primary(found)[:2]:
        text = "\n".join((item["title"], *item["evidence"]))
        names = re.findall(
            r"lib[\w+-]+\.so\.[\d.]*\d|(?<![\w/.-])[\w-]+/[\w./-]+\.(?:py\b|so[.\w]*\d|so\b(?!\.))", text
        )
        for name in list(dict.fromkeys(names))[:2]:
            done = scene.cli("why", name, "--venv", scene.venv.prefix, "--json")
            if done.code:
                outcome.failures.append(f"why: {name}, which check names, has no answer: {_last_words(done)}")
            elif item["code"] in ("ED201", "ED202") and not any(
                f'"name": "{it}"' in done.out for it in _subjects(item)
            ):
                outcome.failures.append(f"why: {name} does not name {item['subject']}: {done.out[-600:]}")
