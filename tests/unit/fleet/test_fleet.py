"""A fleet without one: what nodes may answer, whom a file may name, and what is said of many."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from envdoctor.app.fleet import FleetOptions, manifest
from envdoctor.app.result import Result
from envdoctor.cli.leaving import leaving
from envdoctor.compare.sheet import StackSheet
from envdoctor.errors import UsageError
from envdoctor.fleet import kubernetes
from envdoctor.fleet.answer import MAXIMUM, NodeAnswer, NodeFinding, NodeReport, answer_in
from envdoctor.fleet.carried import Errand, errand_for
from envdoctor.fleet.gather import gather, hear
from envdoctor.fleet.hosts import NamedHost, hosts_in, ssh_command
from envdoctor.fleet.matrix import beside_each_other
from envdoctor.fleet.remedies import remedies
from envdoctor.model.codec import encode
from envdoctor.model.frozen import replace
from envdoctor.report.commands import fleet_check
from envdoctor.report.formats import html, markdown
from envdoctor.report.formats.of_fleet import outline
from envdoctor.report.rendering import as_json, document_as, document_of
from envdoctor.report.style import Style
from tests.factories.make_incident import make_incident
from tests.factories.run_envdoctor import Outcome, environment, run_envdoctor

FINDING = NodeFinding(
    code="ED201", severity="error", title="a file is missing", subject="numpy", commands=("envdoctor repair",)
)


def answered(
    name: str, *, findings: tuple[NodeFinding, ...] = (), unknown: tuple[str, ...] = (), **facts: str
) -> NodeReport:
    sheet = StackSheet(facts={"torch": "2.11.0", "variable OMP_NUM_THREADS": "", **facts})
    answer = NodeAnswer(host=name, prefix="/srv/venv", sheet=sheet, findings=findings, unknown=unknown)
    return NodeReport(name=name, answer=answer)


def sent(text: str, mark: str = "m") -> bytes:
    return f"Welcome!\n\nenvdoctor-node {mark} {len(text.encode())}\n{text}\nbye\n".encode()


def test_an_answer_is_found_among_what_a_shell_prints() -> None:
    told = answered("n1").answer
    assert answer_in("n1", "m", sent(json.dumps(encode(told)))) == NodeReport(name="n1", answer=told)


@pytest.mark.parametrize(
    ("out", "problem"),
    [
        (b"", "it answered something else: nothing"),
        (b"login: ", "it answered something else: 'login:'"),
        (sent("{}", mark="another"), "it answered something else: "),
        (sent("{}")[:-8], "its answer is cut short"),
        (b"\nenvdoctor-node m 99999999999\n{}", "its answer is cut short"),
        (b"\nenvdoctor-node m -1\n{}", "its answer is cut short"),
        (b"\nenvdoctor-node m " + b"9" * 5000 + b"\n{}", "its answer is cut short"),
        (sent("{"), "its answer is not JSON: "),
        (sent("[" * 5000 + "]" * 5000), "its answer is not JSON: nested too deeply"),
        (sent("[" + "1," * 200_000 + "1]"), "its answer is not JSON: more than 100000 values"),
        (sent("[]"), "its answer has another form: expected a table, got "),
        (sent('{"host": 1}'), "its answer has another form: "),
        (sent('{"problem": "no environment", "hint": "make one"}'), "no environment; make one"),
    ],
)
def test_rubbish_is_no_answer_and_is_named(out: bytes, problem: str) -> None:
    report = answer_in("n1", "m", out)
    assert report.answer is None
    assert report.problem.startswith(problem)


def test_hosts_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("# all\nn1\nuser@n2.example  /srv/my venv  # odd\n\n[::1]\n10.0.0.4\n")
    assert hosts_in(file) == tuple(
        NamedHost(name=name, venv=venv)
        for name, venv in (("n1", ""), ("user@n2.example", "/srv/my venv"), ("[::1]", ""), ("10.0.0.4", ""))
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("-oProxyCommand=touch${IFS}x", "line 1: '-oProxyCommand=touch${IFS}x' is not a host name"),
        ("n1\nu@-oX", "line 2: 'u@-oX' is not a host name"),
        ("a;b", "line 1: 'a;b' is not a host name"),
        ("a%h", "line 1: 'a%h' is not a host name"),
        ("n1\nn1", "line 2: n1 is named twice"),
        ("n1 /srv/a\0b", "line 1: a path holds no NUL character"),
    ],
)
def test_a_name_that_is_no_host_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "hosts").write_text(text)
    with pytest.raises(UsageError) as error:
        hosts_in(tmp_path / "hosts")
    assert error.value.message == f"{tmp_path}/hosts, {message}"
    assert ssh_command(errand_for("n1", "", "", "m"), "")[-3:-1] == ["--", "n1"]


def test_what_names_a_node_cannot_leave_its_quotes() -> None:
    venv = "/srv/$(touch x)'; touch y; '"
    errand = Errand(node="n1", venv=venv, python=sys.executable, mark="m")
    heard = hear(["sh", "-c", errand.shell()], b"import sys; print(sys.argv)", 30)
    assert heard.out.decode() == f"{['-c', 'm', venv]}\n"
    remote = ssh_command(errand, "")[-1]
    assert hear(["sh", "-c", remote], b"import sys; print(sys.argv)", 30) == heard


def test_an_old_python_is_named(tmp_path: Path) -> None:
    old = tmp_path / "python"
    old.write_text('#!/bin/sh\n[ "$1" = -V ] && echo Python 3.8.10\nexit 1\n')
    old.chmod(0o755)
    errand = Errand(node="n1", venv="", python=str(old), mark="m")
    (report,) = gather([errand], lambda one: ["sh", "-c", one.shell()], b"", at_once=1, timeout=30)
    problem = f"no Python 3.11 or newer is there ({old} Python 3.8.10); name one: `--python PATH`"
    assert report == NodeReport(name="n1", answer=None, problem=problem)


@pytest.mark.parametrize(
    ("script", "timeout", "problem"),
    [
        ("echo no route >&2; exit 255", 30.0, "sh ended with exit code 255: no route"),
        ("sleep 600 & sleep 600", 0.3, "it did not answer within 0.3 s"),
        ("exec yes", 30.0, "it answered more than 5 MB"),
        ("kill -9 $$", 30.0, "sh ended with SIGKILL"),
        ("echo hello", 30.0, "it answered something else: 'hello'"),
    ],
)
def test_a_node_that_does_not_answer_is_named(script: str, timeout: float, problem: str) -> None:
    errands = [errand_for(name, "", "", "m") for name in ("n1", "n2")]
    reports = gather(errands, lambda _: ["sh", "-c", script], b"x" * 1_000_000, at_once=2, timeout=timeout)
    assert reports == [NodeReport(name=name, answer=None, problem=problem) for name in ("n1", "n2")]


FLEET = (
    answered("n1"),
    answered("n2", torch="2.10.0"),
    answered("n3"),
    answered("n4", findings=(FINDING,)),
    NodeReport(name="n5", answer=None, problem="it did not answer within 9 s"),
    answered("n6", unknown=("ED301 unresolved: not read",)),
    answered("n7", **{"variable OMP_NUM_THREADS": "1"}),
)
_TORN = dict.fromkeys(("NCCL", "bytes of NCCL"), "the section Nccl is torn")
BLIND = NodeReport(
    name="n8",
    answer=NodeAnswer(
        host="n8",
        prefix="/srv/venv",
        sheet=StackSheet(facts={"torch": "2.11.0"}, unread={**_TORN, "variable": "no permission", "stack": "a part"}),
    ),
)


def test_a_fleet_as_text() -> None:
    assert fleet_check.text(beside_each_other("slurm", FLEET), Style()) == (
        "7 nodes over slurm: 2 as most, 2 nodes differ, 1 node has errors of its own, 2 nodes could not tell\n"
        "\n"
        "  fact                      most nodes  others  who\n"
        "  torch                     2.11.0      2.10.0  n2\n"
        "  variable OMP_NUM_THREADS  none        1       n7\n"
        "  finding ED201 numpy       none        error   n4\n"
        "\n"
        "could not tell\n"
        "  n5: it did not answer within 9 s\n"
        "  n6: ED301 unresolved: not read\n"
        "\n"
        "n2  /srv/venv\n"
        "  help: `envdoctor restore --profile PROFILE --venv /srv/venv --dry-run` shows what would change there, where "
        "PROFILE is that of the others (on n1: `envdoctor capture NAME --venv /srv/venv`)\n"
        "\n"
        "n4  /srv/venv\n"
        "  ED201: a file is missing\n"
        "  help: `envdoctor repair`\n"
        "\n"
        "n7  /srv/venv\n"
        "  help: `unset OMP_NUM_THREADS`\n"
    )


def test_a_tie_accuses_nobody_and_prints_no_command_that_takes_a_side() -> None:
    view = beside_each_other("files", (FLEET[0], FLEET[6], BLIND))
    text = (
        "3 nodes over files: 2 nodes differ without a majority, 1 node could not tell\n"
        "\n"
        "  fact                      one value  another  who\n"
        "  variable OMP_NUM_THREADS  none       1        n7\n"
        "\n"
        "could not tell\n"
        "  n8: NCCL, bytes of NCCL: the section Nccl is torn\n"
        "  n8: variable: no permission\n"
        "\n"
        "help: no majority says which of them is wrong; a profile does, on each: "
        "`envdoctor check VENV --profile PROFILE`\n"
    )
    assert fleet_check.text(view, Style()) == text
    document = document_of(Result(command="fleet check", data=view))
    assert [(node["name"], node["state"], node["remedies"], node["could_not_tell"]) for node in document["nodes"]] == [
        ("n1", "tied", [], []),
        ("n7", "tied", [], []),
        ("n8", "unknown", [], ["NCCL, bytes of NCCL: the section Nccl is torn", "variable: no permission"]),
    ]
    page = html.render(outline(document), document)
    table = page[page.index("Nodes by facts</h2>") :]
    rows = dict(line.partition("</th>")[::2] for line in table.split('<tr><th scope="row">')[1:])
    assert "✗" not in table
    assert rows["n7"].startswith('<td class="state unknown">? no majority</td>')
    assert rows["n1"].rstrip().endswith('<td class="unknown">? none</td></tr>')
    shown = markdown.render(outline(document))
    assert "### ❌ error\\[fleet/tied\\]: n1 differs from others without a majority" in shown
    assert "unset" not in shown


@pytest.mark.parametrize(
    ("nodes", "conclusion", "code"),
    [
        (FLEET[::2][:2], "2 nodes over files: one stack", 0),
        (FLEET[:2], "2 nodes over files: 2 nodes differ without a majority", 1),
        ((FLEET[0], FLEET[3]), "2 nodes over files: 1 as most, 1 node has errors of its own", 1),
        ((FLEET[0], BLIND), "2 nodes over files: 1 as most, 1 node could not tell", 3),
        ((BLIND, BLIND), "2 nodes over files: 2 nodes could not tell", 3),
        (FLEET[4:5], "1 node over files: 1 node could not tell", 3),
        ((FLEET[0], FLEET[5]), "2 nodes over files: 1 as most, 1 node could not tell", 3),
        (FLEET[3:4], "1 node over files: 1 node has errors of its own", 1),
    ],
)
def test_conclusions_and_exit_codes(nodes: tuple[NodeReport, ...], conclusion: str, code: int) -> None:
    view = beside_each_other("files", nodes)
    assert (fleet_check.conclusion(view), int(view.exit_code)) == (conclusion, code)


def test_the_page_has_a_red_cell_for_each_odd_one_and_nothing_green_that_was_not_seen() -> None:
    view = beside_each_other("ray", FLEET)
    document = document_of(Result(command="fleet check", data=view))
    page = html.render(outline(document), document)
    table = page[page.index("Nodes by facts</h2>") :]
    rows = dict(line.partition("</th>")[::2] for line in table.split('<tr><th scope="row">')[1:])
    assert rows["n1"].startswith('<td class="state ok">✓ as most</td><td>2.11.0</td><td>none</td><td>none</td></tr>')
    assert rows["n2"].startswith('<td class="state error">✗ differs</td><td class="error">✗ 2.10.0</td><td>none</td>')
    assert rows["n5"].startswith('<td class="state unknown">? could not tell</td><td class="unknown">?</td>')
    assert rows["n6"].startswith('<td class="state unknown">')
    text = markdown.render(outline(document))
    assert "### ❌ error\\[fleet/differs\\]: n2 differs from most nodes" in text
    assert "- fleet/unknown n5: it did not answer within 9 s" in text


def test_a_node_as_most_needs_nothing() -> None:
    view = beside_each_other("slurm", FLEET)
    assert [remedies(view, node) for node in (FLEET[0], FLEET[4], FLEET[5])] == [(), (), ()]


# What no node may do to a terminal or to a report: move it, colour it, turn it, or begin a line of its own.
EVIL = "\x1b]0;owned\x07\x1b[2J\x1b[32m\x9b2J\u202e\u2028<script>alert(1)</script>\nforged   exit 0"
RAW = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]|(?m:^forged)")


def _hostile(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield an answer's JSON with one of its texts, or one of its keys that a node may choose, made evil."""
    if isinstance(value, str):
        yield path, f"{value}{EVIL}"
    elif isinstance(value, list):
        for at, item in enumerate(value):
            for named, other in _hostile(item, (*path, str(at))):
                yield named, [*value[:at], other, *value[at + 1 :]]
    elif isinstance(value, dict):
        for key, item in value.items():
            for named, other in _hostile(item, (*path, key)):
                yield named, {**value, key: other}
            if path[-1:] in (("facts",), ("unread",)):
                yield (*path, f"key {key}"), {**value, f"{key}{EVIL}": item}


