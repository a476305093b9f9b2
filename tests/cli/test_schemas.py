"""Every JSON document of a real command, held to the schema that is shipped for it, without room for unknown keys."""

import json
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest

from envdoctor.report import schemas
from tests.factories.make_incident import Incident, make_incident, sources_of
from tests.factories.make_venv import make_venv, rewrite
from tests.factories.run_envdoctor import Outcome, run_envdoctor
from tests.factories.schemas import closed

# In this order: each finds what the ones before it have left. A test runs those before it that have not run yet, so
# that it works alone and on any worker.
DOCUMENTS = [
    ("check", "check -p small --json"),
    ("check", "check --json"),
    ("check-fix", "check -p small --fix --dry-run --json"),
    ("fingerprint", "fingerprint -p small"),
    ("fingerprint", "fingerprint --deep --json"),
    ("fleet-check", "fleet check --files n1.json n2.json hashed.txt --json"),
    ("why", "why torch --json"),
    ("impact", "impact remove torch --json"),
    ("diff", "diff small .venv --json"),
    ("watch-stack", "watch-stack --json"),
    ("watch-stack", "watch-stack --cron --json"),
    ("watch-stack", "watch-stack --once --json"),
    ("diff", "diff --since 0m --json"),
    ("capture", "capture mine --offline --json"),
    ("fetch", "fetch -p small --wheelhouse wheelhouse --json"),
    ("restore", "restore -p small --dry-run --json"),
    ("restore", "restore -p small --rehearse --json"),
    ("restore", "restore -p small --force --yes --json"),
    ("restore", "restore -p small --yes --json"),
    ("repair", "repair --dry-run --json"),
    ("repair", "repair -p small --json"),
    ("history", "history --json"),
    ("rollback", "rollback --dry-run --json"),
    ("rollback", "rollback --yes --json"),
    ("prune", "prune --keep 0 --dry-run --json"),
    ("prune", "prune --keep 0 --yes --json"),
    ("checks", "checks --json"),
    ("explain", "explain ED201 --json"),
    ("explain-text", "explain --log train.log --json"),
    ("profiles", "profiles --json"),
    ("cache-status", "cache status --json"),
    ("cache-status", "cache status -p small --json"),
    ("cache-list", "cache list --json"),
    ("cache-gc", "cache gc --older-than 0 --json"),
    ("config", "config --json"),
    ("gate-add", "gate add -p small --json"),
    ("gate-write", "gate write guard.py --json"),
    ("profile-new", "profile new made --from hashed.txt --json"),
    ("check", "check --lock hashed.txt --json"),
    ("lock", "lock direct.in --json"),
    ("lock", "lock direct.in -o direct.txt --json"),
    ("bisect", "bisect small edited --json -- python job.py"),
    ("bisect-log", "bisect --log --venv edited --json"),
    ("bisect-undo", "bisect --undo --venv edited --yes --json"),
    ("try-result", "try --with nvidia-cudnn-cu13 --venv edited --test true --json --discard"),
]


# Tested where a cache is filled: tests/cli/test_cache.py.
OF_A_FILLED_CACHE = (
    "cache-save",
    "cache-export",
    "cache-import",
    "cache-gc",
    "cache-undo",
    "cache-restore",
    "cache-warm",
)
OF_A_FLEET = ("fleet-change",)
"""Tested where nodes are reached: tests/launchers/test_fleet_change.py."""


@pytest.fixture(scope="module")
def incident(tmp_path_factory: pytest.TempPathFactory) -> Incident:
    made = make_incident(tmp_path_factory.mktemp("schemas"))
    (made.root / "direct.in").write_text("nvidia-cudnn-cu12\n")
    # The incident's lock as another tool's: torch as it calls itself.
    lock = (made.root / "lockfiles" / "small.txt").read_text()
    (made.root / "hashed.txt").write_text(lock)
    edited = make_venv(made.root / "edited", *made.own)
    rewrite(edited.site_packages / "torch/version.py", "cuda = 'edited'\n")
    (made.root / "train.log").write_text(
        "start\nImportError: libc10.so: cannot open shared object file: No such file\n"
    )
    for name, findings in (("n1", []), ("n2", [{"code": "ED201", "severity": "error", "title": "t", "subject": "s"}])):
        answer = {"host": name, "prefix": "/v", "sheet": {"facts": {"torch": name}}, "findings": findings}
        (made.root / f"{name}.json").write_text(json.dumps(answer))
    (made.root / "job.py").write_text("import sys, torch.version\nsys.exit(torch.version.cuda == 'edited')\n")
    return made


