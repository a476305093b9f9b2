"""One workspace a command: each file is read once, every spelling of a venv means the same, commands can be pasted."""

import shlex
from collections import Counter
from pathlib import Path

import pytest

from tests.factories.audited import audited
from tests.factories.make_incident import Incident, make_incident, sources_of
from tests.factories.run_envdoctor import Outcome, run_envdoctor

READ_ONCE = ("METADATA", "RECORD", "profiles/small.toml", "lockfiles/small.txt")
# Commands that name the venv by `--venv`; the ones in the second table also take it as an argument.
BY_OPTION = {
    "check": ["check", "-q"],
    "fingerprint": ["fingerprint"],
    "restore": ["restore", "-p", "small", "--dry-run"],
    "repair": ["repair", "--dry-run"],
    "history": ["history"],
    "prune": ["prune", "--keep", "1", "--dry-run"],
    "cache status": ["cache", "status"],
    "cache gc": ["cache", "gc", "--damaged", "--dry-run"],
    "why": ["why", "torch"],
    "impact remove": ["impact", "remove", "torch"],
    "run": ["run", "-p", "small"],
    "diff": ["diff", "small"],
    "rollback": ["rollback", "--dry-run"],
    "cache save": ["cache", "save", "mine"],
}
BY_ARGUMENT = ("check", "fingerprint", "restore", "repair", "history", "prune", "cache status", "cache gc")


@pytest.fixture(scope="module")
def incident(tmp_path_factory: pytest.TempPathFactory) -> Incident:
    made = make_incident(tmp_path_factory.mktemp("workspace"))
    (made.root / "link").symlink_to(".venv")
    return made


@pytest.mark.parametrize(
    "words",
    [
        "check",
        "check -p small",
        "check -p ./profiles/small.toml",
        "fingerprint -p small",
        "diff small .venv",
        "diff small",
        "why torch",
        "impact remove torch",
        "cache status -p small",
        "cache gc -p small --damaged --dry-run",
        "restore -p small --dry-run",
        "repair --dry-run",
        "repair -p small --dry-run",
        "history",
        "prune --keep 1 --dry-run",
        "fetch -p small --wheelhouse wheelhouse",
        "run -p small -- true",
        "run -p small --restore -- true",
        "profiles",
    ],
)
def test_no_document_and_no_metadata_is_opened_twice(incident: Incident, words: str) -> None:
    if words.startswith("repair"):  # it hashes every file, METADATA too, that an earlier reading has not
        audited("check", "--deep", folder=incident.root, extra=sources_of(incident.root))
    seen = audited(*words.split(), folder=incident.root, extra=sources_of(incident.root))
    opened = Counter(str(arguments[0]) for arguments in seen.of("open"))
    ours = {path: times for path, times in opened.items() if path.startswith(f"{incident.root}/")}
    assert [path for path, times in ours.items() if times > 1 and path.endswith(READ_ONCE)] == []
    if "small" in words:
        assert ours[f"{incident.root}/profiles/small.toml"] == 1


def plain(outcome: Outcome) -> tuple[int, str, str]:
    """Return an outcome with the ways to name one venv, which commands show as they were typed, made one."""
    texts = [text.replace("[TMP]/link", "[TMP]/.venv") for text in (outcome.out, outcome.err)]
    # A machine that is busy makes hashing long enough to be told.
    texts[1] = texts[1].replace("Verify   every file by its sha256\n", "")
    return (outcome.code, *texts)  # type: ignore[return-value]


@pytest.mark.parametrize("spelling", [".venv/bin/python", "./.venv/", "link", "link/bin/python3"])
@pytest.mark.parametrize("name", BY_OPTION)
def test_a_venv_is_a_folder_an_interpreter_or_a_link(incident: Incident, name: str, spelling: str) -> None:
    after = ["--", "sh", "-c", "echo $VIRTUAL_ENV"] if name == "run" else []
    told = [
        run_envdoctor(*BY_OPTION[name], "--venv", venv, *after, folder=incident.root, extra=sources_of(incident.root))
        for venv in (".venv", spelling)
    ]
    if name == "diff":  # it shows each side as it was named
        told[1] = Outcome(code=told[1].code, out=told[1].out.replace(f"  {spelling}  (", "  .venv  ("), err=told[1].err)
    if name == "fingerprint":
        told = [Outcome(code=one.code, out="\n".join(one.out.splitlines()[:8]), err=one.err) for one in told]
    assert plain(told[1]) == plain(told[0])


@pytest.mark.parametrize("name", BY_ARGUMENT)
def test_both_spellings_of_the_venv(incident: Incident, name: str) -> None:
    words, where = BY_OPTION[name], {"folder": incident.root, "extra": sources_of(incident.root)}
    option = plain(run_envdoctor(*words, "--venv", ".venv", **where))  # type: ignore[arg-type]
    assert plain(run_envdoctor(*words, ".venv", **where)) == option  # type: ignore[arg-type]
    assert plain(run_envdoctor(*words, ".venv", "--venv", ".venv", **where)) == option  # type: ignore[arg-type]
    assert run_envdoctor(*words, ".venv", "--venv", "link", **where) == Outcome(  # type: ignore[arg-type]
        code=2, out="", err="error: two venvs are given: `.venv` and `--venv link`\n\nhint: give only one of them\n"
    )


def test_history_of_what_is_not_a_venv(incident: Incident) -> None:
    assert run_envdoctor("history", "wheels", folder=incident.root) == Outcome(
        code=2,
        out="",
        err="error: there is no venv at [TMP]/wheels, and none was kept of it\n\n"
        "hint: name a venv folder or its interpreter: `envdoctor history path/to/.venv`\n",
    )


def test_a_profile_by_its_path_can_be_run_on(incident: Incident, tmp_path: Path) -> None:
    profile, venv = incident.root / "profiles/small.toml", incident.venv.prefix
    outcome = run_envdoctor("run", "-p", profile, "--venv", venv, "--", "echo", "started", folder=tmp_path)
    assert outcome == Outcome(code=0, out="started\n", err="")


def test_remedies_name_the_profile_as_it_was_asked_for(tmp_path: Path) -> None:
    incident = make_incident(tmp_path)
    (tmp_path / "profiles").rename(tmp_path / "my stacks")
    incident.lose()
    asked = "./my stacks/small.toml"
    checked = run_envdoctor("check", "-p", asked, folder=tmp_path, extra=sources_of(tmp_path))
    lines = [line.strip() for line in checked.out.splitlines() if line.strip().startswith("envdoctor restore")]
    assert lines == ["envdoctor restore --profile './my stacks/small.toml' --venv [TMP]/.venv"]
    command = shlex.split(lines[0].replace("[TMP]", str(tmp_path)))
    done = run_envdoctor(*command[1:], "--yes", folder=tmp_path, extra=sources_of(tmp_path))
    assert done.code == 0, done.err
    again = run_envdoctor("check", "-q", "-p", asked, folder=tmp_path, extra=sources_of(tmp_path))
    unseen = "not checked: the GPU driver (none here), the compile cache (cold)"
    assert again == Outcome(code=0, out=f"Nothing found; {unseen}.   exit 0\n", err="")


def test_a_stack_is_compared_with_the_target_venv(incident: Incident) -> None:
    both = run_envdoctor("diff", "small", ".venv", folder=incident.root)
    alone = run_envdoctor("diff", "small", "--venv", ".venv", folder=incident.root)
    assert alone == both
    assert run_envdoctor("diff", "small", ".venv", "--venv", ".venv", folder=incident.root) == Outcome(
        code=2, out="", err="error: two stacks and `--venv` are given\n\nhint: give only two of the three\n"
    )