HOSTILE = NodeAnswer(
    host="n9",
    prefix="/srv/venv",
    sheet=StackSheet(facts={"torch": "2.10.0", "variable NCCL_ALGO": "Tree"}, unread={"driver": "not there"}),
    findings=(FINDING,),
    unknown=("ED301 unresolved: not read",),
)
HOSTILE_ANSWERS = [*_hostile(encode(HOSTILE)), *_hostile(encode(replace(HOSTILE, findings=(), unknown=())))]


@pytest.mark.parametrize(
    "told", [told for _, told in HOSTILE_ANSWERS], ids=[".".join(path) for path, _ in HOSTILE_ANSWERS]
)
def test_no_text_of_a_node_moves_a_terminal_or_is_markup(told: dict[str, Any]) -> None:
    hostile = answer_in("n9", "m", sent(json.dumps(told)))
    # Two like it: what they say is what most have, and the command for the others is made of it.
    for nodes in ((*FLEET, hostile), (replace(hostile, name="n8"), hostile, FLEET[0], FLEET[1])):
        _shows_nothing_raw(nodes)


@pytest.mark.parametrize(
    "report",
    [
        NodeReport(name=f"n9{EVIL}", answer=HOSTILE),
        NodeReport(name="n9", answer=None, problem=f"ssh ended{EVIL}"),
        answer_in("n9", "m", f"login{EVIL}".encode()),
        answer_in("n9", "m", sent(json.dumps({"problem": EVIL, "hint": EVIL}))),
        answer_in("n9", "m", sent(json.dumps({EVIL: EVIL}))),
        answer_in("n9", "m", sent(f"{{{EVIL}")),
    ],
    ids=["name", "problem", "something else", "a problem of its own", "another form", "no JSON"],
)
def test_no_problem_of_a_node_moves_a_terminal_or_is_markup(report: NodeReport) -> None:
    _shows_nothing_raw((*FLEET, report))