@pytest.fixture(scope="module")
def printed(incident: Incident) -> Callable[[int], Outcome]:
    outcomes: list[Outcome] = []
    # `try` runs uv as the user has it, which does not read pip's settings.
    extra = {**sources_of(incident.root), "UV_FIND_LINKS": str(incident.root / "wheels")}

    def printed(number: int) -> Outcome:
        while len(outcomes) <= number:
            words = DOCUMENTS[len(outcomes)][1].split()
            outcomes.append(run_envdoctor(*words, folder=incident.root, extra=extra))
        return outcomes[number]

    return printed


@pytest.mark.parametrize("number", range(len(DOCUMENTS)), ids=[words for _, words in DOCUMENTS])
def test_a_document_is_as_its_schema_says(printed: Callable[[int], Outcome], number: int) -> None:
    name, outcome = DOCUMENTS[number][0], printed(number)
    assert outcome.code in (0, 1), outcome.err
    document = json.loads(outcome.out)
    jsonschema.validate(document, closed(json.loads(schemas.read(name))))
    assert [path for path, value in _strings(document) if path.endswith(".profile") and not value] == []


def _strings(value: Any, path: str = "") -> list[tuple[str, str]]:
    if isinstance(value, str):
        return [(path, value)]
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, item in inner for found in _strings(item, f"{path}.{key}")]


@pytest.mark.parametrize("name", schemas.names())
def test_every_schema_is_one_and_is_tested(incident: Incident, name: str) -> None:
    schema = json.loads(schemas.read(name))
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$id"] == f"urn:envdoctor:{name}:{schema['properties']['schema_version']['const']}"
    assert name in {tested for tested, _ in DOCUMENTS} | {"error", *OF_A_FILLED_CACHE, *OF_A_FLEET}
    printed = run_envdoctor("schema", name, folder=incident.root)
    assert (printed.code, json.loads(printed.out)) == (0, schema)


def test_the_schemas_are_listed(incident: Incident) -> None:
    listed = run_envdoctor("schema", folder=incident.root)
    assert listed == Outcome(code=0, out="\n".join(schemas.names()) + "\n", err="")


def test_a_document_that_is_not_there(incident: Incident) -> None:
    assert run_envdoctor("schema", "chekc", folder=incident.root) == Outcome(
        code=2,
        out="",
        err=f"error: there is no document `chekc`\n\nhint: one of: {', '.join(schemas.names())}\n",
    )


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("check nosuch --json", 2),
        ("check --nosuch --json", 2),
        ("chekc --json", 2),
        ("cache restore absent --format json", 2),
        ("fetch -p small --format=json -p", 2),
        ("restore -q --json -p small --venv wheels", 2),
    ],
)
def test_an_error_is_a_document_too(incident: Incident, words: str, code: int) -> None:
    outcome = run_envdoctor(*words.split(), folder=incident.root, extra=sources_of(incident.root))
    document = json.loads(outcome.out)
    jsonschema.validate(document, closed(json.loads(schemas.read("error"))))
    found = document["error"]
    hint = f"\n\nhint: {found['hint']}" if found["hint"] else ""
    assert (outcome.code, outcome.err) == (code, f"error: {found['message']}{hint}\n")
    assert found["exit_code"] == code


def test_what_a_command_is_given_asks_for_no_document(incident: Incident) -> None:
    assert run_envdoctor("run", "-p", "nosuch", "python", "--json", folder=incident.root).out == ""
    assert run_envdoctor("check", "nosuch", folder=incident.root).out == ""
