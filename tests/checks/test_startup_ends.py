"""ED604 over start-up code that ends every start: each against the interpreter itself."""

import subprocess
from pathlib import Path

import pytest

from tests.factories.examine_venv import commands_of, mend, outline, verdict_of
from tests.factories.make_reading import bare_host
from tests.factories.make_venv import Venv, make_venv, rewrite
from tests.factories.make_wheel import make_wheel
from tests.factories.run_envdoctor import run_envdoctor

ENDS = {
    "raises": "raise SystemExit('no')\n",
    "a class": "raise SystemExit\n",
    "interrupted": "raise KeyboardInterrupt\n",
    "calls": "import sys\nprint('moved', file=sys.stderr)\nsys.exit(3)\n",
    "with code 0": "import sys\nsys.exit(0)\n",
    "under another name": "from sys import exit as leave\nleave()\n",
    "a builtin": "exit(3)\n",
    "at once": "import os\ntry:\n    os._exit(3)\nexcept BaseException:\n    pass\n",
    "in a function": "import sys\ndef main():\n    x = 1\n    sys.exit(x)\nmain()\n",
    "both ways": "import os, sys\nif os.environ.get('A'):\n    sys.exit(1)\nelse:\n    raise SystemExit(2)\n",
    "without a module": "import sys\ntry:\n    import no_such_hook\nexcept ImportError:\n    sys.exit('no hook')\n",
    "finally": "import sys\ntry:\n    x = 1\nfinally:\n    sys.exit(1)\n",
    "in a module": "import stopper\n",
}
RUNS = {
    "an exception": "raise ImportError('no')\n",
    "a syntax error": "def (\nraise SystemExit\n",
    "caught": "import sys\ntry:\n    sys.exit(1)\nexcept SystemExit:\n    pass\n",
    "after an exception": "import no_such_hook, sys\nsys.exit(1)\n",
    "on a condition": "import os, sys\nif os.environ.get('NEVER'):\n    sys.exit(1)\n",
    "as a program": "import sys\nif __name__ == '__main__':\n    sys.exit(1)\n",
    "never called": "import sys\ndef main():\n    sys.exit(1)\n",
    "left before": "import sys\ndef main():\n    if sys.path:\n        return\n    sys.exit(1)\nmain()\n",
    "its own exit": "def exit(code):\n    pass\nexit(1)\n",
    "at the end": "import atexit, sys\natexit.register(sys.exit, 1)\n",
}


@pytest.fixture
def venv(tmp_path: Path) -> Venv:
    return make_venv(tmp_path / "venv", make_wheel(tmp_path / "wheels", "thing", "1"))


def _starts(venv: Venv, **more: str) -> bool:
    done = subprocess.run(
        [venv.python, "-c", "print('here')"], env=more, capture_output=True, text=True, check=False, cwd="/"
    )
    return done.stdout == "here\n"


def _errors(venv: Venv, tmp_path: Path) -> list[str]:
    return [line for line in outline(verdict_of(venv.prefix), tmp_path) if line.startswith("error")]


@pytest.mark.parametrize("text", ENDS.values(), ids=ENDS)
def test_finds_ed604_a_customize_module_that_ends_every_start(venv: Venv, tmp_path: Path, text: str) -> None:
    (venv.site_packages / "stopper.py").write_text("raise SystemExit(4)\n")
    (venv.site_packages / "sitecustomize.py").write_text(text)
    assert not _starts(venv)
    assert _errors(venv, tmp_path) == ["error ED604 sitecustomize.py ends every start of this interpreter"]
    mend(verdict_of(venv.prefix).findings[0], wheels=tmp_path / "wheels", cache=tmp_path / ".uv-cache")
    assert _starts(venv)
    assert verdict_of(venv.prefix).findings == ()


@pytest.mark.parametrize("text", RUNS.values(), ids=RUNS)
def test_passes_ed604_over_a_customize_module_that_python_survives(venv: Venv, tmp_path: Path, text: str) -> None:
    (venv.site_packages / "sitecustomize.py").write_text(text)
    assert _starts(venv)
    title = "sitecustomize.py runs code at every start of this interpreter; it is owned by no distribution"
    assert outline(verdict_of(venv.prefix), tmp_path) == [f"warning ED604 {title}"]


