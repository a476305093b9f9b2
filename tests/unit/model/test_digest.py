"""The digest changes with everything a stack is, and with nothing else."""

from dataclasses import fields, replace
from typing import Any

import pytest

from envdoctor.compare.identity import digest_of, identity_of
from envdoctor.model.digest import Identity, Member, digest
from envdoctor.model.fingerprint import Fingerprint, Unread
from envdoctor.probes.loading.libraries import Libraries, Provider
from envdoctor.probes.venv.deep_files import AlteredFile, DeepFiles
from envdoctor.probes.venv.distribution_digests import Content, Contents
from envdoctor.probes.venv.installed_files import InstalledFiles
from envdoctor.probes.venv.startup_hooks import Hook, StartupHooks
from tests.factories import make_facts as facts

MEMBER = Member(name="a", version="1", content="0" * 64)
STACK = Identity(
    python="3.12",
    machine="x86_64",
    torch="2.10.0+cu128",
    torch_commit="abc",
    members=(MEMBER,),
    providers=(("libc.so.1", "a", "1"),),
)
OTHERS: dict[str, Any] = {
    "python": "3.13",
    "machine": "aarch64",
    "torch": "2.10.0+cpu",
    "torch_commit": "",
    "members": (replace(MEMBER, content="1" * 64),),
    "providers": (("libc.so.1", "b", "1"),),
    "deviations": ("x",),
}


def test_the_digest_is_fixed_for_good() -> None:
    # A change here makes every digest that somebody wrote down wrong: raise SCHEME with it.
    assert digest(STACK) == "sha256:239d9c783be4fc8e770b806dd2fcd0cb8e3dcae70891d08f79dd44947e04c9d4"


@pytest.mark.parametrize("name", [field.name for field in fields(Identity)])
def test_every_part_counts(name: str) -> None:
    assert digest(replace(STACK, **{name: OTHERS[name]})) != digest(STACK)


@pytest.mark.parametrize("change", [{"name": "b"}, {"version": "2"}, {"editable": True}, {"content": ""}])
def test_every_part_of_a_member_counts(change: dict[str, Any]) -> None:
    assert digest(replace(STACK, members=(replace(MEMBER, **change),))) != digest(STACK)


CONTENTS = Contents(items=(Content(name="torch", version="2.10.0", sha256="0" * 64, editable=False),))


def _whole(*sections: object, **changes: Any) -> Fingerprint:
    made = facts.fingerprint(*sections)
    return replace(made, sections=(*made.sections, CONTENTS, *changes.pop("more", ())), **changes)


def test_where_and_when_do_not_count() -> None:
    other = _whole(
        replace(facts.PYTHON, executable="/else/bin/python", home="/else", version="3.12.9", created_by="venv"),
        facts.variables(PATH="/else", OMP_NUM_THREADS="7"),
        StartupHooks(hooks=(Hook(path="/x/_virtualenv.pth", lines=("import y",), owner="", origin="site-packages"),)),
        target="/else",
        taken_at="2030-01-01T00:00:00Z",
    )
    assert digest_of(other) == digest_of(_whole())


@pytest.mark.parametrize(
    ("section", "deviation"),
    [
        (
            replace(facts.FILES, faults=(facts.missing("torch", "torch/a.so"),)),
            "torch: lib/python3.12/site-packages/torch/a.so: missing -1",
        ),
        (
            replace(facts.FILES, contested=(facts.contested("x.so", ("a", "1"), ("b", "2"), on_disk=("b",)),)),
            "lib/python3.12/site-packages/x.so: bytes of b",
        ),
        (
            StartupHooks(hooks=(Hook(path="/v/z.pth", lines=("import z",), owner="", origin="site-packages"),)),
            "z.pth: import z",
        ),
        (
            StartupHooks(hooks=(Hook(path="/v/sitecustomize.py", lines=(), owner="", origin="site-packages"),)),
            "sitecustomize.py: runs at start-up",
        ),
    ],
)
def test_what_is_not_as_recorded_counts(section: InstalledFiles | StartupHooks, deviation: str) -> None:
    assert identity_of(_whole(section)).deviations == (deviation,)
    assert digest_of(_whole(section)) != digest_of(_whole())


def test_what_only_deep_sees_counts() -> None:
    altered = AlteredFile(
        path="torch/x.py", owner="torch", recorded="sha256=a", found="sha256=b", links=1, cached_at=""
    )
    deep = DeepFiles(files=1, without_hash=0, bytecode=0, altered=(altered,), unverified=(), notes=())
    assert identity_of(_whole(more=(deep,))).deviations == ("torch: torch/x.py: altered sha256=b",)
    clean = replace(deep, altered=())
    assert digest_of(_whole(more=(clean,))) == digest_of(_whole())


def test_what_could_not_be_read_leaves_no_digest() -> None:
    assert digest_of(facts.fingerprint()) is None
    made = facts.fingerprint(unread=(Unread(section="Libraries", reason="no"),))
    assert digest_of(replace(made, sections=(*made.sections, CONTENTS))) is None


def test_an_editable_has_no_contents() -> None:
    editable = Contents(items=(replace(CONTENTS.items[0], editable=True),))
    made = facts.fingerprint()
    found = identity_of(replace(made, sections=(*made.sections, editable)))
    assert found.members == (Member(name="torch", version="2.10.0", content="", editable=True),)


def test_what_lies_outside_does_not_count() -> None:
    base = "/usr/lib/python3.12/site-packages/numpy"
    fault = replace(facts.missing("numpy", "numpy/a.so"), path=f"{base}/a.so")
    two = replace(facts.contested("x.so", ("numpy", "1"), ("b", "2"), on_disk=("b",)), path=f"{base}/x.so")
    altered = AlteredFile(path=f"{base}/x.py", owner="numpy", recorded="", found="", links=1, cached_at="")
    deep = DeepFiles(files=1, without_hash=0, bytecode=0, altered=(altered,), unverified=(), notes=())
    outside = Provider(
        soname="libblas.so.3", path=f"{base}/libblas.so.3", found_via="RPATH", needed_by="", stage="lazy",
        owner="numpy", owner_version="1", cuda_major="",
    )  # fmt: skip
    made = _whole(replace(facts.FILES, faults=(fault,), contested=(two,)), more=(deep,))
    seen = replace(made[Libraries], providers=(*made[Libraries].providers, outside))
    sections = tuple(seen if isinstance(one, Libraries) else one for one in made.sections)
    assert digest_of(replace(made, sections=sections)) == digest_of(_whole())
