"""Attacks against whole commands: each one answers, runs nothing, changes nothing, and says what it did not look at."""

import io
import os
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard

from envdoctor.app.caches import snapshots
from envdoctor.cache import manifest as manifests
from envdoctor.cache import snapshot
from envdoctor.cache.layout import Root
from envdoctor.cache.manifest import Manifest
from envdoctor.cache.runtime_key import run_script
from envdoctor.cache.snapshot import Purpose, describe
from envdoctor.probes.venv import distributions
from envdoctor.probes.venv.distributions import Distributions
from tests.factories.answered import answered
from tests.factories.forked import forked
from tests.factories.make_cache import KEY, filled, manifest_of, shared_object, write
from tests.factories.make_incident import Incident
from tests.factories.make_reading import bare_host, read
from tests.factories.make_venv import make_venv
from tests.factories.run_envdoctor import COMMAND, Outcome, environment, run_envdoctor


def _pipe(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)


PIPES = {
    "packages": ("{info}/RECORD", "{info}/METADATA", "{site}/torch/__init__.py", "{site}/a.pth"),
    "metadata": ("{info}/METADATA", "{info}/WHEEL", "{info}/direct_url.json", "{info}/entry_points.txt"),
    "records": ("cache/.envdoctor/made.json", "cache/.envdoctor/quarantine/20261129T101500Z-1/record.json",
                ".envdoctor/gate.log", "cache/xy/cxyz0.main.so", "pyproject.toml"),
    "venv": (".venv/pyvenv.cfg", ".venv/bin/x", ".git"),
}  # fmt: skip


@pytest.mark.parametrize("where", PIPES)
def test_every_command_answers(project: Incident, where: str) -> None:
    site = project.venv.site_packages
    info = project.venv.dist_info("torch")
    for place in PIPES[where]:
        _pipe(project.root / place.format(site=site, info=info))
    answered(project)


def test_the_gates_log_is_its_owners(project: Incident) -> None:
    old = os.umask(0)
    try:
        answered(project, ("run", "-p", "small", "--venv", ".venv", "--gate", "off", "--reason", "r", "--", "true"))
    finally:
        os.umask(old)
    assert (project.root / ".envdoctor/gate.log").stat().st_mode & 0o777 == 0o600


def _archive(path: Path, document: bytes) -> None:
    info = tarfile.TarInfo("manifest.json")
    info.size = len(document)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as made:
        made.addfile(info, io.BytesIO(document))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(zstandard.compress(buffer.getvalue()))


def test_a_manifest_of_nothing_but_tables(tmp_path: Path) -> None:
    store = tmp_path / "store"
    _archive(store / "bomb.tar.zst", b'{"schema": 1, "files": [' + b"{}," * 30_000_000 + b"{}]}")
    made = manifest_of(filled(tmp_path / "cache"))
    snapshot.save(store / "mine.tar.zst", made)
    host = bare_host(tmp_path / "home", ENVDOCTOR_CACHE_STORE=str(store))
    found = forked(lambda: snapshots(host).data.found, megabytes=300)
    assert [bool(item.get("problem") or item.get("error")) for item in found] == [True, False], found


def test_more_metadata_folders_than_anybody_installs_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    venv = make_venv(tmp_path / "venv")
    for at in range(5):
        (venv.site_packages / f"d{at}-1.dist-info").mkdir()
    monkeypatch.setattr(distributions, "_MOST_FOLDERS", 3)
    found = read(venv.prefix).fact(Distributions)
    assert [item.name for item in found.items] == ["d0", "d1", "d2"]
    assert found.unreadable == (f"{venv.site_packages}: 2 metadata folders not read, there are more than 3 in all",)


def _cache(folder: Path, *words: str | Path) -> Outcome:
    extra = {"TORCHINDUCTOR_CACHE_DIR": str(folder / "cache"), "ENVDOCTOR_CACHE_STORE": str(folder / "store")}
    return run_envdoctor("cache", *words, "--venv", folder / "venv", folder=folder, extra=extra)


