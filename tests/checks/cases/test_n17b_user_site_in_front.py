"""The user site shadows an environment that is not a venv: one cause, and nothing to install."""

import json
import shutil
import sysconfig
from pathlib import Path

from tests.factories.examine_venv import commands_of, environment_after, outline, verdict_of
from tests.factories.interpreter import printed
from tests.factories.make_reading import bare_host
from tests.factories.make_torch import make_torch
from tests.factories.make_venv import run_uv
from tests.factories.make_wheel import make_wheel

FOLDER = f"python{sysconfig.get_python_version()}"
VERSION = "import tokenizers; print(tokenizers.__version__)"


def _conda_like(prefix: Path) -> Path:
    """Lay out an interpreter with a library of its own, as conda does; return the interpreter."""
    library = prefix / "lib" / FOLDER
    (library / "site-packages").mkdir(parents=True)
    (prefix / "bin").mkdir()
    (prefix / "conda-meta").mkdir()
    record = {"name": "python", "version": "3", "build": "h1", "channel": "conda-forge", "files": []}
    (prefix / "conda-meta" / "python-3-h1.json").write_text(json.dumps(record))
    base = Path(sysconfig.get_path("stdlib"))
    shutil.copy(Path(sysconfig.get_config_var("BINDIR")) / FOLDER, prefix / "bin" / FOLDER)
    (prefix / "bin/python").symlink_to(FOLDER)
    for path in base.iterdir():
        if path.name != "site-packages":
            (library / path.name).symlink_to(path)
    return prefix / "bin/python"


def test_n17b_one_cause_that_explains_the_rest(tmp_path: Path) -> None:
    python = _conda_like(tmp_path / "c")
    wheels, cache = tmp_path / "wheels", tmp_path / ".uv-cache"
    own = [
        make_torch(wheels, "2.9.0+cu128", "12.8"),
        make_wheel(wheels, "tokenizers", "0.22.2"),
        make_wheel(wheels, "tokenizers-user", "5.6.0", requires=["tokenizers<=0.23.0,>=0.22.0"]),
    ]
    run_uv("pip", "install", "-q", "--python", python, "--no-deps", *own, cache=cache)
    home = tmp_path / "home"
    site = home / ".local/lib" / FOLDER / "site-packages"
    old = make_wheel(tmp_path / "old", "tokenizers", "0.19.1")
    run_uv("pip", "install", "-q", "--target", site, "--no-deps", old, cache=cache)
    assert printed(python, VERSION, HOME=str(home)) == "0.19.1"

    host = bare_host(home)
    verdict = verdict_of(tmp_path / "c", host)
    assert outline(verdict, tmp_path) == [
        f"warning ED410 tokenizers 0.19.1 would be imported from [TMP]/home/.local/lib/{FOLDER}/site-packages "
        f"(user site) instead of 0.22.2 in [TMP]/c/lib/{FOLDER}/site-packages",
        "  warning ED405 tokenizers has 2 metadata folders; the one in "
        f"[TMP]/home/.local/lib/{FOLDER}/site-packages comes first",
        "  warning ED406 tokenizers-user 5.6.0 requires tokenizers<=0.23.0,>=0.22.0, and 0.19.1 from "
        f"[TMP]/home/.local/lib/{FOLDER}/site-packages comes first",
    ]
    # No command of any of them installs into an environment that has the right one.
    commands = {command for finding in verdict.findings for command in commands_of(finding, tmp_path)}
    assert commands == {"export PYTHONNOUSERSITE=1"}
    assert printed(python, VERSION, HOME=str(home), PYTHONNOUSERSITE="1") == "0.22.2"
    assert verdict_of(tmp_path / "c", environment_after(host, *commands)).findings == ()
