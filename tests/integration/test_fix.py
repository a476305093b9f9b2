"""`check --fix` on real venvs: one plan, each step on a copy, and everything undone by the command that it prints."""

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import jsonschema
import pytest

from envdoctor.errors import RestoreError
from envdoctor.facts.host import Host
from envdoctor.report import schemas
from envdoctor.stack.fix_copy import carry_out
from envdoctor.swap.shown import ShownVenv
from envdoctor.swap.store import BackupStore
from tests.factories.make_incident import CUDNN, Incident, make_incident
from tests.factories.make_scene import state
from tests.factories.make_venv import install, rewrite
from tests.factories.make_wheel import make_wheel
from tests.factories.run_envdoctor import Outcome, run_envdoctor
from tests.factories.schemas import closed


@pytest.fixture
def incident(tmp_path: Path) -> Incident:
    return make_incident(tmp_path)


def run(incident: Incident, *words: str, **variables: str) -> Outcome:
    wheels = str(incident.root / "wheels")
    reach = {
        "PIP_FIND_LINKS": wheels,
        "PIP_NO_INDEX": "1",
        "PIP_CONFIG_FILE": os.devnull,
        "UV_FIND_LINKS": wheels,
        "UV_NO_INDEX": "1",
        "UV_CACHE_DIR": str(incident.root / "cache"),
    }
    return run_envdoctor(*words, folder=incident.root, extra=reach | variables)


def library(incident: Incident) -> bytes:
    path = incident.venv.site_packages / CUDNN
    return path.read_bytes() if path.exists() else b""


def test_commands_on_a_copy_and_the_way_back(incident: Incident) -> None:
    incident.lose()
    before = state(incident.venv.prefix)
    planned = run(incident, "check", "--fix", "--dry-run")
    assert state(incident.venv.prefix) == before
    python = "[TMP]/.venv/bin/python"
    assert planned == Outcome(
        code=1,
        out=(
            "envdoctor check --fix  [TMP]/.venv\n\n"
            "  1. on a copy that is swapped in, for ED201 (nvidia-cudnn-cu12)\n"
            f"       uv pip install --python {python} --no-index --no-deps --reinstall-package nvidia-cudnn-cu12 "
            "nvidia-cudnn-cu12==9.19.0.56\n\n"
            "1 step; the first that fails ends it, and `envdoctor rollback` undoes all of them\n"
        ),
        err="",
    )
    done = run(incident, "check", "--fix", "-y", "-q")
    assert (done.code, library(incident)) == (0, b"twelve " * 10)
    undo = done.out.rpartition("undone by: ")[2].strip()
    assert undo == "envdoctor rollback 1 --venv [TMP]/.venv"
    words = shlex.split(undo.replace("[TMP]", str(incident.root)))[1:]
    assert run(incident, *words, "-y").code == 0
    assert library(incident) == b""


def _index(folder: Path, wheel: Path) -> str:
    """Make an index with one wheel of one distribution; return its address."""
    page = folder / "nvidia-cudnn-cu12/index.html"
    page.parent.mkdir(parents=True)
    page.write_text(f'<a href="{wheel.as_uri()}">{wheel.name}</a>\n')
    return folder.as_uri()


def test_an_index_that_has_only_another_version_is_passed_over(incident: Incident) -> None:
    (wheel,) = (incident.root / "wheels").glob("nvidia_cudnn_cu12-9.19.0.56-*.whl")
    other = make_wheel(incident.root / "other", "nvidia-cudnn-cu12", "9.1", files={CUDNN: b"old"})
    incident.lose()
    shutil.rmtree(incident.root / "cache", ignore_errors=True)
    reach = {
        "PIP_INDEX_URL": _index(incident.root / "first", wheel),
        "PIP_EXTRA_INDEX_URL": _index(incident.root / "second", other),
        "PIP_CONFIG_FILE": os.devnull,
        "UV_CACHE_DIR": str(incident.root / "new-cache"),
    }
    done = run_envdoctor("check", "--fix", "-y", "-q", folder=incident.root, extra=reach)
    assert (done.code, library(incident)) == (0, b"twelve " * 10), done.err