def _saved(folder: Path, manifest: Manifest) -> Path:
    path = folder / "given.tar.zst"
    snapshot.save(path, manifest)
    return path


def test_an_archive_writes_into_no_other_kind_of_cache(tmp_path: Path) -> None:
    make_venv(tmp_path / "venv")
    extensions = Root(kind="torch_extensions", path=tmp_path / "made", found_via="x")
    write(extensions.path / "py312/fused/fused.so", shared_object())
    path = _saved(tmp_path, describe([extensions, filled(tmp_path / "graphs")], KEY, Purpose(name="given", profile="")))
    refused = _cache(tmp_path, "restore", path, "--force")
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.startswith("error: given.tar.zst has files of torch_extensions too; nothing was taken from it\n")
    assert not (tmp_path / "home/.cache/torch_extensions").exists()
    assert not (tmp_path / "cache").exists()
    merged = _cache(tmp_path, "restore", path, "--force", "--include", "torch_extensions")
    assert merged.code == 0, merged.err
    assert "is code that torch will run, and nothing says who made it" in merged.err
    assert (tmp_path / "home/.cache/torch_extensions/py312/fused/fused.so").read_bytes() == shared_object()


def test_a_snapshot_that_does_not_say_its_stack_is_refused(tmp_path: Path) -> None:
    make_venv(tmp_path / "venv")
    silent = tuple(replace(part, known=False) for part in KEY)
    path = _saved(tmp_path, replace(manifest_of(filled(tmp_path / "graphs"), name="given"), key=silent))
    refused = _cache(tmp_path, "restore", path)
    assert (refused.code, (tmp_path / "cache").exists()) == (1, False)
    assert "  - torch.version: the snapshot does not say\n" in refused.err
    assert _cache(tmp_path, "restore", path, "--force").code == 0


def test_an_archive_cannot_claim_a_profile(tmp_path: Path) -> None:
    make_venv(tmp_path / "venv")
    claim = replace(
        manifest_of(filled(tmp_path / "graphs"), name="given", profile="good"), made_at="2099-01-01T00:00:00Z"
    )
    assert _cache(tmp_path, "restore", _saved(tmp_path, claim), "--force").code == 0
    kept = manifests.load(tmp_path / "cache/.envdoctor/given.json")
    assert kept is not None
    assert kept.profile == ""


def test_a_report_on_a_full_disk_leaves_the_former_one(project: Incident) -> None:
    report = project.root / "report.json"
    report.write_text("the former one")
    limited = 'ulimit -f 1; exec "$@"'
    done = subprocess.run(
        ["bash", "-c", limited, "bash", *COMMAND, "fingerprint", ".venv", "-o", "report.json"],
        cwd=project.root, env=environment(project.root), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, report.read_text()) == (2, "the former one")
    assert done.stderr.startswith("error: cannot write report.json: ")
    assert [path.name for path in project.root.iterdir() if "report" in path.name] == ["report.json"]


def test_lock_says_which_file_names_indexes(tmp_path: Path) -> None:
    (tmp_path / "wheels").mkdir()
    (tmp_path / "uv.toml").write_text('find-links = ["wheels"]\nno-index = true\n')
    (tmp_path / "requirements.txt").write_text("no-such-thing==1\n")
    said = run_envdoctor("lock", "requirements.txt", "--python", "3.12", "--machine", "x86_64", folder=tmp_path)
    assert said.err.startswith("note: packages are taken from the places that [TMP]/uv.toml names, too\n")


def test_live_takes_no_module_of_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('not yours')\n")
    python = make_venv(tmp_path / "venv").python
    script = "import json, sys\nprint(sys.argv[1] + json.dumps(json.__file__))"
    found = run_script(python, script, (), {"PATH": os.environ["PATH"]}, tmp_path)
    assert isinstance(found, str)
    assert not found.startswith(str(tmp_path))
