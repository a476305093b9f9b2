"""`impact remove`: what is foretold is what happens when the removal is made."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from envdoctor.errors import UsageError
from envdoctor.explore.environment import explore
from envdoctor.explore.removal import removal
from envdoctor.facts.target import resolve
from envdoctor.model.impact import Gone, Impact, Loss, ProviderChange, Stopped, VersionChange
from tests.factories.make_cuda_stack import CudaWheels, make_cuda_wheels
from tests.factories.make_reading import bare_host
from tests.factories.make_torch import make_torch
from tests.factories.make_venv import Venv, install, make_venv, rewrite, tree_state, uninstall
from tests.factories.make_wheel import make_wheel
from tests.factories.run_envdoctor import run_envdoctor

NCCL = "nvidia/nccl/lib/libnccl.so.2"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> CudaWheels:
    return make_cuda_wheels(tmp_path_factory.mktemp("wheels"))


@pytest.fixture
def venv(tmp_path: Path, wheels: CudaWheels) -> Venv:
    return make_venv(tmp_path / "venv", *wheels.all())


def _foretell(venv: Venv, *names: str) -> Impact:
    return removal(explore(resolve(venv.prefix), bare_host(venv.prefix.parent / "home")), names)


def _site(venv: Venv, path: str) -> str:
    return str((venv.site_packages / path).relative_to(venv.prefix))


def _import_error(venv: Venv) -> str:
    """Return the last line of what `import torch` prints, empty when it loads."""
    command = [venv.python, "-s", "-c", "import torch"]
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(venv.prefix.parent)}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    return done.stderr.strip().rpartition("\n")[2]


def test_a_removal_breaks_what_it_is_said_to_break(venv: Venv, wheels: CudaWheels) -> None:
    """Every distribution in turn: foretold, removed for real, imported, and put back."""
    told: dict[str, str] = {}
    happened: dict[str, str] = {}
    for name, wheel in wheels.wheels.items():
        before = tree_state(venv.prefix)
        impact = _foretell(venv, name)
        assert tree_state(venv.prefix) == before
        assert impact.import_before == ""
        # How the message lists sys.path depends on how Python was started.
        told[name] = impact.import_after.partition(" [")[0]
        gone = {path for path in before if not before[path].startswith("folder")}
        uninstall(venv, name)
        after = tree_state(venv.prefix)
        assert sum(item.files for item in impact.gone) == len(gone - set(after))
        happened[name] = _import_error(venv).partition(" [")[0]
        assert impact.harmful is (name != "torch"), "nothing but torch needs torch"
        install(venv, wheel)
    assert told == happened
    assert told["nvidia-nccl-cu12"] == (
        "ImportError: libnccl.so.2: cannot open shared object file: No such file or directory"
    )
    assert "" in told.values(), "some libraries are only needed at first use"


def test_the_whole_answer_for_one_that_others_need(venv: Venv) -> None:
    impact = _foretell(venv, "nvidia-nccl-cu12")
    files = [venv.site_packages / NCCL, *venv.dist_info("nvidia-nccl-cu12").iterdir()]
    error = "libnccl.so.2: cannot open shared object file: No such file or directory"
    needs = "needs libnccl.so.2, which nothing would provide"
    assert impact == Impact(
        target=str(venv.prefix),
        action="remove",
        asked=("nvidia-nccl-cu12",),
        distributions=(VersionChange(name="nvidia-nccl-cu12", before="12.8", after=""),),
        gone=(
            Gone(
                owner="nvidia-nccl-cu12",
                version="12.8",
                files=len(files),
                bytes=sum(path.stat().st_size for path in files),
            ),
        ),
        losses=(),
        providers=(
            ProviderChange(
                soname="libnccl.so.2",
                before=_site(venv, NCCL),
                before_owner="nvidia-nccl-cu12",
                after="",
                after_owner="",
                used=True,
            ),
        ),
        import_before="",
        import_after=f"ImportError: {error}",
        unmet=("torch 2.10.0 requires nvidia-nccl-cu12==12.8",),
        stops=(Stopped(module=_site(venv, "torch/lib/libtorch_cuda.so"), owner="torch", reason=needs),),
    )
    assert impact.harmful


@pytest.mark.parametrize(
    ("leaving", "staying"), [("nvidia-nccl-cu13", "nvidia-nccl-cu12"), ("nvidia-nccl-cu12", "nvidia-nccl-cu13")]
)
def test_shared_paths_go_with_either_owner(venv: Venv, wheels: CudaWheels, leaving: str, staying: str) -> None:
    install(venv, wheels.foreign)
    impact = _foretell(venv, leaving)
    version = {"nvidia-nccl-cu12": "12.8", "nvidia-nccl-cu13": "2.28.9"}[staying]
    assert impact.losses == (Loss(owner=staying, version=version, paths=(_site(venv, NCCL),), taken_by=leaving),)
    assert impact.import_after.startswith("ImportError: libnccl.so.2: cannot open")
    assert impact.commands == (
        f"uv pip uninstall --python {venv.python} {leaving}",
        f"uv pip install --python {venv.python} --no-deps --reinstall-package {staying} {staying}=={version}",
    )
    uninstall(venv, leaving)
    assert _import_error(venv) == impact.import_after
    uninstall(venv, staying)
    install(venv, wheels.wheels["nvidia-nccl-cu12"] if staying == "nvidia-nccl-cu12" else wheels.foreign)
    assert _import_error(venv) == "", "the second command gives the file back"


def test_what_loses_files_is_installed_again_from_where_it_came(tmp_path: Path) -> None:
    one, two = (make_wheel(tmp_path, name, "1", files={"shared/__init__.py": "x = 1\n"}) for name in ("pa", "pb"))
    venv = make_venv(tmp_path / "venv", one, two)
    (venv.dist_info("pb") / "direct_url.json").write_text('{"url": "file:///srv/my%20pb", "dir_info": {}}')
    assert _foretell(venv, "pa").commands == (
        f"uv pip uninstall --python {venv.python} pa",
        f"uv pip install --python {venv.python} --no-deps --reinstall-package pb 'pb @ file:///srv/my%20pb'",
    )


def test_removing_both_owners_loses_nobody_a_file(venv: Venv, wheels: CudaWheels) -> None:
    install(venv, wheels.foreign)
    impact = _foretell(venv, "nvidia-nccl-cu13", "nvidia-nccl-cu12")
    assert (impact.losses, impact.commands) == ((), ())
    assert impact.unmet == ("torch 2.10.0 requires nvidia-nccl-cu12==12.8",)


def test_a_library_found_elsewhere_changes_its_provider(venv: Venv, tmp_path: Path) -> None:
    content = (venv.site_packages / NCCL).read_bytes()
    (venv.site_packages / "torch/lib/libnccl.so.2").write_bytes(content)
    impact = _foretell(venv, "nvidia-nccl-cu12")
    (change,) = impact.providers
    assert (change.after, change.after_owner) == (_site(venv, "torch/lib/libnccl.so.2"), "")
    uninstall(venv, "nvidia-nccl-cu12")
    assert (_import_error(venv), impact.import_after) == ("", "")


def test_what_is_broken_already_is_not_this_removals_harm(venv: Venv, tmp_path: Path) -> None:
    install(venv, make_wheel(tmp_path / "w", "aside", "1.0"))
    uninstall(venv, "nvidia-nccl-cu12")
    impact = _foretell(venv, "aside")
    assert impact.import_before == impact.import_after != ""
    assert (impact.unmet, impact.harmful) == ((), False)
    assert [stop.module for stop in impact.stops] == ["aside"]


def test_a_module_that_torchs_own_source_imports(tmp_path: Path) -> None:
    wheels = tmp_path / "w"
    source = """\"\"\"Use it so:

