"""uv's errors as uv really words them, in the words of a restore."""

import re
import sys
from pathlib import Path

import pytest
from uv import find_uv_bin

from envdoctor.wheels.uv import Uv, UvError
from envdoctor.wheels.uv_errors import explain, missing, of_input

A, B = "a" * 64, "b" * 64
MISMATCH = f"""\
Resolved 1 package in 119ms
error: Failed to download `torch==2.13.0+cpu`
  cause: Hash mismatch for `torch==2.13.0+cpu`

         Expected:
           sha256:{A}

         Computed:
           sha256:{B}
"""
OFFLINE = """\
error: No solution found when resolving dependencies
  cause: Because boto3 was not found in the cache and you require boto3==1.42.94, we can conclude that your
         requirements are unsatisfiable.

hint: Packages were unavailable because the network was disabled.
"""
ABSENT = """\
error: No solution found when resolving dependencies
  cause: Because there is no version of thing==1.0+cpu and you require
         thing==1.0+cpu, we can conclude that your requirements are unsatisfiable.
"""
DNS = """\
error: Request failed after 3 retries in 11.9s
  cause: Failed to fetch: https://index.invalid/whl/cu128/torch/
  cause: error sending request for url (https://index.invalid/whl/cu128/torch/)
  cause: client error (Connect)
  cause: dns error
  cause: failed to lookup address information: Name or service not known
"""
TRUNCATED = """\
error: Failed to download `thing==1`
  cause: Failed to extract archive: thing-1-py3-none-any.whl
  cause: Invalid zip file structure
  cause: ZIP structure was truncated
"""
FULL = """\
error: Failed to install: numpy-2.4.4-cp312-cp312-manylinux_2_28_x86_64.whl (numpy==2.4.4)
  cause: failed to copy file from /c/x to /v/x: No space left on device (os error 28)
"""
DENIED = """\
error: Failed to initialize cache at `/root/.cache/uv`
  cause: failed to open file `/root/.cache/uv/.lock`: Permission denied (os error 13)
"""
FORBIDDEN = """\
error: Failed to fetch: `http://127.0.0.1:1/simple/thing/`
  cause: HTTP status client error (403 Forbidden) for url (http://127.0.0.1:1/simple/thing/)
"""
OTHER_PYTHON = """\
error: No solution found when resolving dependencies
  cause: Because torch==2.13.0+cpu has no wheels with a matching Python ABI tag (e.g., `cp312`) and you require
         torch==2.13.0+cpu, we can conclude that your requirements are unsatisfiable.

hint: You require CPython 3.12 (`cp312`), but we only found wheels for `torch` (v2.13.0+cpu) with the following
      Python ABI tag: `cp311`
"""
BUILD = """\
error: Failed to build `needs-torch==1`
  cause: The build backend returned an error
  cause: Call to `backend.get_requires_for_build_wheel` failed (exit status: 1)

         [stderr]
         FutureWarning: The 'wheel' package is no longer the canonical location of the 'bdist_wheel' command
         Traceback (most recent call last):
           File "/tmp/p/backend.py", line 1, in <module>
             import torch
         ModuleNotFoundError: No module named 'torch'

hint: This error likely indicates that `needs-torch@1` depends on `torch`, but doesn't declare it as a build dependency.

or `uv pip install torch` into the environment and re-run with `--no-build-isolation`.
"""
GONE = """\
error: Failed to download `thing==1`
  cause: HTTP status client error (404 Not Found) for url (http://127.0.0.1:1/files/thing-1.whl)
"""


@pytest.mark.parametrize(
    ("stderr", "message"),
    [
        (MISMATCH, f"the wheel of torch==2.13.0+cpu is not the locked one: it hashes to {B}, the lock allows {A}"),
        (
            OFFLINE,
            "boto3==1.42.94 is not in uv's cache, and uv was told to stay offline (--offline, UV_OFFLINE or uv.toml)",
        ),
        (ABSENT, "no configured source has thing 1.0+cpu for this interpreter"),
        (OTHER_PYTHON, "torch 2.13.0+cpu has wheels for cp311 only, and CPython 3.12 is asked for"),
        (
            DNS,
            "https://index.invalid/whl/cu128/torch/ could not be fetched: "
            "failed to lookup address information: Name or service not known",
        ),
        (TRUNCATED, "the wheel of thing==1 is cut off or damaged: ZIP structure was truncated"),
        ("error: Failed to extract archive\n  cause: bad CRC\n", "a wheel is cut off or damaged: bad CRC"),
        (
            "error: unexpected argument '--emit-index-url' found\n\nUsage: uv pip compile\n",
            "this uv is too old or too new for envdoctor (unexpected argument '--emit-index-url')",
        ),
        (
            "error: invalid value 'then' for '--exclude-newer <EXCLUDE_NEWER>': no date\n",
            "uv does not take 'then' for --exclude-newer: no date",
        ),
        (
            "error: Failed to parse environment variable `UV_HTTP_TIMEOUT` with invalid value `-1`: invalid digit\n",
            "uv refuses UV_HTTP_TIMEOUT=-1: invalid digit",
        ),
        (
            "error: Failed to initialize cache at `f`\n  cause: failed to create directory `/f`: File exists\n",
            "uv's cache cannot be used: failed to create directory `/f`: File exists",
        ),
        (FULL, "the disk is full"),
        (DENIED, "permission denied: /root/.cache/uv/.lock"),
        (
            FORBIDDEN,
            "http://127.0.0.1:1/simple/thing/: the index refused access (403): http://127.0.0.1:1/simple/thing/",
        ),
        (
            GONE,
            "thing==1: the index names a file that it does not serve (404): http://127.0.0.1:1/files/thing-1.whl",
        ),
        ("error: something new\n  cause: nobody knows\n", "uv ended with code 2: something new: nobody knows"),
        ("", "uv ended with code 2: it said nothing"),
    ],
)
def test_each_error_has_its_words_and_a_next_step(stderr: str, message: str) -> None:
    told, hint = explain(stderr, 2)
    assert told == message
    assert hint
    # Several commands start uv, and none has every option of another.
    assert not re.search(r"(?<![\w-])--[a-z]", re.sub("`uv [^`]*`|`pip [^`]*`", "", hint))


