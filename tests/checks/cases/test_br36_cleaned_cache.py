"""An install step wiped the compile cache, or a clean-up of /tmp did (sglang pull 34231, pytorch pull 151466)."""

from dataclasses import replace
from pathlib import Path

from envdoctor.model.profile import CompileWanted, Profile
from tests.factories import make_facts as facts
from tests.factories.examine_venv import commands_of, environment_after, outline, verdict_of
from tests.factories.make_cache import graph, write
from tests.factories.make_reading import bare_host
from tests.factories.make_torch import make_torch
from tests.factories.make_venv import make_venv


def _profile() -> Profile:
    return replace(
        facts.PROFILE,
        torch=replace(facts.PROFILE.torch, version="2.10.0", cuda=""),
        python=replace(facts.PROFILE.python, versions=("3.11", "3.12", "3.13", "3.14")),
        compile=CompileWanted(threads=1, cache_minimum_entries=2, cache_bytes=(3000, 5000), cold_minutes=6),
    )


def test_br36_a_wiped_cache_is_slow_and_not_wrong(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv", make_torch(tmp_path / "wheels", "2.10.0", None))
    cache = tmp_path / "keep/inductor"
    host = bare_host(tmp_path / "home", TORCHINDUCTOR_CACHE_DIR=str(cache))
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text("22 1 0:20 / / rw - ext4 /dev/sda1 rw\n")
    host = replace(host, proc=tmp_path / "proc")
    verdict = verdict_of(venv.prefix, host, profile=_profile())
    cold = next(finding for finding in verdict.findings if finding.code == "ED501")
    assert cold.title == (
        "the compile cache is cold: it holds no compiled graph or kernel, and the profile expects 3 kB and 2 files"
        "; expect about 6 minutes of compilation"
    )
    # A warning with its cost; nothing is deleted to fix it.
    assert (cold.severity, verdict.exit_code()) == ("warning", 0)
    assert commands_of(cold, tmp_path) == ["envdoctor cache warm --profile good --venv [TMP]/venv"]

    headers = write(cache / "precompiled_headers/x.h.gch", b"\0" * 8000)
    write(cache / "ab/cabc.py", b"x = 1\n" * 300)
    write(cache / "ab/cdef.py", b"x = 2\n" * 300)
    wrappers = verdict_of(venv.prefix, host, profile=_profile())
    (still,) = (finding for finding in wrappers.findings if finding.code == "ED501")
    assert (still.title, headers.stat().st_size) == (cold.title, 8000)
    assert still.evidence[0].endswith(": 2 files, 4 kB, beside 8 kB of precompiled headers")
    graph(cache)
    warm = verdict_of(venv.prefix, host, profile=_profile())
    assert "ED501" not in {finding.code for finding in warm.findings}


def test_br36_headers_alone_are_no_warm_cache_in_the_area_line(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv", make_torch(tmp_path / "wheels", "2.10.0", None))
    host = bare_host(tmp_path / "home", TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "inductor"))
    write(tmp_path / "inductor/precompiled_headers/x.h.gch", b"\0" * 8000)

    def line() -> tuple[str, str]:
        areas = verdict_of(venv.prefix, host).areas
        return next((area.state, area.summary) for area in areas if area.area == "Compile cache")

    assert line()[1] == "cold: no compiled graph or kernel"
    graph(tmp_path / "inductor")
    assert line() == ("ok", "inductor 1 graph, 16 bytes")


def test_br36_a_cache_under_tmp_does_not_last(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv", make_torch(tmp_path / "wheels", "2.10.0", None))
    host = bare_host(tmp_path / "home")
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text(
        f"22 1 0:20 / / rw - ext4 /dev/sda1 rw\n41 22 0:46 / {tmp_path}/ram rw - tmpfs tmpfs rw\n"
    )
    host = replace(host, proc=tmp_path / "proc", tmp=tmp_path / "ram", home=Path("/srv/me"))
    profile = replace(_profile(), compile=replace(_profile().compile, cache_minimum_entries=0, cache_bytes=(0, 5000)))
    verdict = verdict_of(venv.prefix, host, profile=profile)
    assert outline(verdict, tmp_path) == [
        "note ED502 the inductor cache lies where a reboot or a clean-up of /tmp empties it"
    ]
    mended = environment_after(host, *verdict.findings[0].remediation.commands)
    assert mended.environ["TORCHINDUCTOR_CACHE_DIR"] == "/srv/me/.cache/inductor"
    assert verdict_of(venv.prefix, mended, profile=profile).findings == ()


def test_br36_without_a_profile_the_default_place_is_as_good_as_any(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv", make_torch(tmp_path / "wheels", "2.10.0", None))
    verdict = verdict_of(venv.prefix, bare_host(tmp_path / "home", NNODES="1"))
    assert verdict.findings == ()