@pytest.mark.parametrize(
    ("lines", "ends"),
    [
        ("import sys; sys.exit(3)\n", True),
        ("import stopper\n", True),
        ("import sys; import stopper\n", True),
        ("# comment\n\nimport os; raise SystemExit\n", True),
        ("import sys; __import__('os')._exit(1)\n", True),
        # exit() is made after the .pth files are read.
        ("import sys; exit(3)\n", False),
        # What follows an exception is left out.
        ("import no_such_hook\nimport sys; sys.exit(3)\n", False),
        ("import sys; sys.argv and None\n", False),
    ],
)
def test_an_import_line_that_ends_every_start(venv: Venv, tmp_path: Path, lines: str, ends: bool) -> None:  # noqa: FBT001
    (venv.site_packages / "stopper.py").write_text("raise SystemExit(4)\n")
    (venv.site_packages / "extra.pth").write_text(lines)
    assert _starts(venv) is not ends
    told = ["error ED604 extra.pth ends every start of this interpreter"] if ends else []
    assert _errors(venv, tmp_path) == told


def test_says_where_it_ends_and_how_to_start_again(venv: Venv, tmp_path: Path) -> None:
    (venv.site_packages / "stopper.py").write_text("import os\nos._exit(4)\n")
    (venv.site_packages / "extra.pth").write_text("import stopper\n")
    (finding,) = verdict_of(venv.prefix).findings
    site = venv.site_packages
    assert finding.evidence == (
        f"{site}/stopper.py line 2: os._exit(4)",
        "it leaves Python at once, whatever is to be run, which extra.pth imports",
        f"{site}/extra.pth (site-packages) is owned by no distribution",
    )
    assert finding.remediation.commands == (f"mv {site}/extra.pth {site}/extra.pth.aside",)


def test_one_that_a_distribution_owns_and_somebody_changed(venv: Venv, tmp_path: Path) -> None:
    files = {"hook.py": "x = 1\n", "hook.pth": "import hook\n"}
    hook = make_wheel(tmp_path / "wheels", "hook", "1", files=files)
    venv = make_venv(tmp_path / "other", hook)
    rewrite(venv.site_packages / "hook.py", "import sys; sys.exit()\n")
    assert not _starts(venv)
    finding = verdict_of(venv.prefix).findings[0]
    assert (finding.title, len(commands_of(finding, tmp_path))) == ("hook.pth ends every start of this interpreter", 2)
    mend(finding, wheels=tmp_path / "wheels", cache=tmp_path / ".uv-cache")
    assert _starts(venv)
    assert verdict_of(venv.prefix).findings == ()


def test_one_that_was_published_so(tmp_path: Path) -> None:
    files = {"hook.py": "import sys; sys.exit()\n", "hook.pth": "import hook\n"}
    venv = make_venv(tmp_path / "venv", make_wheel(tmp_path / "wheels", "hook", "1", files=files))
    assert not _starts(venv)
    (finding,) = verdict_of(venv.prefix).findings
    assert commands_of(finding, tmp_path)[1] == "uv pip uninstall --python [TMP]/venv/bin/python hook"
    mend(finding, wheels=tmp_path / "wheels", cache=tmp_path / ".uv-cache")
    assert _starts(venv)
    assert verdict_of(venv.prefix).findings == ()


def test_of_two_the_first_runs(venv: Venv, tmp_path: Path) -> None:
    first = tmp_path / "first"
    first.mkdir()
    (first / "sitecustomize.py").write_text("")
    (venv.site_packages / "sitecustomize.py").write_text("raise SystemExit\n")
    assert _starts(venv, PYTHONPATH=str(first))
    verdict = verdict_of(venv.prefix, bare_host(tmp_path / "home", PYTHONPATH=str(first)))
    assert [item.evidence[0] for item in verdict.findings if item.code == "ED604"] == [
        f"{first}/sitecustomize.py (PYTHONPATH)"
    ]


def test_usercustomize_where_the_user_site_is_off(venv: Venv) -> None:
    (venv.site_packages / "usercustomize.py").write_text("raise SystemExit\n")
    assert _starts(venv)
    assert verdict_of(venv.prefix).findings == ()
    config = venv.prefix / "pyvenv.cfg"
    rewrite(config, config.read_text().replace("packages = false", "packages = true"))
    assert not _starts(venv)
    assert verdict_of(venv.prefix).findings[0].title == "usercustomize.py ends every start of this interpreter"


def test_repair_says_what_comes_first(venv: Venv, tmp_path: Path) -> None:
    (venv.site_packages / "stop.pth").write_text("import sys; sys.exit(3)\n")
    rewrite(venv.site_packages / "thing/__init__.py", "damaged\n")
    source = {"UV_FIND_LINKS": str(tmp_path / "wheels"), "UV_NO_INDEX": "1"}
    done = run_envdoctor("repair", "--venv", venv.prefix, "--yes", folder=tmp_path, extra=source)
    site = str(venv.site_packages).replace(str(tmp_path), "[TMP]")
    assert (done.code, done.err.partition("error: ")[2]) == (
        4,
        "stop.pth ends every start of this interpreter, so that nothing can be installed into it (ED604)\n"
        f"\nhint: first: mv {site}/stop.pth {site}/stop.pth.aside\n",
    )
