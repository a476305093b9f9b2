"""A real notebook in a real kernel: what a cell shows of a verdict, and the magic."""

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

import envdoctor
from tests.factories.make_incident import Incident, make_incident
from tests.factories.run_envdoctor import ROOT, filtered, run_envdoctor

CELLS = (
    "import sys; sys.path.insert(0, {root!r}); import envdoctor",
    "envdoctor.check({venv!r})",
    "print(envdoctor.check({venv!r}))",
    "%load_ext envdoctor",
    "%envdoctor check {venv} -p {profile}",
    "verdict = %envdoctor\nprint(type(verdict).__name__)",
    "%envdoctor checks  # all of them",
    "%envdoctor --nosuch",
    "%envdoctor /nowhere",
)


@pytest.fixture(scope="module")
def incident(tmp_path_factory: pytest.TempPathFactory) -> Incident:
    made = make_incident(tmp_path_factory.mktemp("notebook"))
    made.lose()
    return made


@pytest.fixture(scope="module")
def outputs(incident: Incident, tmp_path_factory: pytest.TempPathFactory) -> list[list[Any]]:
    """Run every cell in one kernel, as another notebook would; return the outputs of each."""
    values = {
        "root": str(ROOT),
        "venv": str(incident.venv.prefix),
        "profile": str(incident.root / "profiles/small.toml"),
    }
    sources = [cell.format(**values) for cell in CELLS]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    home = tmp_path_factory.mktemp("home")
    kernels = home / "share/jupyter/kernels/here"
    kernels.mkdir(parents=True)
    kernel = {"argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"], "display_name": "here"}
    (kernels / "kernel.json").write_text(json.dumps(kernel | {"language": "python"}))
    before = dict(os.environ)
    # Where wheels come from is this user's own, and in printed commands: the other report has none of it either.
    for name in [name for name in before if name.startswith(("PIP_", "UV_", "XDG_"))]:
        del os.environ[name]
    os.environ |= {"JUPYTER_DATA_DIR": str(home / "share/jupyter"), "JUPYTER_RUNTIME_DIR": str(home / "run")}
    os.environ |= {"IPYTHONDIR": str(home / "ipython"), "HOME": str(home)}
    os.environ |= {"TORCHINDUCTOR_CACHE_DIR": str(home / "inductor"), "TRITON_CACHE_DIR": str(home / "triton")}
    try:
        client = nbclient.NotebookClient(notebook, kernel_name="here", allow_errors=True, timeout=300)
        client.execute(cwd=str(home))
    finally:
        os.environ.clear()
        os.environ.update(before)
    return [list(cell.outputs) for cell in notebook.cells]


def test_a_cell_shows_the_page_and_text_elsewhere(outputs: list[list[Any]], incident: Incident) -> None:
    (shown,) = outputs[1]
    assert set(shown.data) == {"text/html", "text/plain"}
    assert shown.data["text/html"].startswith('<iframe title="envdoctor check" sandbox="" style=')
    assert "&lt;h1&gt;envdoctor check: Found 1 error (1 cause)" in shown.data["text/html"]
    (printed,) = outputs[2]
    assert printed.text.rstrip("\n") == shown.data["text/plain"]
    report = run_envdoctor("check", incident.venv.prefix, folder=incident.root).out.splitlines()
    lines = filtered(shown.data["text/plain"], incident.root).splitlines()
    start = report.index(
        "error[ED201]: files of 1 distribution are missing, each at a path that another wheel writes too"
    )
    assert lines[lines.index(report[start]) :] == report[start:]


def test_the_magic_checks_a_venv_or_the_kernels_own(outputs: list[list[Any]]) -> None:
    (shown,) = outputs[4]
    assert "profile small" in shown.data["text/plain"]
    assert outputs[5][0].text == "CheckedVerdict\n"


def test_the_magic_runs_any_other_command(outputs: list[list[Any]], incident: Incident) -> None:
    assert outputs[6][0].text == run_envdoctor("checks", folder=incident.root).out


def test_what_is_refused_is_said_without_a_traceback(outputs: list[list[Any]]) -> None:
    told = [re.sub(r"\x1b\[[\d;]*m", "", text) for cell in outputs[7:9] for output in cell for text in [str(output)]]
    assert "UsageError: %envdoctor: unrecognized arguments: --nosuch" in told[0]
    assert "UsageError: " in told[1]
    assert "/nowhere" in told[1]
    assert all("Traceback" not in text for text in told)


def test_a_verdict_is_the_same_whatever_shows_it(incident: Incident) -> None:
    first, second = envdoctor.check(incident.venv.prefix), envdoctor.check(incident.venv.prefix)
    assert first == second
    assert isinstance(first, envdoctor.Verdict)
    assert first != envdoctor.check(Path(sys.prefix), lock=incident.root / "lockfiles/small.txt")