def test_a_profile_is_restored_in_one_step_for_all_causes(incident: Incident) -> None:
    incident.lose()
    (incident.venv.site_packages / "torch/version.py").unlink()
    document = json.loads(run(incident, "check", "-p", "small", "--fix", "--dry-run", "--json").out)
    jsonschema.validate(document, closed(json.loads(schemas.read("check-fix"))))
    assert [(step["kind"], [cause["code"] for cause in step["causes"]]) for step in document["steps"]] == [
        ("restore", ["ED202", "ED201", "ED404"])
    ]
    assert document["steps"][0]["plan"]["status"] == "planned"
    done = run(incident, "check", "-p", "small", "--fix", "-y", "--json")
    document = json.loads(done.out)
    jsonschema.validate(document, closed(json.loads(schemas.read("check-fix"))))
    assert (done.code, document["status"], document["check"]["summary"]["errors"]) == (0, "fixed", 0)
    assert library(incident) == b"twelve " * 10


def test_an_error_that_was_hidden_is_told_with_the_step_that_shows_it(incident: Incident) -> None:
    wheel = make_wheel(incident.root / "wheels", "asker", "1", requires=("absent",))
    install(incident.venv, wheel, cache=incident.root / "cache")
    rewrite(incident.venv.dist_info("asker") / "METADATA", "")
    done = run(incident, "check", "--fix", "-y")
    told = [line for line in done.err.splitlines() if line.startswith("could not be seen before: ")]
    assert told == ["could not be seen before: ED406 absent is not installed; asker 1 requires absent (absent)"], done
    assert "everything that was done is undone by: envdoctor rollback 1 --venv [TMP]/.venv\n" in done.out


def test_nothing_behind_a_link_out_of_the_venv_is_deleted(incident: Incident) -> None:
    wheels = incident.root / "wheels"
    one, two = (make_wheel(wheels, "thing", str(at), files={"thing/__init__.py": f"v = {at}\n"}) for at in (1, 2))
    asker = make_wheel(wheels, "asker", "1", files={"asker.py": ""}, requires=("thing<2",))
    install(incident.venv, two, asker, cache=incident.root / "cache")
    package, disk = incident.venv.site_packages / "thing", incident.root / "disk"
    package.rename(disk)
    package.symlink_to(disk)
    before, venv = state(disk), state(incident.venv.prefix)
    store = BackupStore.of(incident.venv.prefix)
    command = f"uv pip install --python {incident.venv.python} --no-deps {one}"
    with pytest.raises(RestoreError) as caught:
        carry_out(store, [command], Host.current(), (None, None), lambda _: None, ShownVenv.of(store))
    assert caught.value.message == (
        f"{package} is a link out of the venv, to {disk}: a change of a copy would change what is behind it for this "
        f"venv too"
    )
    assert (state(disk), state(incident.venv.prefix)) == (before, venv)
    done = run(incident, "check", "--fix", "-y", "--fail-on", "warning")
    assert (done.code, state(disk)) == (0, before), done
    assert ((package / "__init__.py").read_text(), package.is_symlink()) == ("v = 1\n", False)


def _start(incident: Incident, name: str, interpreter: str) -> None:
    path = incident.venv.prefix / "bin" / name
    rewrite(path, "\n".join([f"#!{interpreter}", *path.read_text().split("\n")[1:]]))
    path.chmod(0o755)


def test_each_interpreter_that_is_gone_is_a_step_of_its_own(incident: Incident) -> None:
    for name in ("one", "two"):
        files, scripts = {f"{name}.py": "def main(): print('hello')\n"}, {name: f"{name}:main"}
        wheel = make_wheel(incident.root / "wheels", name, "1", files=files, scripts=scripts)
        install(incident.venv, wheel, cache=incident.root / "cache")
        _start(incident, name, f"/gone/{name}/bin/python")
    done = run(incident, "check", "--fix", "-y")
    assert done.code == 0, done
    assert "\nstep 2 of 2: uv pip install " in done.err
    for name in ("one", "two"):
        told = subprocess.run([incident.venv.prefix / "bin" / name], capture_output=True, text=True, check=True)
        assert told.stdout == "hello\n"