import in_a_docstring
\"\"\"
from . import inner
try:
    import optional
except ImportError:
    optional = None
"""
    torch = make_torch(
        wheels,
        "2.13.0+cpu",
        None,
        files={"torch/__init__.py": source, "torch/inner.py": "from needed.deep import name\n"},
    )
    modules = [
        make_wheel(wheels, name, "1", files={f"{name.replace('-', '_')}/__init__.py": "", **more})
        for name, more in (
            ("needed", {"needed/deep.py": "name = 1\n"}),
            ("optional", {}),
            ("in-a-docstring", {}),
        )
    ]
    venv = make_venv(tmp_path / "venv", torch, *modules)
    for name in ("needed", "optional", "in-a-docstring"):
        impact = _foretell(venv, name)
        uninstall(venv, name)
        assert (impact.import_before, impact.import_after) == ("", _import_error(venv))
        assert bool(impact.import_after) is (name == "needed")
        install(venv, *modules)


def test_a_package_that_keeps_other_files_stays_importable(tmp_path: Path) -> None:
    one = make_wheel(tmp_path / "w", "one", "1", files={"shared/__init__.py": "x = 1\n", "shared/one.py": ""})
    two = make_wheel(tmp_path / "w", "two", "1", files={"shared/two.py": "", "alone.py": "", "own/__init__.py": ""})
    venv = make_venv(tmp_path / "venv", one, two)
    assert _foretell(venv, "one").stops == ()
    assert [stop.module for stop in _foretell(venv, "two").stops] == ["alone", "own"]
    assert [stop.module for stop in _foretell(venv, "one", "two").stops] == ["shared", "alone", "own"]


def test_a_package_with_subpackages_stops_when_all_of_it_goes(tmp_path: Path) -> None:
    files = {"nested/__init__.py": "x = 1\n", "nested/inner/__init__.py": "", "nested/inner/deep.py": "y = 1\n"}
    venv = make_venv(tmp_path / "venv", make_wheel(tmp_path / "w", "nested", "1", files=files))
    assert [stop.module for stop in _foretell(venv, "nested").stops] == ["nested"]


def test_rows_that_lead_out_are_told_and_not_counted(venv: Venv, tmp_path: Path) -> None:
    outside = tmp_path / "precious.txt"
    outside.write_text("mine")
    record = venv.dist_info("nvidia-nccl-cu12") / "RECORD"
    rewrite(record, record.read_text() + f"{outside},,\n../../../../precious.txt,,\n")
    impact = _foretell(venv, "nvidia-nccl-cu12")
    assert impact.notes == (
        f"RECORD of nvidia-nccl-cu12 lists 2 paths outside the environment, first {str(outside)!r}: "
        "an uninstall may delete them",
    )
    assert impact.gone[0].files == 1 + len(list(venv.dist_info("nvidia-nccl-cu12").iterdir()))
    rewrite(record, record.read_text().replace("../../../../precious.txt,,\n", ""))
    assert _foretell(venv, "nvidia-nccl-cu12").notes == (
        f"RECORD of nvidia-nccl-cu12 lists 1 path outside the environment, first {str(outside)!r}: "
        "an uninstall may delete it",
    )


def test_a_distribution_without_a_record_is_told(venv: Venv) -> None:
    (venv.dist_info("nvidia-nccl-cu12") / "RECORD").unlink()
    impact = _foretell(venv, "nvidia-nccl-cu12")
    assert impact.notes == (
        "nvidia-nccl-cu12 has no RECORD: its own files cannot be determined, and no tool can remove it",
    )


def test_an_unknown_distribution_is_bad_input_with_the_nearest(venv: Venv) -> None:
    with pytest.raises(UsageError, match=r"has no distribution called `nvidia-nccl`$") as raised:
        _foretell(venv, "torch", "nvidia-nccl")
    assert raised.value.hint.startswith("did you mean `nvidia-nccl-cu12`")


TEXT = """\
envdoctor impact remove nvidia-nccl-cu13  [TMP]/venv   (nothing was changed)
distributions:
  - nvidia-nccl-cu13 2.28.9
