"""flash-attn's wheel wants the old C++ string, torch has the new one (Dao-AILab/flash-attention issue 1644)."""

from pathlib import Path

import pytest

from tests.factories.examine_venv import outline, verdict_of
from tests.factories.make_cuda import host_without_cache, make_linked_torch, object_bytes, real_error
from tests.factories.make_venv import install, make_venv
from tests.factories.make_wheel import make_wheel

MODULE = "flash_attn_2_cuda.abi3.so"
ERROR = "_ZN3c105ErrorC2ENS_14SourceLocationE"
OLD = f"{ERROR}Ss"
NEW = f"{ERROR}NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
SOURCE = "void *PyInit_flash_attn_2_cuda(void) { return 0; }"
OLD_WORDS = "c10::Error::Error(c10::SourceLocation, std::string)"
NEW_WORDS = (
    "c10::Error::Error(c10::SourceLocation, std::__cxx11::basic_string<char, std::char_traits<char>, "
    "std::allocator<char> >)"
)
OLD_ABI, NEW_ABI = "the old std::string (pre-cxx11 ABI)", "the new std::string (cxx11 ABI)"
FIRST = "flash_attn_2_cuda.abi3.so of flash-attn 2.7.4.post1 was built for "


def _flash(wheels: Path, symbol: str) -> Path:
    made = object_bytes(MODULE, stubs={"libc10.so": (symbol,)}, source=SOURCE)
    files = {"flash_attn/__init__.py": "", MODULE: made}
    return make_wheel(
        wheels, "flash-attn", "2.7.4.post1", files=files, requires=["torch"], tag="cp311-abi3-linux_x86_64"
    )


@pytest.mark.parametrize(
    ("torch_has", "asked", "title", "words", "abi", "flag"),
    [
        (
            NEW, OLD,
            "flash_attn_2_cuda.abi3.so of flash-attn 2.7.4.post1 was built for a torch with the old std::string "
            "(pre-cxx11 ABI); torch here is 2.7.0+cu128",
            OLD_WORDS, NEW_ABI, "TRUE",
        ),
        (OLD, NEW, f"{FIRST}a torch with {NEW_ABI}; torch here is 2.7.0+cu128", NEW_WORDS, OLD_ABI, "FALSE"),
        (
            NEW, "_ZN3c104cuda9SetDeviceEa", f"{FIRST}another torch; torch here is 2.7.0+cu128",
            "c10::cuda::SetDevice(signed char)", NEW_ABI, "TRUE",
        ),
    ],
    ids=["old-wheel", "new-wheel", "other-minor"],
)  # fmt: skip
def test_br18_the_direction_is_told(
    tmp_path: Path, torch_has: str, asked: str, title: str, words: str, abi: str, flag: str
) -> None:
    wheels = tmp_path / "wheels"
    torch = make_linked_torch(wheels, "2.7.0+cu128", "12.8", needs={}, c10=[torch_has])
    venv = make_venv(tmp_path / "venv", torch, _flash(wheels, asked))
    host = host_without_cache(tmp_path / "home")
    # Before torch is imported the error is another one, which says nothing: no package is missing.
    assert real_error(venv, "import flash_attn_2_cuda", host) == (
        "ImportError: libc10.so: cannot open shared object file: No such file or directory"
    )
    error = f"{venv.site_packages}/{MODULE}: undefined symbol: {asked}"
    assert real_error(venv, "import torch, flash_attn_2_cuda", host) == f"ImportError: {error}"

    verdict = verdict_of(venv.prefix, host)
    assert outline(verdict, tmp_path) == [f"error ED309 {title}"]
    (finding,) = verdict.findings
    assert finding.evidence == (
        f"the loader says: {error}",
        f"the symbol is {words}",
        f"this torch was compiled with {abi}",
        "no file of this torch has it",
    )
    assert f"torch 2.7, CUDA 12, cxx11abi{flag} and cp3" in finding.remediation.text

    install(venv, _flash(tmp_path / "fitting", torch_has))
    assert "undefined symbol" not in real_error(venv, "import torch, flash_attn_2_cuda", host)
    assert verdict_of(venv.prefix, host).findings == ()
