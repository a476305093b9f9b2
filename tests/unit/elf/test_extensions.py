"""Extension modules beside torch: what importing one does before and after `import torch`, really and in the model."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

import pytest

from envdoctor.loader.binding import Binder
from envdoctor.loader.disk import Disk
from envdoctor.loader.graph import Loader
from envdoctor.loader.torch_import import TorchTarget, play_import
from tests.factories.make_elf import make_shared, make_stub
from tests.factories.make_torch_loader import make_nvidia, make_torch
from tests.unit.loader.real_loader import host_roots

SUFFIX = str(sysconfig.get_config_var("EXT_SUFFIX"))
NOT_FOUND = "cannot open shared object file: No such file or directory"
ERROR = "_ZN3c105ErrorC2ENS_14SourceLocation"
NEW_ABI, OLD_ABI = f"{ERROR}ENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE", f"{ERROR}ESs"
CHILD = """
import ctypes, json, sys
path, torch_first, extension = json.loads(sys.argv[1])
sys.path[:] = path
if torch_first:
    import torch
try:
    ctypes.CDLL(extension)
    print("null")
except OSError as failure:
    print(json.dumps(str(failure)))
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("whole") / "site"
    make_nvidia(made)
    make_torch(made, extension=SUFFIX)
    make_shared(made / "torch/lib/libc10.so", exports=[NEW_ABI])
    return made


@pytest.fixture
def site(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "site"))


def really(site: Path, extension: Path, env: Mapping[str, str], *, torch_first: bool) -> str | None:
    path = [*(entry for entry in sys.path if "site-packages" not in entry and entry), str(site)]
    command = [sys.executable, "-I", "-c", CHILD, json.dumps([path, torch_first, str(extension)])]
    done = subprocess.run(command, env=dict(env), cwd=site, check=True, capture_output=True, text=True)
    answer = json.loads(done.stdout)
    return answer if answer is None else str(answer)


def predicted(site: Path, extension: Path, env: Mapping[str, str], *, torch_first: bool) -> str | None:
    disk, binder = Disk(), Binder()
    roots = host_roots(env, site, disk)
    if torch_first:
        target = TorchTarget(torch=str(site / "torch"), sys_path=(str(site),), executable=sys.executable, cuda="12.8")
        played, loader = play_import(target, roots, disk, binder=binder)
        assert played.failure is None
    else:
        loader = Loader(roots, disk, binder=binder)
        loader.start(sys.executable)
    result = loader.fork().open(str(extension))
    return result.failure.message if result.failure else None


def both_say(site: Path, extension: Path, expected: str | None, env: Mapping[str, str], *, torch_first: bool) -> None:
    assert really(site, extension, env, torch_first=torch_first) == expected
    assert predicted(site, extension, env, torch_first=torch_first) == expected


def test_built_for_the_other_cxx_abi(site: Path, tmp_path: Path) -> None:
    stub = make_stub(tmp_path, "libc10.so", exports=[OLD_ABI])
    extension = make_shared(site / f"flash_attn_2_cuda{SUFFIX}", needed=[stub], undefined=[OLD_ABI])
    both_say(site, extension, f"libc10.so: {NOT_FOUND}", {}, torch_first=False)
    both_say(site, extension, f"{extension}: undefined symbol: {OLD_ABI}", {}, torch_first=True)


def test_built_for_this_torch(site: Path, tmp_path: Path) -> None:
    stub = make_stub(tmp_path, "libc10.so", exports=[NEW_ABI])
    extension = make_shared(site / f"flash_attn_2_cuda{SUFFIX}", needed=[stub], undefined=[NEW_ABI])
    both_say(site, extension, f"libc10.so: {NOT_FOUND}", {}, torch_first=False)
    both_say(site, extension, None, {}, torch_first=True)


def test_built_for_the_other_cuda_major(site: Path, tmp_path: Path) -> None:
    # A soname that no toolkit installed on this machine can have put into ld.so.cache.
    soname = "libcudart.so.1300"
    make_shared(site / "nvidia/cu13/lib" / soname)
    extension = make_shared(
        site / "vllm/_C.abi3.so", needed=[make_stub(tmp_path, soname)], runpath="$ORIGIN/../torch/lib"
    )
    both_say(site, extension, f"{soname}: {NOT_FOUND}", {}, torch_first=True)
    both_say(site, extension, None, {"LD_LIBRARY_PATH": f"{site}/nvidia/cu13/lib"}, torch_first=True)


def test_a_need_that_torch_happens_to_preload(site: Path, tmp_path: Path) -> None:
    stub = make_stub(tmp_path, "libnvrtc.so.12")
    extension = make_shared(site / "fvdb/_fvdb_cpp.so", needed=[stub], runpath="$ORIGIN")
    clean = {key: value for key, value in os.environ.items() if key == "PATH"}
    before = really(site, extension, clean, torch_first=False)
    assert predicted(site, extension, clean, torch_first=False) == before
    assert before in {f"libnvrtc.so.12: {NOT_FOUND}", None}  # None where a toolkit is in ld.so.cache
    both_say(site, extension, None, clean, torch_first=True)


def test_a_fork_leaves_the_loader_as_it_was(site: Path, tmp_path: Path) -> None:
    disk = Disk()
    loader = Loader(host_roots({}, site, disk), disk)
    loader.start(sys.executable)
    before = [item.path for item in loader.objects]
    extension = make_shared(tmp_path / "libextra.so")
    assert loader.fork().open(str(extension)).failure is None
    assert [item.path for item in loader.objects] == before
    assert loader.find("libextra.so") is None