files that would be removed:
  nvidia-nccl-cu13 2.28.9: [N] files, 0.0 MB
files that others would lose:
  nvidia-nccl-cu12 12.8: 1 file, to nvidia-nccl-cu13: lib/[PYTHON]/site-packages/nvidia/nccl/lib/libnccl.so.2
libraries with another provider:
  libnccl.so.2: lib/[PYTHON]/site-packages/nvidia/nccl/lib/libnccl.so.2 (nvidia-nccl-cu13) -> nothing
`import torch`: would raise ImportError: libnccl.so.2: cannot open shared object file: No such file or directory
unmet requirements afterwards: none
would stop loading:
  lib/[PYTHON]/site-packages/torch/lib/libtorch_cuda.so (torch): needs libnccl.so.2, which nothing would provide
This would do harm.
help: in two steps, so that the others get their files back:
      uv pip uninstall --python [TMP]/venv/bin/python nvidia-nccl-cu13
      uv pip install --python [TMP]/venv/bin/python --no-deps --reinstall-package nvidia-nccl-cu12 nvidia-nccl-cu12==12.8
"""  # noqa: E501 - as it is printed


def test_the_text_the_document_and_the_exit_codes(venv: Venv, wheels: CudaWheels, tmp_path: Path) -> None:
    install(venv, wheels.foreign, make_wheel(tmp_path / "w", "aside", "1.0"))
    python = venv.site_packages.parent.name

    def run(*arguments: str) -> tuple[int, str]:
        outcome = run_envdoctor("impact", "remove", *arguments, "--venv", venv.prefix, folder=tmp_path)
        text = re.sub(r"\d+ files, ", "[N] files, ", outcome.out.replace(python, "[PYTHON]"))
        return outcome.code, text

    assert run("nvidia-nccl-cu13") == (1, TEXT)
    code, text = run("aside")
    assert (code, text.splitlines()[-1]) == (0, "Nothing else would break.")
    code, text = run("nvidia-nccl-cu13", "--json")
    document = json.loads(text)
    assert (code, document["schema_version"], document["harmful"]) == (1, 1, True)
    assert document["losses"][0]["owner"] == "nvidia-nccl-cu12"
    assert run("nothing-like-it") == (2, "")


def test_what_an_import_takes_of_others_is_foretold_as_the_interpreter_tells_it(tmp_path: Path) -> None:
    sources = {
        "leaf": ("x = 1\n", []),
        "lib": ("from leaf import x\n", ["leaf"]),
        "app": ("import lib\n", ["lib", "leaf"]),
        "guarded": ("try:\n    import leaf\nexcept ImportError:\n    leaf = None\n", ["leaf"]),
        "later": ("def go():\n    import leaf\n", ["leaf"]),
        "told": ('"""\nimport leaf\n"""\n', ["leaf"]),
        "apart": ("import leaf\n", []),
    }
    wheels = [
        make_wheel(tmp_path / "wheels", name, "1.0", files={f"{name}/__init__.py": source}, requires=requires)
        for name, (source, requires) in sources.items()
    ]
    venv = make_venv(tmp_path / "venv", *wheels)
    impact = _foretell(venv, "leaf")
    told = {stop.module: stop.reason for stop in impact.stops if stop.module != "leaf"}
    assert told == dict.fromkeys(("app", "lib"), "its import takes leaf, which nothing would provide")
    uninstall(venv, "leaf")
    code = "import sys\nfor name in sys.argv[1:]:\n    try: __import__(name)\n    except ImportError: print(name)"
    command = [venv.python, "-I", "-c", code, *sources]
    fails = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    # What does not say that it requires it (`apart`) is not looked into.
    assert set(fails) - {"leaf", "apart"} == set(told)
