"""RECORDs that say more than which files there are: other installers' rows, and distributions outside the venv."""

import re
import sys
from pathlib import Path

from envdoctor.facts.context import Options
from envdoctor.probes.venv.deep_files import DeepFiles
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.installed_files import InstalledFiles
from tests.factories.make_reading import bare_host, read
from tests.factories.make_venv import make_venv, rewrite, run_uv
from tests.factories.make_wheel import make_wheel

MINOR = f"python{sys.version_info[0]}.{sys.version_info[1]}"


def test_rows_that_name_folders_are_no_files_to_check(tmp_path: Path) -> None:
    """As virtualenv writes them: every `__pycache__`, there or not; with --symlink-app-data the top folders too."""
    venv = make_venv(tmp_path / "venv", make_wheel(tmp_path / "wheels", "thing", "1.0"))
    record = venv.dist_info("thing") / "RECORD"
    rows = "thing,,\nthing-1.0.dist-info,,\nthing/__pycache__,,\nthing/deep/__pycache__,,\n"
    rewrite(record, record.read_text() + rows)
    files = read(venv.prefix).fact(InstalledFiles)
    assert (files.faults, files.contested, files.outside, files.malformed) == ((), (), (), ())
    # A row that states a hash promises a file.
    rewrite(record, record.read_text().replace("thing,,", "thing,sha256=abc,4096"))
    (fault,) = read(venv.prefix).fact(InstalledFiles).faults
    assert fault.path.endswith("site-packages/thing")


def test_what_a_record_says_of_itself_is_no_promise(tmp_path: Path) -> None:
    """As a wheel had it, whose RECORD was empty or hashed: the installer adds rows, and a reinstall says it again."""
    venv = make_venv(tmp_path / "venv", make_wheel(tmp_path / "wheels", "thing", "1.0"))
    record = venv.dist_info("thing") / "RECORD"
    own = f"{record.parent.name}/RECORD"
    for said in (f"{own},,0", f"{own},sha256=abc,7", f'"{own}",sha256=abc,7'):
        rewrite(record, re.sub(f'(?m)^"?{re.escape(own)}.*$', said, record.read_text()))
        assert said in record.read_text()
        reading = read(venv.prefix, options=Options(deep=True))
        assert (reading.fact(InstalledFiles).faults, reading.fact(DeepFiles).altered) == ((), ())


def test_a_distribution_of_the_base_or_the_user_is_inside_its_own_prefix(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv")
    base, home = tmp_path / "base", tmp_path / "home"
    for prefix, name in ((base, "ofbase"), (home / ".local", "ofuser")):
        wheel = make_wheel(tmp_path / "wheels", name, "1", scripts={name: f"{name}:main"})
        flags = ("--no-deps", "--python", venv.python, "--prefix", prefix)
        run_uv("pip", "install", "-q", *flags, wheel, cache=tmp_path / ".uv-cache")
    config = venv.prefix / "pyvenv.cfg"
    text = re.sub("(?m)^home = .*$", f"home = {base}/bin", config.read_text())
    rewrite(config, re.sub("(?m)^include-system.*$", "include-system-site-packages = true", text))
    reading = read(venv.prefix, bare_host(home))
    assert {item.name: item.origin for item in reading.fact(Distributions).items} == {
        "ofuser": "user site",
        "ofbase": "base site-packages",
    }
    files = reading.fact(InstalledFiles)
    assert (files.faults, files.outside) == ((), ())
    record = next((base / "lib" / MINOR / "site-packages").glob("ofbase-*.dist-info")) / "RECORD"
    rewrite(record, record.read_text() + "../../../../victim,,\n")
    assert read(venv.prefix, bare_host(home)).fact(InstalledFiles).outside == (("ofbase", "../../../../victim"),)
