"""The curves of training runs: what is read, what is drawn, what is said where there is nothing."""

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

from tests.factories.run_envdoctor import ROOT
from trainer.curves import main, panels, read
from trainer.records.curve_drawing import medians, thinned

SVG = "{http://www.w3.org/2000/svg}"


def journal(folder: Path, *lines: object, end: str = "\n") -> Path:
    folder.mkdir()
    (folder / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)) + end)
    return folder


def step(number: int, **values: object) -> dict[str, object]:
    told: dict[str, object] = {"event": "step", "step": number, "loss": 1 / number, "accuracy": 0.5}
    more = {"tokens_per_second": 100.0, "memory_peak": 2 << 30, "waits": {"features": 0.1, "drafters": 0.2}}
    return told | more | {"utilisation": 0.3} | values


def test_a_step_done_twice_counts_once_and_half_a_line_is_said(tmp_path: Path) -> None:
    lines = ({"event": "start"}, step(1), step(2), step(2, loss=9.0), step(3, loss=float("nan")))
    run = read(journal(tmp_path / "a", *lines, end='\n{"event": "st'))
    assert ([line["step"] for line in run.lines], run.spoiled) == ([1, 2, 3], 1)
    found = {panel.title: [curve.points for curve in panel.curves] for panel in panels([run])}
    assert found["loss"] == [((1.0, 1.0), (2.0, 9.0))]
    assert found["memory, high-water"] == [((1.0, 2.0), (2.0, 2.0), (3.0, 2.0))]
    assert [round(value, 9) for _, value in found["waits"][0]] == [0.3, 0.3, 0.3]


def test_acceptance_is_drawn_where_a_run_was_evaluated_on_its_way(tmp_path: Path) -> None:
    judged = [
        {"event": "evaluation", "step": at, "acceptance_length": length, "sampled": {"acceptance_length": length - 0.2}}
        for at, length in ((2, 1.4), (1, 1.2), (2, 1.5))
    ]
    # The closing one has no step, and a run of an earlier release no sampled figure.
    last = [
        {"event": "evaluation", "acceptance_length": 9.0},
        {"event": "evaluation", "step": 3, "acceptance_length": 1.6},
    ]
    runs = [read(journal(tmp_path / "a", step(1), step(3), *judged, *last)), read(journal(tmp_path / "b", step(1)))]
    found = {panel.title: [(curve.run, curve.points) for curve in panel.curves] for panel in panels(runs)}
    assert found["acceptance length"] == [(0, ((1.0, 1.2), (2.0, 1.5), (3.0, 1.6)))]
    assert found["acceptance length, sampled"] == [(0, ((1.0, 1.0), (2.0, 1.3)))]
    assert "acceptance length" not in {panel.title for panel in panels(runs[1:])}


def test_several_runs_are_told_apart_without_colour(tmp_path: Path) -> None:
    runs = [journal(tmp_path / name, step(1), step(2)) for name in ("a", "b<&>")]
    assert main([*map(str, runs), "-o", str(tmp_path / "curves.svg")]) == 0
    root = ET.parse(tmp_path / "curves.svg").getroot()
    lines = [(line.get("class"), line.findtext(f"{SVG}title")) for line in root.iter(f"{SVG}polyline")]
    assert lines[:2] == [("run run-0", str(runs[0])), ("run run-1", str(runs[1]))]
    assert len(lines) == 12
    style = root.findtext(f"{SVG}style") or ""
    assert ".run-1 { stroke: #d9822b; stroke-dasharray" in style


def test_peaks_stay_where_points_are_left_out() -> None:
    points = [(float(at), 100.0 if at == 777 else 1.0) for at in range(10_000)]
    kept = thinned(points)
    assert len(kept) <= 500
    assert (777.0, 100.0) in kept


def test_a_long_noisy_line_has_its_medians_over_it(tmp_path: Path) -> None:
    points = [(float(at), 100.0 if at % 2 else 0.0) for at in range(1000)]
    assert medians(points)[:2] == [(5.0, 50.0), (15.0, 50.0)]
    assert medians(points[:199]) == []
    run = journal(tmp_path / "long", *(step(at) for at in range(1, 301)))
    assert main([str(run), "-o", str(tmp_path / "curves.svg")]) == 0
    lines = [line.get("class") for line in ET.parse(tmp_path / "curves.svg").getroot().iter(f"{SVG}polyline")]
    assert lines == ["raw run run-0", "run run-0"] * 6


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    empty = journal(tmp_path / "empty", {"event": "start"})
    hint = "name the folder of a run (`--output` of the trainer), or its metrics.jsonl"
    for words, error, advice in (
        (["none", "-o", "x.svg"], "none: No such file or directory", hint),
        ([str(empty), "-o", "x.svg"], f"{empty}/metrics.jsonl: no step was logged", "wait for its first log line"),
        ([str(empty), "-o", "x.png"], "x.png is neither .html nor .svg", "name the file so"),
    ):
        code = (
            "import sys; from trainer.curves import main; done = main(sys.argv[1:])\n"
            "assert 'torch' not in sys.modules\nsys.exit(done)"
        )
        command = [sys.executable, "-c", code, *words]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (2, "", f"error: {error}\nhint: {advice}\n")
