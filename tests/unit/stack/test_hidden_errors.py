"""Which new errors of a repaired copy were there before, and which a repair may not swap in."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from envdoctor.analysis.context import CheckContext
from envdoctor.model.finding import Finding, Remediation
from envdoctor.model.verdict import BREAKS_IMPORT, STOPS_PYTHON
from envdoctor.probes.venv.distributions import Distribution
from envdoctor.probes.venv.installed_files import FileFault
from envdoctor.stack.hidden_errors import hidden
from envdoctor.stack.owner_graph import RecordRow, graph
from envdoctor.stack.record_audit import RecordAudit
from tests.factories import make_facts as facts

SOURCES = {
    "torchvision/__init__.py": "import torch\n",
    "audio/__init__.py": "from . import core\n",
    "audio/core.py": "from torch.nn import Module\n",
    "careful/__init__.py": "try:\n    import torch\nexcept ImportError:\n    torch = None\n",
    "late/__init__.py": "def use():\n    import torch\n",
}
REQUIRES = {
    "torch": ("nvidia-cudnn-cu12",),
    "torchvision": ("torch==2.10.0", "absent"),
    "late": ("wanted",),
}
NAMES = ("torch", "nvidia-cudnn-cu12", "torchvision", "audio", "careful", "late")
CUDNN = "lib/python3.12/site-packages/nvidia/cudnn/lib/libcudnn.so."


def _finding(code: str, subject: str, *causes: str) -> Finding:
    remedy = Remediation(text="")
    return Finding(
        code=code, name="", severity="error", confidence="high", title="", subject=subject, evidence=(),
        remediation=remedy, causes=causes,
    )  # fmt: skip


IMPORT, LATER = _finding("ED301", "libcudnn.so.9", BREAKS_IMPORT), _finding("ED304", "libnccl.so.2")
VISION, AUDIO, CAREFUL, LATE = (_finding("ED408", name) for name in ("torchvision", "audio", "careful", "late"))
DAMAGED, BOTH = _finding("ED202", "torchvision"), _finding("ED203", "torchvision / late")
ABSENT, WANTED = _finding("ED406", "absent"), _finding("ED406", "wanted")
STOPS = _finding("ED604", "stop.pth", STOPS_PYTHON, BREAKS_IMPORT)
ANOTHER_PYTHON = _finding("ED105", "/venv/bin/python", BREAKS_IMPORT)
LOST = (_finding("ED202", "torch", BREAKS_IMPORT), _finding("ED208", "torch", BREAKS_IMPORT))
STATIC = (_finding("ED403", "audio"), _finding("ED409", "audio"), _finding("ED410", "audio"))
BUILD = _finding("ED404", "build")
NEW = (IMPORT, LATER, VISION, AUDIO, CAREFUL, LATE, DAMAGED, BOTH, ABSENT, WANTED)
NEW += (STOPS, ANOTHER_PYTHON, *LOST, *STATIC, BUILD)
OF_TORCH = (IMPORT, LATER, VISION, AUDIO)
FAILS = _finding("ED301", "libc10.so", BREAKS_IMPORT)


class Scene:
    """A venv before and after a change, by hand but for the sources."""

    def __init__(self, site: Path) -> None:
        """Write the sources."""
        for path, text in SOURCES.items():
            (site / path).parent.mkdir(parents=True, exist_ok=True)
            (site / path).write_text(text)
        self.before = {
            name: facts.distribution(name, site=str(site), requires=REQUIRES.get(name, ())) for name in NAMES
        }
        self.build = facts.TORCH
        self.paths = {"nvidia-cudnn-cu12": (f"{CUDNN}9",), "torch": ("lib/python3.12/site-packages/torch/__init__.py",)}

    def revealed(
        self,
        *,
        faults: tuple[FileFault, ...] = (),
        errors: tuple[Finding, ...] = (),
        torn: tuple[str, ...] = (),
        versions: Mapping[str, str] | None = None,
        paths: Mapping[str, tuple[str, ...]] | None = None,
        outside: tuple[Distribution, ...] = (),
    ) -> list[Finding]:
        """Return what of NEW is let through after a change of versions ("": it went) or of files."""
        case = self._case(self.before, faults, outside)
        behind = hidden(case, errors, self._audit(self.before, torn, self.paths))
        after = {
            name: replace(item, version=(versions or {}).get(name, item.version)) for name, item in self.before.items()
        }
        after = {name: item for name, item in after.items() if item.version}
        read = self._audit(after, (), self.paths if paths is None else paths)
        return list(behind.revealed(NEW, self._case(after, (), outside).facts, read))

    def _case(
        self, items: Mapping[str, Distribution], faults: tuple[FileFault, ...], outside: tuple[Distribution, ...]
    ) -> CheckContext:
        made = facts.case(
            facts.distributions(*outside, *items.values()), replace(facts.FILES, faults=faults), self.build
        )
        site = Path(self.before["torch"].site)
        return replace(made, facts=replace(made.facts, target=str(site.parents[2])))

    def _audit(
        self, items: Mapping[str, Distribution], torn: tuple[str, ...], paths: Mapping[str, tuple[str, ...]]
    ) -> RecordAudit:
        rows = [RecordRow(name, path, 1) for name, found in paths.items() for path in found]
        return RecordAudit(
            graph=graph(rows, set()),
            torn=dict.fromkeys(torn, "has no RECORD"),
            folders={},
            packages=dict(items),
            outside={},
            proven={},
        )


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path / "lib/python3.12/site-packages")


def _resized(path: str, **changes: object) -> FileFault:
    return replace(facts.missing("torch", path), kind="resized", size=50, **changes)


@pytest.mark.parametrize(
    ("fault", "fails"),
    [
        (facts.missing("torch", "torch/__init__.py"), True),
        (facts.missing("torch", "torch/version.py"), True),
        (replace(facts.missing("torch", "torch/version.py"), kind="not a file"), True),
        (_resized("torch/__init__.py", unparsable=True), True),
        (replace(_resized("torch/version.py"), size=0), True),
        # Somebody's edit may be what makes it work.
        (_resized("torch/__init__.py"), False),
        # No import of torch reads it, or the loader has been played without it.
        (facts.missing("torch", "torch/testing/_internal/x.py"), False),
        (facts.missing("torch", "torch/include/a.h"), False),
        (facts.missing("torch", "torch/lib/libshm.so"), False),
        (replace(facts.missing("torch", "torch/lib/libtorch.so"), kind="unreadable"), False),
        # Whole, and its RECORD is wrong.
        (_resized("torch/version.py", unparsable=True, published_at="/cache/version.py"), False),
        # Of others: another distribution, another place.
        (facts.missing("numpy", "torch/__init__.py"), False),
        (facts.missing("numpy", "numpy/tests/test_a.py"), False),
        (replace(facts.missing("torch", ""), path="/opt/lib/python3.12/site-packages/torch/__init__.py"), False),
        (replace(facts.missing("torch", ""), path="lib/python3.11/site-packages/torch/__init__.py"), False),
    ],
)
def test_torch_failed_only_where_a_file_proves_it(scene: Scene, fault: FileFault, *, fails: bool) -> None:
    assert scene.revealed(faults=(fault,)) == (list(OF_TORCH) if fails else [])


def test_torch_failed_where_the_checks_say_so(scene: Scene) -> None:
    assert scene.revealed(errors=(FAILS,)) == list(OF_TORCH)
    # It names a file by its end: that of another place.
    assert scene.revealed(errors=(_finding("ED202", "torch", BREAKS_IMPORT),)) == []
    assert scene.revealed() == []


def test_another_build_is_revealed_only_where_it_was_not_known(scene: Scene) -> None:
    fault = facts.missing("torch", "torch/version.py")
    assert BUILD not in scene.revealed(faults=(fault,))
    scene.build = replace(facts.TORCH, version="")
    assert BUILD in scene.revealed(faults=(fault,))


def test_a_torch_outside_is_not_the_own_one(scene: Scene) -> None:
    there = facts.distribution("torch", site="/opt/lib/python3.12/site-packages", origin="PYTHONPATH")
    fault = facts.missing("torch", "torch/__init__.py")
    scene.before["torch"] = replace(scene.before["torch"], shadowed=True)
    assert scene.revealed(faults=(fault,), outside=(there,)) == []


def test_what_only_damaged_metadata_states(scene: Scene) -> None:
    assert scene.revealed(torn=("torchvision",)) == [VISION, ABSENT]
    assert scene.revealed(torn=("late",)) == [LATE, WANTED]
    assert scene.revealed(torn=("torchvision", "late")) == [VISION, LATE, ABSENT, WANTED]


def test_a_requirement_of_a_sound_distribution_was_not_hidden(scene: Scene) -> None:
    # It went with the change, and audio's metadata was whole all along.
    scene.before["audio"] = replace(scene.before["audio"], requires=("absent",))
    assert scene.revealed(torn=("torchvision",)) == [VISION]
    assert ABSENT in scene.revealed(torn=("torchvision", "audio"))


def test_what_the_change_took_away_was_not_hidden(scene: Scene) -> None:
    gone = {name: paths for name, paths in scene.paths.items() if name == "torch"}
    torch = (facts.missing("torch", "torch/__init__.py"),)
    assert scene.revealed(faults=torch, versions={"nvidia-cudnn-cu12": ""}, paths=gone) == [LATER, VISION, AUDIO]
    assert scene.revealed(torn=("torchvision",), versions={"torchvision": ""}) == []


def test_what_another_version_no_longer_has_was_not_hidden(scene: Scene) -> None:
    """A repair puts the locked cudnn 8 where cudnn 9 was: no libcudnn.so.9 is left."""
    torch = (facts.missing("torch", "torch/__init__.py"),)
    eight = {**scene.paths, "nvidia-cudnn-cu12": (f"{CUDNN}8",)}
    assert scene.revealed(faults=torch, versions={"nvidia-cudnn-cu12": "0.8"}, paths=eight) == [LATER, VISION, AUDIO]
    # The same version from another wheel.
    assert scene.revealed(faults=torch, paths=eight) == [LATER, VISION, AUDIO]
    # What it had is not known.
    torn = scene.revealed(faults=torch, torn=("nvidia-cudnn-cu12",), versions={"nvidia-cudnn-cu12": "0.8"}, paths=eight)
    assert torn == [VISION, AUDIO]


def test_an_error_of_another_version_is_the_changes(scene: Scene) -> None:
    torch = (facts.missing("torch", "torch/__init__.py"),)
    assert scene.revealed(faults=torch, versions={"torch": "2.0"}) == []
    assert scene.revealed(faults=torch, versions={"torchvision": "2.0"}) == [IMPORT, LATER, AUDIO]
    assert scene.revealed(torn=("torchvision",), versions={"torchvision": "2.0"}) == []
