"""What the executable of a venv is, told from its files."""

import subprocess
import sys
from pathlib import Path

import pytest

from envdoctor.probes.venv.base_python import minor_of, problem_of
from tests.factories.make_elf import make_program, make_shared
from tests.factories.make_venv import make_venv


def test_the_running_interpreter_is_known_by_its_files(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv")
    asked = "import sys; print('%d.%d' % sys.version_info[:2])"
    said = subprocess.run([venv.python, "-c", asked], capture_output=True, text=True, check=True).stdout.strip()
    assert minor_of(venv.python.resolve()) == said
    assert problem_of(venv.python) == ""


def test_a_minor_version_is_told_by_name(tmp_path: Path) -> None:
    named = make_program(tmp_path / "bin/python3.9")
    assert (minor_of(named), minor_of(named.rename(tmp_path / "bin/python3.14t"))) == ("3.9", "3.14")


def test_a_minor_version_is_told_by_the_library_it_needs(tmp_path: Path) -> None:
    library = make_shared(tmp_path / "lib/libpython3.9.so.1.0", exports=["Py_BytesMain"])
    flags = ("-Wl,--no-as-needed", str(library))
    assert minor_of(make_program(tmp_path / "bin/python", flags=flags)) == "3.9"


@pytest.mark.parametrize(("includes", "minor"), [(("python3.9",), "3.9"), (("python3.9", "python3.10"), ""), ((), "")])
def test_a_minor_version_is_told_by_the_only_include_folder(
    tmp_path: Path, includes: tuple[str, ...], minor: str
) -> None:
    for name in includes:
        (tmp_path / "include" / name).mkdir(parents=True)
    assert minor_of(make_program(tmp_path / "bin/python")) == minor


def test_what_cannot_be_started(tmp_path: Path) -> None:
    folder, text, script, plain = (tmp_path / name for name in ("folder", "text", "script", "plain"))
    folder.mkdir()
    for file, content in ((text, "no program"), (script, "#!/bin/sh\n"), (plain, "#!/bin/sh\n")):
        file.write_text(content)
        file.chmod(0o644 if file is plain else 0o755)
    assert [problem_of(at) for at in (folder, text, script, plain, tmp_path / "gone", Path(sys.executable))] == [
        "is a folder",
        "is neither a program (ELF) nor a script (#!)",
        "",
        "may not be executed by anybody (chmod +x)",
        "",
        "",
    ]
