"""ED210: what dpkg lists in dist-packages, in a root folder laid out as Debian's."""

from dataclasses import replace
from hashlib import md5
from pathlib import Path

import pytest

from envdoctor.analysis.context import DoesNotApplyError
from envdoctor.checks import damaged_system_package
from envdoctor.checks.areas import not_checked, summarize
from envdoctor.facts.context import Options
from envdoctor.probes.venv.installed_files import InstalledFiles
from envdoctor.probes.venv.system_packages import SystemPackage, SystemPackages
from tests.factories import make_facts as facts
from tests.factories.make_reading import bare_host, read
from tests.factories.make_venv import make_venv

SITE = "usr/lib/python3/dist-packages"
FILES = {f"{SITE}/numpy/core.so": b"code", f"{SITE}/numpy-1.egg-info/PKG-INFO": b"Name: numpy\n"}


def _looked(tmp_path: Path, *, deep: bool = False, gone: str = "", changed: str = "") -> SystemPackages:
    root = tmp_path / "root"
    for name, data in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name != gone:
            path.write_bytes(b"other" if name == changed else data)
    info = root / "var/lib/dpkg/info"
    info.mkdir(parents=True)
    # A page of the manual is removed by many images, and by no import missed.
    rows = [f"{md5(data, usedforsecurity=False).hexdigest()}  {name}" for name, data in FILES.items()]
    (info / "python3-numpy:amd64.md5sums").write_text("\n".join([*rows, f"{'0' * 32}  usr/share/man/f2py.1.gz", ""]))
    (info / "bash.md5sums").write_text(f"{'0' * 32}  {SITE}/not/looked/at.py\n")
    host = replace(bare_host(tmp_path / "home", PYTHONPATH=str(root / SITE)), root=root)
    return read(make_venv(tmp_path / "venv").prefix, host, Options(deep=deep)).fact(SystemPackages)


@pytest.mark.parametrize(
    ("gone", "severity", "name"),
    [
        (f"{SITE}/numpy/core.so", "error", "numpy/core.so"),
        (f"{SITE}/numpy-1.egg-info/PKG-INFO", "warning", "numpy-1.egg-info/PKG-INFO"),
    ],
)
def test_finds_ed210_a_file_that_dpkg_lists(tmp_path: Path, gone: str, severity: str, name: str) -> None:
    files = InstalledFiles(
        owners=(facts.owner("pip"),), faults=(), contested=(), shared_equal=0, outside=(), malformed=()
    )
    case = facts.case(_looked(tmp_path, gone=gone), files)
    (finding,) = damaged_system_package.run(case)
    assert finding.severity == severity
    assert finding.title == "python3-numpy:amd64, a package of the system's: 1 missing of 2 files"
    assert finding.evidence == (f"missing: {name}",)
    assert finding.remediation.commands == ("sudo apt-get install --reinstall python3-numpy:amd64",)
    assert summarize("Installed files", case)[1].endswith("; of 2 that dpkg lists, 1 missing")


def test_finds_ed210_other_contents_with_deep_only(tmp_path: Path) -> None:
    wheel_over_it = f"{SITE}/numpy/core.so"
    assert _looked(tmp_path / "plain", changed=wheel_over_it).damaged == ()
    (finding,) = damaged_system_package.run(facts.case(_looked(tmp_path / "deep", deep=True, changed=wheel_over_it)))
    assert (finding.severity, finding.evidence) == (
        "warning",
        ("of other contents than dpkg recorded: numpy/core.so",),
    )


@pytest.mark.parametrize("deep", [False, True])
def test_passes_ed210_whole_packages(tmp_path: Path, *, deep: bool) -> None:
    looked = _looked(tmp_path, deep=deep)
    assert looked == SystemPackages(on_path=True, files=2, damaged=(), metadata=("numpy-1.egg-info",))
    assert list(damaged_system_package.run(facts.case(looked))) == []
    with pytest.raises(DoesNotApplyError):
        list(damaged_system_package.run(facts.case(SystemPackages(on_path=False, files=0, damaged=()))))


def test_a_package_without_a_list_of_files_is_not_called_checked() -> None:
    """An egg-info has no RECORD; Debian's are looked at by dpkg's lists, if there are any."""
    site = "/usr/lib/python3/dist-packages"
    debian = facts.distribution("numpy", folder="numpy-1.egg-info", site=site, has_record=False)
    by_setup = facts.distribution("thing", folder="thing-1.egg-info", has_record=False)
    installed = facts.distributions(debian, by_setup)
    broken = SystemPackage(name="python3-numpy", missing=(), changed=(), files=9)
    known = SystemPackages(on_path=True, files=9, damaged=(broken,), metadata=("numpy-1.egg-info",))
    others = replace(known, metadata=("pip-1.egg-info",))
    unknown = SystemPackages(on_path=True, files=0, damaged=())
    assert "the files of 1 distribution without a RECORD" in not_checked(facts.case(installed, known))[0]
    for section in (others, unknown):
        assert "the files of 2 distributions without a RECORD" in not_checked(facts.case(installed, section))[0]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"origin": "user site"}, True),
        ({"origin": "user site", "has_record": True}, False),
        ({"origin": "user site", "unreadable": True}, False),  # another check's
        ({}, False),  # ED205's
    ],
)
def test_a_dist_info_without_a_record_where_ed205_does_not_look(changes: dict[str, object], *, said: bool) -> None:
    installed = facts.distributions(facts.distribution("thing", **{"has_record": False, **changes}))
    assert ("the files of 1 distribution without a RECORD" in str(not_checked(facts.case(installed)))) == said


def test_only_the_folder_of_dpkgs_lists_counts(tmp_path: Path) -> None:
    other = tmp_path / "opt/lib/python3/dist-packages"
    other.mkdir(parents=True)
    host = bare_host(tmp_path / "home", PYTHONPATH=str(other))
    assert not read(make_venv(tmp_path / "venv").prefix, host).fact(SystemPackages).on_path
    (tmp_path / "root/usr/lib/python3/dist-packages").mkdir(parents=True)
    (tmp_path / "root/lib").symlink_to("usr/lib")
    merged = replace(
        host, root=tmp_path / "root", environ={"PYTHONPATH": str(tmp_path / "root/lib/python3/dist-packages")}
    )
    assert read(tmp_path / "venv", merged).fact(SystemPackages).on_path
