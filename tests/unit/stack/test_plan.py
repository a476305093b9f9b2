"""Facts to a plan, and the plan as people read it."""

from pathlib import Path

import pytest

from envdoctor.documents.profile_store import ProfileRef
from envdoctor.model.frozen import replace
from envdoctor.model.plan import BaseInterpreter, Plan, Source, Unavailable
from envdoctor.model.profile import LockWanted, Profile, PythonWanted, TorchWanted
from envdoctor.probes.venv.distributions import Distribution
from envdoctor.report.plan_text import plan_text, size
from envdoctor.stack import restore
from envdoctor.stack.build import groups
from envdoctor.stack.plan import Present, assemble
from envdoctor.standards.lock import LockedPackage
from envdoctor.wheels.wheel_origins import WheelOrigins
from tests.factories.make_facts import distribution
from tests.factories.make_reading import bare_host

PROFILE = Profile(
    schema=1,
    name="good",
    summary="",
    python=PythonWanted(versions=("3.12",)),
    torch=TorchWanted(version="2.10.0+cu128"),
    lock=LockWanted(file="good.txt"),
)
INTERPRETER = BaseInterpreter(path="/usr/bin/python3.12", version="3.12.4", found_via="PATH", markers={}, tag="cp312")
LOCKED = {
    name: LockedPackage(name=name, version=version, hashes=("a" * 64,))
    for name, version in (("numpy", "2.4.4"), ("torch", "2.10.0"), ("triton", "3.6.0"), ("yarl", "1.23.0"))
}
SOURCES = {
    "numpy": Source(kind="index", location="https://host/simple", cached=True, bytes=0),
    "torch": Source(kind="find-links", location="/wheels", filename="torch.whl", bytes=0),
    "triton": Source(kind="index", location="https://me:secret@mirror/simple", bytes=188_266_850),
}


def _plan(present: Present, sources: dict[str, Source], gone: tuple[Unavailable, ...] = ()) -> Plan:
    file = ProfileRef(profile=PROFILE, path=Path("/p/profiles/good.toml"), lock_path=Path("/p/lockfiles/good.txt"))
    return assemble(
        target=Path("/srv/venv"),
        keep=Path("/srv/.envdoctor/venv/generations/0001"),
        file=file,
        interpreter=INTERPRETER,
        present=present,
        locked=LOCKED,
        found=WheelOrigins(sources=sources, unavailable=gone),
        warnings=("a constraint contradicts",),
    )


def _has(*items: tuple[str, str, str]) -> dict[str, Distribution]:
    found = {}
    for name, version, origin in items:
        url = origin.removeprefix("editable ").removeprefix("from ")
        found[name] = distribution(name, version, direct_url=url, editable=origin.startswith("editable"))
    return found


def test_a_contaminated_venv_and_four_kinds_of_sources() -> None:
    present = Present(
        exists=True,
        version="3.11.7",
        system_site_packages=True,
        installed=_has(
            ("numpy", "2.4.4.0", ""),
            ("sglang", "0.5", ""),
            ("torch", "2.11.0", ""),
            ("trainer", "0.1", "editable from file:///srv/my%20trainer"),
        ),
    )
    plan = _plan(present, {**SOURCES, "yarl": Source(kind="configured")})
    assert plan_text(plan) == (
        "envdoctor restore  /srv/venv   profile good\n"
        "\n"
        "  interpreter  CPython 3.12.4  /usr/bin/python3.12 (PATH)\n"
        "  lock         /p/lockfiles/good.txt\n"
        "  packages     4: 1 in uv's cache, 1 from the configured sources, 1 from /wheels, "
        "1 from https://****@mirror/simple; download 188.3 MB and 1 of unknown size\n"
        "  venv         CPython 3.11.7; 2 removed, 2 added, 1 changed, 1 as locked\n"
        "    - sglang 0.5\n"
        "    - torch 2.11.0 -> 2.10.0\n"
        "    - trainer 0.1\n"
        "\n"
        "warning: a constraint contradicts\n"
        "\n"
        "warning: trainer 0.1 (editable from file:///srv/my%20trainer) is not in the lock and will not be in the "
        "new venv; to add it afterwards: `uv pip install --python /srv/venv/bin/python --no-deps --editable "
        "'/srv/my trainer'`\n"
        "\n"
        "warning: the old venv also sees the system's site-packages; the new one sees its own packages only\n"
        "\n"
        "  1. build a new venv with 4 packages beside /srv/venv\n"
        "  2. compare the sha256 of every file with its RECORD, and the packages with the lock; "
        "what an earlier restore read and nobody has changed is not read again\n"
        "  3. examine the copy as `envdoctor check` does\n"
        "  4. swap it in, in one step; the old venv is kept at /srv/.envdoctor/venv/generations/0001\n"
    )


def test_a_new_venv_with_one_package_that_is_not_to_be_had() -> None:
    gone = Unavailable(name="yarl", version="1.23.0", reason="no configured source has it", hint="fetch it")
    plan = _plan(Present(exists=False, installed={}), SOURCES, (gone,))
    text = plan_text(plan)
    assert "  packages     4: 1 in uv's cache, 1 from /wheels, 1 from https://****@mirror/simple, 1 not found; " in text
    assert "\nerror: yarl 1.23.0 was not found: no configured source has it\n  hint: fetch it\n" in text
    assert "  venv         does not exist yet\n" in text
    others = "`--rehearse` builds and verifies the others\n"
    assert text.endswith(f"\n\n  nothing is restored until that wheel is there; {others}")
    two = plan_text(_plan(Present(exists=False, installed={}), SOURCES, (gone, gone)))
    assert two.endswith(f"\n\n  nothing is restored until these 2 wheels are there; {others}")


def test_one_run_of_uv_a_source_and_the_cache_first() -> None:
    plan = _plan(Present(exists=False, installed={}), {**SOURCES, "yarl": Source(kind="backend", location="cpu")})
    made = [
        (group.source.kind, [package.name for package in group.packages]) for group in groups(plan.packages, LOCKED)
    ]
    assert made == [("index", ["numpy"]), ("find-links", ["torch"]), ("index", ["triton"]), ("backend", ["yarl"])]


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1000, "1 kB"),
        (999_999, "1000 kB"),
        (1_000_000, "1.0 MB"),
        (7_640_000_000, "7.6 GB"),
        (2_000_000_000_000, "2.0 TB"),
    ],
)
def test_sizes_are_readable(count: int, text: str) -> None:
    assert size(count) == text


def test_lines_of_a_warning_look_where_pip_is_configured_to_look(tmp_path: Path) -> None:
    (tmp_path / "pip.conf").write_text("[global]\nextra-index-url = file:///srv/index\n")
    host = bare_host(tmp_path / "home", PIP_CONFIG_FILE="", SSL_CERT_FILE="/of/this/machine")
    line = "a is not in the lock; to add it afterwards: `uv pip install {}--editable /srv/a`"
    plan = replace(
        _plan(Present(exists=False, installed={}), SOURCES), target=str(tmp_path), warnings=("one", line.format(""))
    )
    more = "--index file:///srv/index --index-strategy unsafe-best-match "
    assert restore._sourced(plan, host).warnings == ("one", line.format(more))
