"""`envdoctor sbom`: what is on disk as CycloneDX, valid by the library's own schema."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from tests.factories.make_venv import Venv, install, make_venv, rewrite
from tests.factories.make_wheel import make_wheel
from tests.factories.run_envdoctor import run_envdoctor


@pytest.fixture
def venv(tmp_path: Path) -> Venv:
    """Make a venv with a file conflict, a changed, a missing and a foreign file."""
    shared = {"shared/config.py": "A = 1\n"}
    first = make_wheel(tmp_path / "wheels", "first", "1.0", files={"first.py": "1", **shared}, requires=["second>=2"])
    second = make_wheel(tmp_path / "wheels", "second", "2.0", files={"second.py": "2", "shared/config.py": "A = 2\n"})
    third = make_wheel(tmp_path / "wheels", "third", "3.0", files={"third/a.py": "a", "third/b.py": "b"})
    made = make_venv(tmp_path / "venv", first, third)
    install(made, second)
    rewrite(made.site_packages / "third/a.py", "other")
    (made.site_packages / "third/b.py").unlink()
    (made.site_packages / "stray.py").write_text("x = 1\n")
    return made


def written(venv: Venv, *words: str) -> dict[str, Any]:
    done = run_envdoctor("sbom", str(venv.prefix), *words, "-o", "sbom.json", folder=venv.prefix.parent)
    assert (done.code, done.out) == (0, ""), done.err
    text = (venv.prefix.parent / "sbom.json").read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    document: dict[str, Any] = json.loads(text)
    return document


def test_what_is_on_disk_is_valid_and_hashed(venv: Venv) -> None:
    document = written(venv)
    site = venv.site_packages.relative_to(venv.prefix).as_posix()
    components = {one["name"]: one for one in document["components"]}
    assert {name: one["purl"] for name, one in components.items()} == {
        "first": "pkg:pypi/first@1.0",
        "second": "pkg:pypi/second@2.0",
        "third": "pkg:pypi/third@3.0",
    }
    properties = {
        name: [(one["name"].removeprefix("envdoctor:"), one["value"]) for one in component["properties"]]
        for name, component in components.items()
    }
    # As many as its RECORD has rows besides its own: how many uv adds is uv's to change.
    files = {name: str((venv.dist_info(name) / "RECORD").read_text().count("\n") - 1) for name in components}
    conflict = f"{site}/shared/config.py, also of {{}}; the bytes are those of second"
    assert properties == {
        "first": [
            ("differs-from-record", f"{site}/shared/config.py does not have the recorded hash"),
            ("file-conflict", conflict.format("second")),
            ("files", files["first"]),
        ],
        "second": [("file-conflict", conflict.format("first")), ("files", files["second"])],
        "third": [
            ("differs-from-record", f"{site}/third/a.py has 5 bytes, not the recorded 1"),
            ("differs-from-record", f"{site}/third/b.py is missing"),
            ("files", files["third"]),
        ],
    }
    whole = document["metadata"]["component"]
    assert [one["value"] for one in whole["properties"] if one["name"] == "envdoctor:foreign-file"] == [
        f"{site}/stray.py"
    ]
    listed = [file for one in (*components.values(), whole) for file in one["components"]]
    assert len(listed) == 3 + 2 + 1  # each RECORD, what differs and is there, the foreign file
    for file in listed:
        content = (venv.prefix / file["name"]).read_bytes()
        assert file["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(content).hexdigest()}]
    needs = {one["ref"]: one.get("dependsOn") for one in document["dependencies"]}
    assert needs["first@1.0"] == ["second@2.0"]
    assert needs["environment"] == ["first@1.0", "second@2.0", "third@3.0"]


def test_two_distributions_of_one_name_are_both_listed(venv: Venv) -> None:
    old, same = (venv.site_packages / f"{name}.dist-info" for name in ("second-1.0", "Second-2.0"))
    for folder, version in ((old, "1.0"), (same, "2.0")):
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: second\nVersion: {version}\n")
    document = written(venv, "--files")
    site = venv.site_packages.relative_to(venv.prefix).as_posix()
    second = {one["bom-ref"]: one["version"] for one in document["components"] if one["name"] == "second"}
    assert second == {
        "second@2.0": "2.0",
        f"second@1.0:{site}/second-1.0.dist-info": "1.0",
        f"second@2.0:{site}/Second-2.0.dist-info": "2.0",
    }
    shadowed = [
        one["value"] for one in document["components"] for one in one["properties"] if "shadowed" in one["name"]
    ]
    assert sorted(shadowed) == [f"{site}/Second-2.0.dist-info", f"{site}/second-1.0.dist-info"]
    needs = {one["ref"]: one.get("dependsOn") for one in document["dependencies"]}
    assert needs["first@1.0"] == ["second@2.0"]
    assert set(second) < set(needs["environment"])


def test_every_file_and_the_same_each_time(venv: Venv) -> None:
    document, again = written(venv, "--files"), written(venv, "--files")
    assert document["serialNumber"] == again["serialNumber"]
    assert document["components"] == again["components"]
    third = next(one for one in document["components"] if one["name"] == "third")
    on_disk = list(venv.dist_info("third").iterdir())
    assert len(third["components"]) == len(on_disk) + 1  # and a.py; b.py is not there
    for file in third["components"]:
        content = (venv.prefix / file["name"]).read_bytes()
        assert file["hashes"][0]["content"] == hashlib.sha256(content).hexdigest()


def test_what_is_no_environment_is_refused(tmp_path: Path) -> None:
    done = run_envdoctor("sbom", "none", folder=tmp_path)
    assert (done.code, done.out, done.err) == (
        2,
        "",
        "error: [TMP]/none does not exist\n\n"
        "hint: name a venv folder or its interpreter: `envdoctor check path/to/.venv`\n",
    )
