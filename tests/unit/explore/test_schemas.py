"""What `why --json` and `impact --json` print, held to the shipped schemas and to exactly their keys."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import envdoctor.report
from tests.factories.make_cuda_stack import CudaWheels, make_cuda_wheels
from tests.factories.make_venv import Venv, make_venv
from tests.factories.run_envdoctor import run_envdoctor
from tests.factories.schemas import closed

SCHEMAS = Path(envdoctor.report.__file__).parent / "schema"
NCCL = "nvidia/nccl/lib/libnccl.so.2"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> CudaWheels:
    return make_cuda_wheels(tmp_path_factory.mktemp("wheels"))


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory, wheels: CudaWheels) -> Venv:
    """Return a stack one of whose libraries is gone."""
    made = make_venv(tmp_path_factory.mktemp("stack") / "venv", *wheels.all())
    (made.site_packages / "nvidia/cudnn/lib/libcudnn.so.9").unlink()
    return made


def _schema(name: str) -> Any:
    return json.loads((SCHEMAS / f"{name}-1.json").read_text())


@pytest.mark.parametrize("name", ["why", "impact"])
def test_the_schema_is_a_schema(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(_schema(name))


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("libnccl.so.2", {"library"}),
        ("libcudnn.so.9", {"library"}),
        (NCCL, {"file", "library"}),
        ("torch", {"module", "distribution"}),
        ("nvidia", {"module"}),
        ("nvidia-nccl-cu12", {"distribution"}),
    ],
)
def test_why(venv: Venv, tmp_path: Path, name: str, kinds: set[str]) -> None:
    path = str(venv.site_packages / name) if name == NCCL else name
    done = run_envdoctor("why", path, "--venv", venv.prefix, "--json", folder=tmp_path)
    document = json.loads(done.out)
    jsonschema.validate(document, closed(_schema("why")))
    assert {kind for kind in ("library", "file", "module", "distribution") if document[kind] is not None} == kinds


@pytest.mark.parametrize(("name", "harmful"), [("nvidia-nccl-cu12", True), ("torch", False)])
def test_impact_remove(venv: Venv, tmp_path: Path, name: str, *, harmful: bool) -> None:
    done = run_envdoctor("impact", "remove", name, "--venv", venv.prefix, "--json", folder=tmp_path)
    document = json.loads(done.out)
    jsonschema.validate(document, closed(_schema("impact")))
    assert (document["harmful"], bool(document["gone"]), done.code) == (harmful, True, int(harmful))


@pytest.mark.parametrize("name", ["why", "impact"])
def test_a_document_of_another_shape_is_refused(name: str) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"schema_version": 1, "tool": {"name": "envdoctor", "version": "0"}}, _schema(name))