def test_a_step_whose_cause_another_fixed_is_said_to_be_left_out(incident: Incident) -> None:
    for name, scripts in (("one", {"one": "one:main", "two": "one:main"}), ("other", {"o": "other:main"})):
        files = {f"{name}.py": "def main(): print('hello')\n"}
        wheel = make_wheel(incident.root / "wheels", name, "1", files=files, scripts=scripts)
        install(incident.venv, wheel, cache=incident.root / "cache")
    for script, folder in (("o", "a"), ("two", "a"), ("one", "b")):
        _start(incident, script, f"/gone/{folder}/bin/python")
    done = run(incident, "check", "--fix", "-y")
    assert done.code == 0, done
    assert [line for line in done.err.splitlines() if line.startswith("step ")] == [
        "step 1 of 2: uv pip install --python [TMP]/.venv/bin/python --no-index --no-deps --reinstall-package one "
        "--reinstall-package other one==1 other==1",
        "step 2 of 2: left out, the steps before fixed ED103 (bin: /gone/b/bin/python)",
    ]


def test_what_is_about_the_shell_is_left_to_the_user(incident: Incident) -> None:
    incident.contaminate()
    planned = run(incident, "check", "--fix", "--dry-run", "--fail-on", "warning", "--json", LD_PRELOAD="/nowhere.so")
    document = json.loads(planned.out)
    kinds = {step["causes"][0]["code"]: (step["kind"], step["why"]) for step in document["steps"]}
    assert kinds["ED203"] == ("repair", None)
    assert {why for kind, why in kinds.values() if kind == "yours"} == {"it is about your shell"}


def test_a_step_that_fails_leaves_the_venv_as_it_was(incident: Incident) -> None:
    incident.lose()
    before = state(incident.venv.prefix)
    done = run(incident, "check", "--fix", "-y", UV_FIND_LINKS=str(incident.root / "empty"), UV_OFFLINE="1")
    assert (done.code, done.out) == (4, "")
    assert "error: step 1 of 1 failed: " in done.err
    assert f"\n{'[TMP]'}/.venv is as it was\n" in done.err
    assert state(incident.venv.prefix) == before


def test_nothing_is_changed_without_an_answer(incident: Incident) -> None:
    incident.lose()
    before = state(incident.venv.prefix)
    done = run(incident, "check", "--fix")
    assert (done.code, done.err.splitlines()[-1]) == (2, "hint: check the plan, then add `--yes`")
    assert run(incident, "check", "--yes") == Outcome(
        code=2, out="", err="error: --yes is for --fix\n\nhint: a check alone changes nothing\n"
    )
    done = run(incident, "check", "--fix", "-y", "--format", "html")
    assert (done.code, done.err.splitlines()[0]) == (2, "error: --fix has no format html")
    assert state(incident.venv.prefix) == before


def test_a_healthy_venv_has_nothing_to_fix(incident: Incident) -> None:
    done = run(incident, "check", "--fix", "-y")
    assert done == Outcome(code=0, out="envdoctor check --fix  [TMP]/.venv\n\nnothing to fix\n", err="")


def test_only_what_is_not_in_the_baseline_counts(incident: Incident) -> None:
    incident.lose()
    written = run(incident, "check", "--write-baseline", "known.json")
    assert written.code == 0
    document = json.loads((incident.root / "known.json").read_text())
    (known,) = document["findings"]
    assert document == {"schema_version": 1, "findings": [known]}
    assert {**known, "about": ()} == {
        "code": "ED201", "subject": "nvidia-cudnn-cu12", "severity": "error", "about": ()
    }  # fmt: skip
    same = json.loads(run(incident, "check", "--baseline", "known.json", "--json").out)
    assert same["summary"]["exit_code"] == 0
    assert [(item["finding"]["code"], item["reason"]) for item in same["waived"]] == [
        ("ED201", "it is in the baseline known.json")
    ]
    (incident.venv.site_packages / "torch/__init__.py").unlink()
    new = run(incident, "check", "--baseline", "known.json", "--json")
    assert (new.code, [item["code"] for item in json.loads(new.out)["findings"]]) == (1, ["ED202"])


