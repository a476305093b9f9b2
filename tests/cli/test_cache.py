"""The cache commands as a person meets them: whole outputs and exit codes. The venv has no torch: that is a key too."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import cast

import jsonschema
import pytest

from envdoctor.app import cache_gc
from envdoctor.app.result import Dialog, Result
from envdoctor.cache import snapshot
from envdoctor.cache.gc import Wish
from envdoctor.cache.key_parts import KeyPart
from envdoctor.cache.manifest import Manifest, dump, parse
from envdoctor.catalog.cache_kinds import NAMES
from envdoctor.doctor.workspace import Workspace
from envdoctor.facts.processes import command_line, strings
from envdoctor.report import schemas
from envdoctor.report.commands.cache_gc import text
from envdoctor.report.style import Style
from tests.cli.test_schemas import OF_A_FILLED_CACHE
from tests.factories.make_cache import KEY, filled, manifest_of
from tests.factories.make_profile import make_profile
from tests.factories.make_venv import make_venv
from tests.factories.run_envdoctor import COMMAND, Outcome, environment, run_envdoctor
from tests.factories.schemas import closed


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_venv(tmp_path_factory.mktemp("bare") / "venv").prefix


def cache(
    folder: Path, command: str, *arguments: str | Path, venv: Path | None = None, extra: Mapping[str, str] | None = None
) -> Outcome:
    variables = {"TORCHINDUCTOR_CACHE_DIR": str(folder / "cache"), "ENVDOCTOR_CACHE_STORE": str(folder / "store")}
    named = ("--venv", venv) if venv else ()
    return run_envdoctor("cache", command, *arguments, *named, folder=folder, extra=variables | dict(extra or {}))


def foreign(folder: Path, key: tuple[KeyPart, ...] = KEY, profile: str = "") -> Manifest:
    """Put a snapshot of another machine into the store and return its manifest."""
    manifest = replace(manifest_of(filled(folder / "elsewhere"), name="other", profile=profile), key=key)
    snapshot.save(folder / "store/other.tar.zst", manifest)
    return manifest


def test_cold_saved_restored(tmp_path: Path, venv: Path) -> None:
    cold = cache(tmp_path, "status", venv=venv)
    assert (cold.code, cold.err) == (1, "")
    assert cold.out.splitlines()[:5] == [
        f"The compile cache of {venv} is cold",
        "  - no file is in any cache folder: everything will be compiled",
        "",
        "inductor: [TMP]/cache (TORCHINDUCTOR_CACHE_DIR) is absent",
        "triton: [TMP]/home/.triton/cache (default) is absent",
    ]
    assert cold.out.splitlines()[-1] == (
        "hint: `envdoctor cache restore NAME` fills it, or `envdoctor cache warm`, for a profile (`envdoctor profiles` "
        "lists them)"
    )
    filled(tmp_path / "cache")
    assert cache(tmp_path, "status", venv=venv).code == 3
    saved = cache(tmp_path, "save", "mine", venv=venv)
    assert (saved.code, saved.err) == (0, "")
    assert saved.out.splitlines()[-1] == (
        f"on your word: {venv} filled these caches; `save` cannot prove it, `envdoctor cache warm` does"
    )
    assert saved.out.splitlines()[0] == (
        "Saved mine: [N] files, 0.0 MB, 1 autograd graph, 1 autotune result, 1 c++ kernel, 1 fx graph, "
        "1 python wrapper, 1 triton kernel"
    ).replace("[N]", "10")
    (tmp_path / "cache").rename(tmp_path / "away")
    restored = cache(tmp_path, "restore", "mine", venv=venv)
    assert (restored.code, restored.out, restored.err) == (
        0,
        "Restored mine: 10 files added, 0 replaced, 0 left as they were (0 of them newer), 0.0 MB\n"
        "  inductor: [TMP]/cache\n",
        "",
    )
    hit = cache(tmp_path, "status", venv=venv)
    assert (hit.code, hit.out.splitlines()[:3]) == (
        3,
        [
            f"The compile cache of {venv} will hit, if this environment filled it",
            "  - every part of the key is what it was on [TIME], and so is every file, by its hash",
            "  - that this environment filled it is what mine says, and was not measured: `cache save` takes your word "
            "for it",
        ],
    )
    listed = cache(tmp_path, "list")
    assert listed.out.startswith("mine: [TIME], key ")
    (found,) = json.loads(cache(tmp_path, "list", "--json").out)["snapshots"]
    assert (found["name"], found["files"], found["profile"]) == ("mine", 10, None)


def test_a_save_keeps_the_proof_of_the_warm_up_before_it(tmp_path: Path, venv: Path) -> None:
    filled(tmp_path / "cache")
    cache(tmp_path, "save", "mine", venv=venv)
    (note,) = (tmp_path / "cache/.envdoctor").glob("mine.json")
    warmed = replace(parse(note.read_bytes(), "mine"), name="good", proven=True)  # as `cache warm` leaves it
    note.with_name("good.json").write_bytes(dump(warmed))
    saved = cache(tmp_path, "save", "mine", "--force", venv=venv)
    assert saved.out.splitlines()[-1] == f"proven by the warm-up of [TIME]: they serve {venv}"
    note.with_name("good.json").unlink()
    hit = cache(tmp_path, "status", venv=venv)
    assert (hit.code, hit.out.splitlines()[0]) == (0, f"The compile cache of {venv} will hit")
    # What came later was not seen by the warm-up.
    note.with_name("good.json").write_bytes(dump(replace(warmed, files=warmed.files[1:])))
    note.unlink()
    later = cache(tmp_path, "save", "later", venv=venv)
    assert later.out.splitlines()[-1].startswith("on your word: ")


def test_what_changes_the_cache_has_documents(tmp_path: Path, venv: Path) -> None:
    filled(tmp_path / "cache")
    commands: list[tuple[str, list[str], Path | None]] = [
        ("save", ["mine"], venv),
        ("export", ["out.bin"], None),
        ("import", ["out.bin"], None),
        ("gc", ["--max-size", "0", "--yes"], venv),
        ("undo", [], None),
        ("restore", ["mine", "--dry-run"], venv),
        ("restore", ["mine"], venv),
    ]
    for name, arguments, target in commands:
        outcome = cache(tmp_path, name, *arguments, "--json", venv=target)
        assert outcome.code == 0, outcome.err
        jsonschema.validate(json.loads(outcome.out), closed(json.loads(schemas.read(f"cache-{name}"))))
    # A warm-up that proves itself needs torch: tests/integration/test_cache_inductor.py.
    assert {f"cache-{name}" for name, _, _ in commands} | {"cache-warm"} == set(OF_A_FILLED_CACHE)


def test_another_machines_snapshot_is_refused_with_the_reason(tmp_path: Path, venv: Path) -> None:
    foreign(tmp_path)
    refused = cache(tmp_path, "restore", "other", venv=venv)
    assert (refused.code, refused.out) == (1, "")
    lines = refused.err.splitlines()
    assert lines[0] == "error: other.tar.zst was made for another machine or stack; nothing was taken from it:"
    assert "  - gpu.name: the snapshot has `NVIDIA H200`, this is not set" in lines
    assert "  - torch.version: the snapshot has `2.13.0+cpu`, this is not set" in lines
    assert lines[-1] == ("hint: restore that stack first, or add `--force` to merge entries that will not hit here")
    assert not (tmp_path / "cache").exists()
    forced = cache(tmp_path, "restore", "other", "--force", venv=venv)
    assert (forced.code, (tmp_path / "cache/fxgraph").is_dir()) == (0, True)
    assert "warning: gpu.name: the snapshot has `NVIDIA H200`, this is not set" in forced.err.splitlines()
    assert cache(tmp_path, "status", venv=venv).out.splitlines()[0] == f"The compile cache of {venv} will miss"


def test_a_dry_run_restores_nothing(tmp_path: Path, venv: Path) -> None:
    foreign(tmp_path)
    shown = cache(tmp_path, "restore", "other", "--force", "--dry-run", venv=venv)
    assert shown.out == (
        "Would merge other: [N] files, 0.0 MB, 1 autograd graph, 1 autotune result, 1 c++ kernel, 1 fx graph, "
        "1 python wrapper, 1 triton kernel\n"
    ).replace("[N]", "10")
    assert not (tmp_path / "cache").exists()


def test_a_profile_pins_its_snapshot(tmp_path: Path, venv: Path) -> None:
    manifest = foreign(tmp_path, profile="good")
    make_profile(tmp_path, "good", [], lines=["[compile]", f'cache_digest = "{"0" * 64}"'])
    refused = cache(tmp_path, "restore", "other", "--force", "--profile", "good", venv=venv)
    assert refused.code == 1
    assert refused.err.startswith("error: other has the digest ")
    assert refused.err.splitlines()[0].endswith(f", profile good pins {'0' * 64}; nothing was taken from it")
    make_profile(tmp_path, "good", [], lines=["[compile]", f'cache_key = "{manifest.key_digest}"'])
    assert cache(tmp_path, "restore", "other", "--force", "--profile", "good", venv=venv).code == 0


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (
            ("restore", "absent"),
            "there is no snapshot at [TMP]/store/absent.tar.zst",
            "`envdoctor cache save NAME` makes one",
        ),
        (
            ("save", "../evil"),
            "`../evil` is not a name for a snapshot",
            "use letters, digits, dots, dashes and underscores",
        ),
        (
            ("save", "x", "--include", "home"),
            "`home` is not a kind of cache",
            f"known: {', '.join(NAMES)}",
        ),
        (
            ("gc",),
            "nothing was asked for",
            "`--older-than DAYS`, `--max-size MB`, `--damaged`, `--other-keys` or `--purge`",
        ),
        (("warm",), "no profile to warm for", "`envdoctor profiles` lists them: `envdoctor cache warm --profile NAME`"),
        (("statsu",), "there is no command `statsu`", "did you mean `envdoctor cache status`?"),
    ],
)
def test_bad_input(tmp_path: Path, venv: Path, arguments: tuple[str, ...], message: str, hint: str) -> None:
    done = cache(tmp_path, *arguments, venv=venv)
    assert (done.code, done.out, done.err) == (2, "", f"error: {message}\n\nhint: {hint}\n")


def test_nothing_to_save_undo_export_or_import(tmp_path: Path, venv: Path) -> None:
    assert cache(tmp_path, "save", "mine", venv=venv).err == (
        "error: there is no compiled graph to save in [TMP]/cache, [TMP]/home/.triton/cache\n\n"
        "hint: `envdoctor cache warm` fills it, for a profile (`envdoctor profiles` lists them)\n"
    )
    assert cache(tmp_path, "undo") == Outcome(code=0, out="nothing to undo: no clean-up is in quarantine\n", err="")
    assert cache(tmp_path, "undo", "20261129T101500Z-1").err == (
        "error: no clean-up has the stamp 20261129T101500Z-1\n\n"
        "hint: `envdoctor cache gc --purge --dry-run` lists what there is\n"
    )
    assert cache(tmp_path, "export", "out.bin").err == (
        "error: there is no compiled graph in [TMP]/cache\n\n"
        "hint: `envdoctor cache warm` fills it, for a profile (`envdoctor profiles` lists them)\n"
    )
    assert cache(tmp_path, "import", "absent.bin").err == (
        "error: cannot read absent.bin: No such file or directory\n\nhint: name the file torch's cache was written to\n"
    )
    assert cache(tmp_path, "list").out == "no snapshots in [TMP]/store\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "tmp"]


def test_a_second_save_of_a_name_needs_force(tmp_path: Path, venv: Path) -> None:
    filled(tmp_path / "cache")
    assert cache(tmp_path, "save", "mine", venv=venv).code == 0
    assert cache(tmp_path, "save", "mine", venv=venv).err == (
        "error: [TMP]/store/mine.tar.zst exists\n\nhint: choose another name, or replace it with `--force`\n"
    )
    assert cache(tmp_path, "save", "mine", "--force", venv=venv).code == 0


def test_a_clean_up_is_shown_asked_and_undone(tmp_path: Path, venv: Path) -> None:
    filled(tmp_path / "cache")
    for path in (tmp_path / "cache/xy").iterdir():
        os.utime(path, (1_000_000_000, 1_000_000_000))
    before = {path for path in (tmp_path / "cache").rglob("*") if path.is_file()}
    shown = cache(tmp_path, "gc", "--older-than", "30", "--dry-run", venv=venv)
    assert (shown.code, shown.out) == (
        0,
        "2 entries can go, 0.0 MB\n"
        "  inductor/xy/csome.best_config (autotune result, 0.0 MB): old\n"
        "  inductor/xy/cxyz0 (c++ kernel, 0.0 MB): old\n",
    )
    unasked = cache(tmp_path, "gc", "--older-than", "30", venv=venv)
    assert (unasked.code, unasked.err) == (
        2,
        shown.out
        + "error: confirmation needed, but stdin is not a terminal\n\nhint: check the plan, then add `--yes`\n",
    )
    assert {path for path in (tmp_path / "cache").rglob("*") if path.is_file()} == before
    done = cache(tmp_path, "gc", "--older-than", "30", "--yes", venv=venv)
    assert done.code == 0
    assert not (tmp_path / "cache/xy").exists()
    undone = cache(tmp_path, "undo")
    assert undone.out == "inductor: 3 files back in [TMP]/cache (0.0 MB)\n"
    assert {path for path in (tmp_path / "cache").rglob("*") if path.is_file()} == before


def test_undo_deletes_nothing_that_it_does_not_put_back(tmp_path: Path, venv: Path) -> None:
    filled(tmp_path / "cache")
    assert cache(tmp_path, "gc", "--older-than", "0", "--yes", venv=venv).code == 0
    (folder,) = (tmp_path / "cache/.envdoctor/quarantine").iterdir()
    taken = sorted(path for path in (folder / "files").rglob("*") if path.is_file())
    former = taken[0]
    again = tmp_path / "cache" / former.relative_to(folder / "files")
    content = former.read_bytes()
    again.parent.mkdir(parents=True, exist_ok=True)
    again.write_text("compiled again")
    undone = cache(tmp_path, "undo").out.splitlines()
    assert undone[0].startswith(f"inductor: {len(taken) - 1} files back in [TMP]/cache (")
    assert undone[0].endswith("), 1 were made again meanwhile and stay")
    left = f"[TMP]/{folder.relative_to(tmp_path)}"
    assert undone[1:] == [f"  the former ones are in {left}; `envdoctor cache gc --purge` deletes them for good"]
    assert (again.read_text(), former.read_bytes()) == ("compiled again", content)
    # What is removed next is what the next undo puts back.
    other = tmp_path / "cache" / taken[1].relative_to(folder / "files")
    time.sleep(1.1)  # a stamp is a second
    assert cache(tmp_path, "gc", "--older-than", "0", "--yes", venv=venv).code == 0
    assert not other.exists()
    cache(tmp_path, "undo")
    assert other.exists()


class _Asked:
    """A person who starts a job while the question stands, and then agrees."""

    def __init__(self, start: Callable[[], None]) -> None:
        self.start, self.notes = start, list[str]()

    def show(self, result: Result) -> None:
        assert result.data.plan.removals

    def agreed(self, question: str) -> bool:
        assert question.endswith("?")
        self.start()
        return True

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_a_job_that_starts_while_the_question_stands_keeps_its_cache(
    tmp_path: Path, venv: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    kernel = next(filled(tmp_path / "cache").path.rglob("*.cubin"))
    with ExitStack() as held:
        asked = _Asked(lambda: held.enter_context(kernel.open("rb")) and None)
        with monkeypatch.context() as patched:
            patched.setattr("envdoctor.app.cache_gc.os.getpid", lambda: 1)  # this process is the job
            options = cache_gc.CleanupOptions(entries=Wish(older_than_seconds=0))
            done = cache_gc.gc(Workspace.open(str(venv), ""), options, cast("Dialog", asked))
    data = done.data
    assert (data.status, data.taken, [user.root for user in data.users]) == ("cleaned", (), ["inductor"])
    assert asked.notes == ["6 entries stay: a process uses the cache by now"]
    assert text(data, Style()) == (
        f"6 entries stay: a live process uses the cache\ninductor is used by process {os.getpid()}: "
        f"{command_line(strings(Path('/proc/self/cmdline')))}\n"
    )
    assert kernel.is_file()


def test_a_profiles_entries_stay_and_a_purge_is_for_good(tmp_path: Path, venv: Path) -> None:
    filled(tmp_path / "cache")
    make_profile(tmp_path, "good", [])
    assert cache(tmp_path, "save", "kept", "--profile", "good", venv=venv).code == 0
    everything = cache(tmp_path, "gc", "--older-than", "0", "--dry-run", venv=venv)
    assert everything.out == "no entry can go\n6 entries stay: profile good keeps them\n"
    (tmp_path / "profiles/good.toml").unlink()
    assert (
        cache(tmp_path, "gc", "--older-than", "0", "--dry-run", "--keep-for", "good", venv=venv).out == everything.out
    )
    cleaned = cache(tmp_path, "gc", "--older-than", "0", "--yes", venv=venv)
    assert cleaned.err.splitlines()[0] == "6 entries can go, 0.0 MB"
    (folder,) = (tmp_path / "cache/.envdoctor/quarantine").iterdir()
    assert cleaned.out == (
        f"10 files, 0.0 MB, moved to [TMP]/cache/.envdoctor/quarantine/{folder.name}\n\n"
        "`envdoctor cache undo` puts them back; `envdoctor cache gc --purge` deletes them for good\n"
    )
    assert list((tmp_path / "cache/.envdoctor/quarantine").iterdir()) != []
    purged = cache(tmp_path, "gc", "--purge", "--yes", venv=venv)
    assert (purged.code, list((tmp_path / "cache/.envdoctor/quarantine").iterdir())) == (0, [])
    assert cache(tmp_path, "undo").out == "nothing to undo: no clean-up is in quarantine\n"


def test_the_profiles_launch_decides_where_the_cache_lies(tmp_path: Path, venv: Path) -> None:
    make_profile(tmp_path, "good", [], environment={"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "profiles-own")})
    found = json.loads(cache(tmp_path, "status", "--json", "--profile", "good", venv=venv).out)
    assert found["roots"][0]["path"] == "[TMP]/profiles-own"
    assert (found["state"], found["profile"], found["schema_version"]) == ("cold", "good", 1)


def test_a_warm_up_that_compiles_nothing_is_asked_whether_it_should(tmp_path: Path, venv: Path) -> None:
    words = json.dumps([sys.executable, "-c", "print('{\"fxgraph_cache_hit\": 0}')"])
    make_profile(tmp_path, "good", [], lines=["[compile]", f"warm_command = {words}"])
    done = cache(tmp_path, "warm", "--profile", "good", venv=venv)
    assert (done.code, done.err.splitlines()[-1]) == (
        1,
        "hint: look whether the warm-up compiles at all on this machine; compile.warm_command may say how it must",
    )


def _until(done: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not done():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_warm_up_that_is_stopped_leaves_nothing_running(tmp_path: Path, venv: Path, number: signal.Signals) -> None:
    # As a real one is: a process that starts another, which holds the GPU.
    words = json.dumps(["sh", "-c", "sleep 4141 & echo $! $$ >pids.new && mv pids.new pids && wait"])
    make_profile(tmp_path, "good", [], lines=["[compile]", f"warm_command = {words}"])
    command = [*COMMAND, "cache", "warm", "--profile", "good", "--venv", str(venv)]
    started = subprocess.Popen(command, cwd=tmp_path, env=environment(tmp_path), stderr=subprocess.PIPE, text=True)
    with started as process:
        _until(lambda: (tmp_path / "pids").exists() or process.poll() is not None)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    pids = (tmp_path / "pids").read_text().split()
    _until(lambda: not any(strings(Path("/proc", pid, "cmdline")) for pid in pids))
    if number != signal.SIGKILL:
        assert (process.returncode, err.splitlines()[-1]) == (130, "error: interrupted")


def test_a_warm_up_that_is_not_proven_leaves_no_manifest(tmp_path: Path, venv: Path) -> None:
    script = tmp_path / "warm.py"
    script.write_text('print(\'{"fxgraph_cache_hit": 1, "fxgraph_cache_miss": 2}\')')
    words = json.dumps([sys.executable, str(script)])
    make_profile(tmp_path, "good", [], lines=["[compile]", f"warm_command = {words}"])
    done = cache(tmp_path, "warm", "--profile", "good", venv=venv)
    assert done.code == 1
    assert done.err.splitlines()[-3:] == [
        "error: the cache of good is not proven warm: the second run counted 2 fxgraph_cache_miss",
        "",
        "hint: a graph the cache cannot hold is compiled at every start: TORCH_LOGS=+inductor names it",
    ]
    assert not (tmp_path / "store").exists()
