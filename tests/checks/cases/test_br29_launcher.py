"""torchrun is not the venv's torchrun (KempnerForge issue 68, pytorch issue 92132); and the venv that was moved."""

from dataclasses import replace
from pathlib import Path

from tests.factories.examine_venv import commands_of, environment_after, first, mend, verdict_of
from tests.factories.make_reading import bare_host
from tests.factories.make_torch import make_torch
from tests.factories.make_venv import Venv, make_venv

SCRIPTS = {"torchrun": "torch.distributed.run:main"}


def _user_script(folder: Path, interpreter: str) -> Path:
    folder.mkdir(parents=True)
    script = folder / "torchrun"
    script.write_text(f"#!{interpreter}\nprint('not this one')\n")
    script.chmod(0o755)
    return script


def test_br29_a_user_script_stands_in_front(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv", make_torch(tmp_path / "wheels", "2.10.0", None, scripts=SCRIPTS))
    local = _user_script(tmp_path / "home/.local/bin", "/opt/miniforge/bin/python3.12").parent
    host = bare_host(tmp_path / "home")
    activated = replace(
        host,
        environ={**host.environ, "PATH": f"{local}:{venv.prefix}/bin:/usr/bin", "VIRTUAL_ENV": str(venv.prefix)},
    )
    verdict = verdict_of(venv.prefix, activated)
    assert first(verdict, tmp_path) == (
        "ED103",
        "torchrun on PATH is [TMP]/home/.local/bin/torchrun, which starts /opt/miniforge/bin/python3.12, "
        "not this environment's",
    )
    assert commands_of(verdict.findings[0], tmp_path) == ['export PATH=[TMP]/venv/bin:"$PATH"']
    assert verdict.findings[0].remediation.text.replace(str(tmp_path), "[TMP]") == (
        "Put the environment first on PATH, or launch by its own interpreter: "
        "`[TMP]/venv/bin/python -m torch.distributed.run …`"
    )
    healed = environment_after(activated, *verdict.findings[0].remediation.commands)
    assert verdict_of(venv.prefix, healed).findings == ()


def test_br29_a_venv_that_is_not_activated_is_not_blamed(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv", make_torch(tmp_path / "wheels", "2.10.0", None, scripts=SCRIPTS))
    local = _user_script(tmp_path / "home/.local/bin", "/usr/bin/python3").parent
    (tmp_path / "another").mkdir()
    host = bare_host(tmp_path / "home")
    for path, named in ((f"{local}:/usr/bin", ""), (f"{local}:{venv.prefix}/bin", str(tmp_path / "another"))):
        environ = {**host.environ, "PATH": path} | ({"VIRTUAL_ENV": named} if named else {})
        assert verdict_of(venv.prefix, replace(host, environ=environ)).findings == ()


def test_br29_another_python_stands_in_front(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv")
    other = make_venv(tmp_path / "other")
    host = bare_host(tmp_path / "home", PATH=f"{other.prefix}/bin:{venv.prefix}/bin:/usr/bin:/bin")
    verdict = verdict_of(venv.prefix, host)
    assert first(verdict, tmp_path) == ("ED103", "python on PATH is [TMP]/other/bin/python, not this environment's")
    assert verdict.findings[0].severity == "warning"
    mended = environment_after(host, *verdict.findings[0].remediation.commands)
    assert verdict_of(venv.prefix, mended).findings == ()


def _moved(root: Path, *wheels: Path, name: str = "moved") -> Venv:
    venv = make_venv(root / "venv", *wheels)
    return Venv(prefix=venv.prefix.rename(root / name))


def test_br29_a_moved_venv_has_stale_scripts(tmp_path: Path) -> None:
    moved = _moved(tmp_path, make_torch(tmp_path / "wheels", "2.10.0", None, scripts=SCRIPTS))
    verdict = verdict_of(moved.prefix)
    assert first(verdict, tmp_path) == (
        "ED103",
        "1 script starts [TMP]/venv/bin/python, which does not exist: this venv was moved or copied",
    )
    mend(verdict.findings[0], wheels=tmp_path / "wheels", cache=tmp_path / ".uv-cache")
    assert verdict_of(moved.prefix).findings == ()
    assert (moved.prefix / "bin/torchrun").read_text().splitlines()[0] == f"#!{moved.python}"
    assert f"{moved.prefix}" in (moved.prefix / "bin/activate").read_text()


def test_br29_a_path_too_long_for_a_shebang_is_read_from_the_trampoline(tmp_path: Path) -> None:
    root = tmp_path / ("long" * 20) / ("and a blank " * 8)
    root.mkdir(parents=True)
    torch = make_torch(tmp_path / "wheels", "2.10.0", None, scripts=SCRIPTS)
    healthy = make_venv(root / "stays", torch)
    assert (healthy.prefix / "bin/torchrun").read_text().startswith("#!/bin/sh\n'''exec'")
    assert verdict_of(healthy.prefix).findings == ()
    assert first(verdict_of(_moved(root, torch).prefix), root)[1] == (
        "1 script starts [TMP]/venv/bin/python, which does not exist: this venv was moved or copied"
    )