@pytest.mark.parametrize(
    ("variable", "value"), [("UV_HTTP_TIMEOUT", "soon"), ("UV_CACHE_DIR", "/dev/null"), ("UV_INDEX_STRATEGY", "best")]
)
def test_what_the_user_told_uv_is_bad_input(tmp_path: Path, variable: str, value: str) -> None:
    uv = Uv(binary=find_uv_bin(), environment={"HOME": str(tmp_path), variable: value}, cwd=tmp_path)
    with pytest.raises(UvError) as raised:
        uv.run(("pip", "compile", "-", "--offline", "--python", sys.executable))
    assert raised.value.exit_code == 2, raised.value.message


@pytest.mark.parametrize(
    ("cause", "fault"),
    [
        ("failed to create directory `/f`: File exists (os error 17)", True),
        ("failed to create directory `/f/x`: Not a directory (os error 20)", True),
        ("failed to open file `/f/.lock`: Stale file handle (os error 116)", False),
        ("failed to open file `/f/.lock`: Too many open files (os error 24)", False),
        ("failed to open file `/f/.lock`: Input/output error (os error 5)", False),
    ],
)
def test_a_file_system_that_fails_is_no_bad_input(cause: str, *, fault: bool) -> None:
    told = f"error: Failed to initialize cache at `/f`\n  cause: {cause}\n"
    assert of_input(told) is fault
    assert explain(told, 2) == (
        f"uv's cache cannot be used: {cause}", "name a folder for it: `export UV_CACHE_DIR=FOLDER`"
    )  # fmt: skip


def test_a_source_that_lacks_a_package_is_no_bad_input(tmp_path: Path) -> None:
    uv = Uv(binary=find_uv_bin(), environment={"HOME": str(tmp_path)}, cwd=tmp_path)
    with pytest.raises(UvError) as raised:
        uv.run(("pip", "compile", "-", "--offline", "--no-index", "--python", sys.executable), stdin="absent==1")
    assert raised.value.exit_code == 4, raised.value.message


def test_a_wheel_for_another_python_names_that_python() -> None:
    assert explain(OTHER_PYTHON, 1)[1] == (
        "ask for one that it has a wheel for (Python 3.11), or for another version of it"
    )


@pytest.mark.parametrize(
    ("cause", "name"),
    [
        ("no-such was not found in the package registry and you require no-such", "no-such"),
        ("no-such was not found in the provided package locations and you require no-such", "no-such"),
        ("only numpy<=2.5.5 is available and you require numpy>99", "numpy"),
        ("there are no versions of no.such and you require no.such", "no.such"),
    ],
)
def test_a_package_that_no_index_has_is_a_matter_of_its_name_and_version(cause: str, name: str) -> None:
    cause = f"Because {cause}, we can conclude that your requirements are unsatisfiable."
    assert explain(f"error: No solution found when resolving dependencies\n  cause: {cause}\n", 1) == (
        f"no configured source has {name} as it is asked for: No solution found when resolving dependencies: {cause}",
        "look at its name and version; the sources are those of uv's and pip's configuration (UV_INDEX, pip.conf)",
    )


def test_a_build_that_fails_shows_its_last_error_and_uvs_own_hint() -> None:
    told, hint = explain(BUILD, 1)
    assert told == "needs-torch==1 could not be built: ModuleNotFoundError: No module named 'torch'"
    assert hint == (
        "This error likely indicates that `needs-torch@1` depends on `torch`, but doesn't declare it as a build "
        "dependency. or `uv pip install torch` into the environment and re-run with `--no-build-isolation`."
    )


def test_a_conflict_is_no_missing_package() -> None:
    conflict = "Because a==1 depends on b==2 and you require b>=3, we can conclude that"
    told, _ = explain(f"error: No solution found when resolving dependencies\n  cause: {conflict}\n", 1)
    assert told.startswith("uv ended with code 1: No solution found")


def test_the_package_the_resolver_misses_is_read_from_wrapped_text() -> None:
    assert missing(OFFLINE) == ("boto3", "1.42.94")
    assert missing(ABSENT) == ("thing", "1.0+cpu")
    assert missing(DNS) is None