def _shows_nothing_raw(nodes: tuple[NodeReport, ...]) -> None:
    view = beside_each_other("ssh", nodes)
    result = Result(command="fleet check", data=view)
    document = document_of(result)
    shown = {
        "text": fleet_check.text(view, Style(verbosity=1)),
        "json": leaving(as_json(result)),
        **{name: leaving(document_as("fleet check", document, name)) for name in ("html", "markdown", "junit")},
    }
    for name, text in shown.items():
        # A line break in an element of a page is a blank.
        found = RAW.search(text.replace("\nforged", " forged") if name in ("html", "junit") else text)
        assert found is None, (name, text[max(0, found.start() - 200) : found.end() + 50])
    assert "<script>" not in shown["html"] + shown["junit"] + shown["markdown"].replace("\\<script", "")
    assert json.loads(shown["json"])["nodes"]
    ET.fromstring(shown["junit"])
    for node in document["nodes"]:
        assert [line for line in node["remedies"] if not line.isprintable()] == []


def test_the_job_has_one_pod_a_node_and_the_tool_in_a_map() -> None:
    errand = Errand(node="", venv="/opt/venv", python="", mark="of-a-pod")
    configuration, job = kubernetes.manifest(errand, "program", 4, "registry/train:1", 60)["items"]
    assert configuration["data"] == {"program": "program"}
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    assert (spec["completions"], spec["parallelism"], spec["backoffLimit"]) == (4, 4, 0)
    (spread,) = pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert spread == {
        "labelSelector": {"matchLabels": job["spec"]["template"]["metadata"]["labels"]},
        "topologyKey": "kubernetes.io/hostname",
    }
    shell, option, script = pod["containers"][0]["command"]
    assert (shell, option) == ("sh", "-c")
    assert script.startswith("exec </envdoctor/program; ")
    assert len(script) < MAXIMUM


