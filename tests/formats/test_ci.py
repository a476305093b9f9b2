"""The action, the hook and the recipes of docs/ci.md: valid by their formats' schemas, and run as their runners do."""

import json
import re
import shlex
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from junitparser import Failure, JUnitXml

from tests.factories.make_incident import make_incident
from tests.factories.make_profile import make_profile
from tests.factories.make_release import published_wheel
from tests.factories.make_venv import run_uv
from tests.factories.run_envdoctor import COMMAND, ROOT, environment

ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS = {step["id"]: step for step in ACTION["runs"]["steps"]}
HOOKS = {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
PAGE = (ROOT / "docs/ci.md").read_text()
# What is given beside an action's own `with`.
DEFAULTS = {name: entry["default"] for name, entry in ACTION["inputs"].items()}


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def blocks_of(key: str) -> list[Any]:
    """Return the YAML blocks of the page that have such a key at their first level or in their first item."""
    read = [yaml.safe_load(block) for block in blocks("yaml")]
    return [
        block
        for block in read
        if key in (block[0] if isinstance(block, list) else [*block, *next(iter(block.values()))])
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A project as a job finds it."""

    root: Path
    code: int
    """What a check of it exits with."""

    def run(self, script: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a script as a runner does: its own file, bash, stop at the first failure; `envdoctor` is on PATH."""
        own = environment(self.root)
        own["PATH"] = f"{self.root.parent / 'bin'}:{own['PATH']}"
        file = self.root / "tmp" / "script.sh"
        file.write_text(script)
        words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(file)]
        return subprocess.run(
            words, cwd=self.root, env=own | variables, capture_output=True, text=True, check=False, timeout=300
        )


@pytest.fixture(scope="module", params=["well", "broken"])
def project(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Project:
    return make_project(tmp_path_factory.mktemp(request.param), broken=request.param == "broken")


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return make_project(tmp_path_factory.mktemp("lost"), broken=True)


def make_project(folder: Path, *, broken: bool) -> Project:
    """Make the incident, or the stack it was before, with a profile and a uv.lock, and an `envdoctor` beside it."""
    incident = make_incident(folder / "project")
    make_profile(incident.root, "good", incident.own, torch="2.11.0+cu128", cuda="12.8")
    (incident.root / "pyproject.toml").write_text(
        '[project]\nname = "whole"\nversion = "0.1"\nrequires-python = ">=3.11"\n'
        'dependencies = ["torch==2.11.0+cu128", "nvidia-cudnn-cu12"]\n'
    )
    sources = {"UV_FIND_LINKS": str(incident.root / "wheels"), "UV_NO_INDEX": "1", "UV_PYTHON": sys.executable}
    run_uv("lock", "--quiet", "--project", incident.root, cache=folder / "cache", extra=sources)
    if broken:
        incident.lose()
    (folder / "bin").mkdir()
    command = folder / "bin/envdoctor"
    command.write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n')
    command.chmod(0o755)
    return Project(root=incident.root, code=int(broken))


def evaluated(text: str, inputs: Mapping[str, str], installed: str = "") -> str:
    """Return a value of the action with its expressions filled in, of the few forms that it uses."""

    def value(match: re.Match[str]) -> str:
        known = {f"inputs.{name}": given for name, given in inputs.items()}
        known["steps.install.outputs.command"] = installed
        return next((known[name] for name in match[1].split(" || ") if known[name]), "")

    return re.sub(r"\$\{\{ (.+?) \}\}", value, text)


def run_step(project: Project, step: str, **given: str) -> tuple[subprocess.CompletedProcess[str], dict[str, str], str]:
    """Run a step of the action; return what it printed, its outputs, and the summary of the job."""
    inputs = {**DEFAULTS, **{name.replace("_", "-"): value for name, value in given.items()}}
    files = {name: project.root / "tmp" / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    (project.root / "tmp").mkdir(exist_ok=True)
    for file in files.values():
        file.write_text("")
    variables = {name: evaluated(value, inputs) for name, value in STEPS[step].get("env", {}).items()}
    variables |= {name: str(file) for name, file in files.items()}
    variables |= {"RUNNER_TEMP": str(project.root / "tmp"), "GITHUB_ACTION_PATH": given.get("action_path", str(ROOT))}
    done = project.run(STEPS[step]["run"], PIP_NO_DEPS="1", PIP_NO_INDEX="1", **variables)
    outputs = dict(line.split("=", 1) for line in files["GITHUB_OUTPUT"].read_text().splitlines())
    return done, outputs, files["GITHUB_STEP_SUMMARY"].read_text()


def conforms(schema: str, file: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", file],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "ok -- validation done\n"), done.stdout + done.stderr


def test_they_conform_to_the_schemas_of_their_formats(tmp_path: Path) -> None:
    pytest.importorskip("check_jsonschema")
    conforms("github-actions", ROOT / "action.yml")
    (lab,) = blocks_of("script")
    (tmp_path / "lab.yml").write_text(yaml.safe_dump(lab))
    conforms("gitlab-ci", tmp_path / "lab.yml")
    steps = [step for block in [*blocks_of("run"), *blocks_of("uses")] for step in block]
    assert len(steps) > 5
    (permissions,) = blocks_of("permissions")
    workflow = {"on": "push", "jobs": {"check": {"runs-on": "ubuntu-latest", "steps": steps, **permissions}}}
    (tmp_path / "workflow.yml").write_text(yaml.safe_dump(workflow))
    conforms("github-workflows", tmp_path / "workflow.yml")


def test_no_input_is_written_into_a_script_and_each_one_is_read_and_documented() -> None:
    for step in STEPS.values():
        assert "${{" not in step["run"]
        assert step["shell"] == "bash"
    read = {name for step in STEPS.values() for name in re.findall(r"inputs\.([a-z-]+)", json.dumps(step))}
    assert read == set(DEFAULTS)
    assert set(re.findall(r"`([a-z-]+)`", "".join(re.findall(r"^\| (`[^|]+) \|", PAGE, re.MULTILINE)))) == set(DEFAULTS)
    (block,) = blocks_of("uses")
    assert set(block[0]["with"]) <= set(DEFAULTS)


def test_the_check_of_the_action(project: Project) -> None:
    (block,) = blocks_of("uses")
    given = {**block[0]["with"], "require": "torch\n\nnvidia-cudnn-cu12>=9\n"}
    done, outputs, summary = run_step(project, "check", command="envdoctor", **given)
    assert (done.returncode, done.stderr) == (project.code, "")
    assert outputs == {"exit-code": str(project.code), "sarif": "envdoctor.sarif"}
    commands = [line.partition("::")[2].partition("::")[0] for line in done.stdout.splitlines()]
    lock = (project.root / "lockfiles/good.txt").read_text().splitlines()
    line = next(number for number, text in enumerate(lock, 1) if text.startswith("nvidia-cudnn-cu12"))
    found = [f"error file=lockfiles/good.txt,line={line},title=ED201 files-removed-by-uninstall"] * project.code
    assert commands == [*found, f"{'error' if project.code else 'notice'} title=envdoctor check"]
    said = "Found 1 error (1 cause)" if project.code else "Nothing found"
    unseen = "not checked: the GPU driver (none here), the compile cache (cold)"
    assert summary.splitlines()[0] == f"## envdoctor check: {said}; {unseen}"
    log = json.loads((project.root / "envdoctor.sarif").read_text())
    assert [result["ruleId"] for result in log["runs"][0]["results"]] == ["ED201"] * project.code


def test_a_baseline_a_lock_and_no_summary(broken: Project) -> None:
    written = broken.run("envdoctor check .venv --lock uv.lock --write-baseline base.json --exit-zero")
    assert written.returncode == 0, written.stderr
    done, outputs, summary = run_step(
        broken, "check", command="envdoctor", lock="uv.lock", baseline="base.json", summary="false", fail_on="note"
    )
    assert (done.returncode, outputs, summary) == (0, {"exit-code": "0"}, "")


def test_without_a_report_there_is_no_output_that_names_one(broken: Project) -> None:
    done, outputs, _ = run_step(broken, "check", command="envdoctor", venv="nowhere", sarif="none.sarif")
    assert (done.returncode, outputs) == (2, {"exit-code": "2"}), done.stderr
    done, outputs, _ = run_step(broken, "check", command="envdoctor", sarif=".venv")
    assert (done.returncode, outputs) == (2, {"exit-code": "1"}), done.stderr
    assert not (broken.root / "none.sarif").exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("venv", "$(touch pwned)`touch pwned`; touch pwned"),
        ("venv", "--fix"),
        ("profile", '"; touch pwned; "'),
        ("lock", "--fix"),
        ("require", 'torch"; touch pwned; "\n$(touch pwned)'),
        ("fail-on", "note; touch pwned"),
        ("baseline", "$(touch pwned)"),
        ("sarif", "a.sarif\nexit-code=0"),
    ],
)
def test_what_an_input_holds_is_never_run(broken: Project, name: str, value: str) -> None:
    before = sorted(path.name for path in broken.root.iterdir())
    done, outputs, _ = run_step(broken, "check", command="envdoctor", **{name: value})
    assert done.returncode == 2, done.stdout + done.stderr
    assert outputs in ({}, {"exit-code": "2"})
    assert sorted(path.name for path in broken.root.iterdir()) == before


def test_the_installation_of_the_action(broken: Project, tmp_path: Path) -> None:
    wheel = published_wheel(tmp_path)
    # What a pull request can put into the folder of the checkout.
    hostile = [broken.root / f"{name}.py" for name in ("venv", "pip", "types")]
    for file in hostile:
        file.write_text(f"open({str(tmp_path / 'run')!r}, 'a').write(__name__)\n")
    done, outputs, _ = run_step(broken, "install", python=sys.executable, action_path=str(wheel))
    for file in hostile:
        file.unlink()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not (tmp_path / "run").exists()
    command = outputs.pop("command")
    assert (outputs, command) == ({}, str(broken.root / "tmp/envdoctor/bin/envdoctor"))
    assert evaluated(STEPS["check"]["env"]["COMMAND"], DEFAULTS, command) == command
    site = next((broken.root / "tmp/envdoctor/lib").glob("python3*/site-packages"))
    (site / "requirements.pth").write_text(sysconfig.get_path("purelib") + "\n")
    assert broken.run(f"{command} --version").stdout.startswith("envdoctor ")


def test_a_python_that_is_too_old_is_said_before_anything_is_made(broken: Project) -> None:
    done, outputs, _ = run_step(broken, "install", python="false")
    said = "::error title=envdoctor::false is not a Python 3.11 or newer; actions/setup-python installs one\n"
    assert (done.returncode, done.stdout, outputs) == (2, said, {})


def recipes() -> Iterator[tuple[str, str]]:
    """Yield (name, script) of each recipe whose commands are envdoctor's."""
    for number, block in enumerate([*blocks_of("run"), *blocks_of("script")]):
        lines = [step["run"] for step in block] if isinstance(block, list) else block["environment"]["script"]
        yield f"yaml {number}", "\n".join(line for line in lines if not line.startswith("uv "))
    for block in blocks("groovy"):
        yield "jenkins", "\n".join(re.findall(r"sh '(.+?)'$", block, re.MULTILINE))


@pytest.mark.parametrize(("name", "script"), list(recipes()), ids=[name for name, _ in recipes()])
def test_a_recipe_passes_where_all_is_well_and_fails_with_its_reports_where_it_is_not(
    project: Project, name: str, script: str
) -> None:
    for report in ("envdoctor.xml", "codequality.json"):
        (project.root / report).unlink(missing_ok=True)
    done = project.run(script)
    assert done.returncode == project.code, done.stdout + done.stderr
    assert script.count("envdoctor check") > 0
    if "envdoctor.xml" in script:
        cases = [case for suite in JUnitXml.fromfile(str(project.root / "envdoctor.xml")) for case in suite]
        failed = [case for case in cases if any(isinstance(item, Failure) for item in case.result)]
        assert len(cases) >= 9
        assert bool(failed) == bool(project.code)
    if "codequality.json" in script:
        issues = json.loads((project.root / "codequality.json").read_text())
        found = [(one["check_name"], one["severity"], one["location"]["path"]) for one in issues]
        assert found[:1] == [("ED201", "critical", "lockfiles/good.txt")] * project.code
        assert len({one["fingerprint"] for one in issues}) == len(issues)


def run_hook(project: Project, asked: Mapping[str, Any], **variables: str) -> subprocess.CompletedProcess[str]:
    """Run pre-commit with a hook as a project asks for it.

    What pre-commit would install is on PATH: a hook of the repository itself, for which nothing is fetched.
    """
    pytest.importorskip("pre_commit")
    hook = {**HOOKS[asked["id"]], **asked, "language": "system"}
    (project.root / ".pre-commit-config.yaml").write_text(
        yaml.safe_dump({"repos": [{"repo": "local", "hooks": [hook]}]})
    )
    program = f"{shlex.quote(sys.executable)} -m pre_commit"
    git = "git -c init.defaultBranch=main init -q . 2>/dev/null; git add .pre-commit-config.yaml"
    valid = f"{program} validate-manifest {ROOT / '.pre-commit-hooks.yaml'}"
    return project.run(f"{git}\n{valid}\n{program} run --all-files --color never", **variables)


def test_pre_commit_reads_the_hook_and_stops_the_commit(project: Project, tmp_path: Path) -> None:
    (block,) = [yaml.safe_load(text) for text in blocks("yaml") if "hooks:" in text]
    (asked,) = block["repos"][0]["hooks"]
    done = run_hook(project, asked, PRE_COMMIT_HOME=str(tmp_path))
    assert done.returncode == project.code, done.stdout + done.stderr
    first = done.stdout.splitlines()[0]
    assert first == f"{'envdoctor check':.<73}{'Failed' if project.code else 'Passed'}"
    assert ("error[ED201]" in done.stdout) == bool(project.code)


def test_the_hook_without_arguments_looks_at_the_project_and_not_at_its_own_environment(
    broken: Project, tmp_path: Path
) -> None:
    """pre-commit sets VIRTUAL_ENV to the environment that it made for a hook in Python."""
    own = tmp_path / "own"
    venv.create(own)
    done = run_hook(broken, {"id": "envdoctor-check"}, PRE_COMMIT_HOME=str(tmp_path / "home"), VIRTUAL_ENV=str(own))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "error[ED201]" in done.stdout