def test_a_finding_of_the_baseline_that_got_worse_counts(incident: Incident) -> None:
    install(incident.venv, make_wheel(incident.root / "wheels", "thing", "1", files={"thing.py": ""}))
    file = incident.venv.site_packages / "thing.py"
    rewrite(file, "edited = True\n")
    run(incident, "check", "--write-baseline", "known.json")
    assert run(incident, "check", "--baseline", "known.json").code == 0
    file.unlink()
    found = json.loads(run(incident, "check", "--baseline", "known.json", "--json").out)
    (worse,) = found["findings"]
    assert (worse["code"], worse["subject"], found["summary"]["exit_code"]) == ("ED202", "thing", 1)
    path = file.relative_to(incident.venv.prefix)
    assert worse["evidence"][-1] == f"it is in the baseline known.json, where it was less: new are missing:{path}"
    # As an older version wrote it.
    old = {"schema_version": 1, "findings": [{"code": "ED202", "subject": "thing"}]}
    (incident.root / "known.json").write_text(json.dumps(old))
    done = run(incident, "check", "--baseline", "known.json")
    assert done.code == 0
    assert done.err == (
        "note: known.json does not say how far 1 of its findings went, so whether they got worse could not be "
        "determined; write it again: `envdoctor check --write-baseline FILE`\n"
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot read the baseline known.json: No such file or directory"),
        ("{", "the baseline known.json is not JSON: "),
        ("{}", "known.json is not a baseline"),
        ('{"schema_version": 1, "findings": [{}]}', "known.json: a finding needs a code and a subject"),
    ],
)
def test_a_file_that_is_no_baseline(incident: Incident, content: str | None, message: str) -> None:
    if content is not None:
        (incident.root / "known.json").write_text(content)
    done = run(incident, "check", "--baseline", "known.json")
    hint = "hint: write it with `envdoctor check --write-baseline FILE`"
    assert (done.code, done.out, done.err.splitlines()[-1]) == (2, "", hint)
    assert done.err.replace("[TMP]/", "").startswith(f"error: {message}")


def test_what_is_removed_is_removed_by_the_systems_own_program(incident: Incident) -> None:
    left = incident.venv.site_packages / "~orch-2.0.dist-info"
    left.mkdir()
    (left / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.0\n")
    trap, sprung = incident.venv.prefix / "bin/rm", incident.root / "sprung"
    trap.write_text(f"#!/bin/sh\n: > {sprung}\n")
    trap.chmod(0o755)
    path = f"{incident.venv.prefix / 'bin'}:{os.defpath}"
    planned = run(incident, "check", "--fix", "--dry-run", "--fail-on", "note", PATH=path)
    assert f"rm -r '[TMP]/.venv/{left.relative_to(incident.venv.prefix)}'" in planned.out
    done = run(incident, "check", "--fix", "-y", "--fail-on", "note", PATH=path)
    assert (done.code, left.exists(), sprung.exists()) == (0, False, False)


def test_who_uses_the_venv_is_in_the_plan(incident: Incident) -> None:
    incident.lose()
    with subprocess.Popen([str(incident.venv.prefix / "bin/python"), "-c", "input()"], stdin=subprocess.PIPE) as user:
        planned = run(incident, "check", "--fix", "--dry-run", "--json")
        plain = run(incident, "check", "--fix", "--dry-run").out
        user.communicate(b"\n")
    document = json.loads(planned.out)
    jsonschema.validate(document, closed(json.loads(schemas.read("check-fix"))))
    assert [item["pid"] for item in document["users"]] == [user.pid]
    assert f"in use by process {user.pid}: " in plain