@pytest.mark.parametrize("version", ["1.25", "1.29", "1.37"])
def test_the_manifest_is_as_the_schemas_of_kubernetes_say(version: str) -> None:
    schemas = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    wishes = FleetOptions(engine="files", venv="/opt/venv", python="/opt/python")
    items = manifest(wishes, 4, "registry/train:1")["items"]
    assert [schemas.validate(item, version, strict=True) for item in items] == [version, version]
    items[1]["spec"]["template"]["spec"]["containers"][0]["imag"] = "x"
    with pytest.raises(schemas.ValidationError, match="'imag' was unexpected"):
        schemas.validate(items[1], version, strict=True)


def test_the_jobs_script_answers_and_its_log_is_read(tmp_path: Path) -> None:
    make_incident(tmp_path)
    wishes = FleetOptions(engine="files", venv=str(tmp_path / ".venv"), python=sys.executable)
    configuration, job = manifest(wishes, 2, "registry/train:1")["items"]
    program = tmp_path / "program"
    program.write_text(configuration["data"]["program"])
    assert program.stat().st_size < 1 << 20  # what a ConfigMap may hold; `kubectl apply` would need it below 1 << 18
    *shell, script = job["spec"]["template"]["spec"]["containers"][0]["command"]
    script = script.replace("/envdoctor/program", str(program))
    for pod in ("a", "b"):
        told = environment(tmp_path, {"ENVDOCTOR_NODE": f"node-{pod}"})
        done = subprocess.run([*shell, script], capture_output=True, text=True, check=True, env=told)
        (tmp_path / f"pod-{pod}.log").write_text(done.stdout)
    outcome = run_envdoctor("fleet", "check", "--files", "pod-a.log", "pod-b.log", folder=tmp_path)
    assert outcome == Outcome(code=0, out="2 nodes over files: one stack\n", err="")
    document = json.loads(run_envdoctor("fleet", "check", "--files", "pod-a.log", "--json", folder=tmp_path).out)
    assert [node["name"] for node in document["nodes"]] == ["node-a (pod-a)"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "nobody is asked\n\nhint: say whom to ask: `--hosts FILE`, `--slurm`, `--ray ADDRESS`, `--kubernetes` or "
         "`--files *.json`"),
        (["--slurm", "--files"], "--slurm and --files are given\n\nhint: say whom to ask: `--hosts FILE`, `--slurm`, "
         "`--ray ADDRESS`, `--kubernetes` or `--files *.json`"),
        (["--slurm", "a.json"], "a.json is a file, and --slurm reads none\n\nhint: add `--files` to compare files"),
        (["--files"], "--files names no file\n\nhint: name fingerprints: `envdoctor fleet check --files *.json`"),
        (["--hosts", "absent"], "--hosts [TMP]/absent: No such file or directory\n\nhint: name a text file with one "
         "host a line"),
        (["--kubernetes"], "--kubernetes needs the number of nodes and the training's image\n\nhint: `envdoctor fleet "
         "check --kubernetes --node-count 4 --image IMAGE --venv VENV >job.json`"),
        (["--kubernetes", "--node-count", "2", "--image", "i", "--venv", "/srv/{node}"], "/srv/{node}: all pods have "
         "one image, and a path in it is the same on each node\n\nhint: name the path as the image has it, without "
         "`{node}`"),
        (["--files", "a.json", "--timeout", "inf"], "--timeout inf --at-once 32 asks nobody\n\nhint: give seconds up "
         "to 86,400, and nodes at a time"),
        (["--files", "a.json", "--timeout", "nan"], "--timeout nan --at-once 32 asks nobody\n\nhint: give seconds up "
         "to 86,400, and nodes at a time"),
        (["--ray", "127.0.0.1:1", "--ray-python", "nosuch"], "nosuch is not a program here\n\nhint: name it: "
         "`--ray-python PYTHON`"),
    ],
)  # fmt: skip
def test_bad_input_asks_nobody(tmp_path: Path, words: list[str], said: str) -> None:
    outcome = run_envdoctor("fleet", "check", *words, folder=tmp_path)
    assert outcome == Outcome(code=2, out="", err=f"error: {said}\n")
