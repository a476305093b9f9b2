"""Printed lines of uv's: they look where uv and pip are configured to look, and are obeyed here by a real uv."""

import json
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envdoctor.wheels.printed import WheelSources, note, sourced, sourced_text, sources
from tests.factories.make_venv import Venv, make_venv
from tests.factories.make_wheel import make_wheel
from tests.factories.run_envdoctor import environment, run_envdoctor

NONE, OWN = WheelSources(), WheelSources(own=True)
PIPS = WheelSources(own=True, options=("--no-index", "--find-links", "/my wheels"))
PIP = "uv pip install --python /v/bin/python"
RANGE = f"{PIP} --torch-backend cu128 'torchvision==0.26.*'"
TWO = f"{PIP} torch==2.11.0+cu128 torchvision==0.26.0+cpu"
REST = "--offline --no-deps torch===2.13.0+cpu"

WORDS = st.text(st.characters(blacklist_characters="\0", blacklist_categories=("Cs",)), min_size=1)


@pytest.mark.parametrize(
    ("command", "known", "printed"),
    [
        (f"{PIP} torch==2.11.0+cu128", NONE, f"{PIP} --torch-backend cu128 torch==2.11.0+cu128"),
        (f"{PIP} torch==2.11.0+cu128", OWN, f"{PIP} torch==2.11.0+cu128"),
        (f"{PIP} --torch-backend auto torch==2.11.0+cu128", NONE, f"{PIP} --torch-backend cu128 torch==2.11.0+cu128"),
        (f"{PIP} --torch-backend auto torch==2.11.0+cu128", OWN, f"{PIP} torch==2.11.0+cu128"),
        # Of a range no build is known: which one is meant is said by the option alone.
        (RANGE, OWN, RANGE),
        (f"{PIP} {REST}", NONE, f"{PIP} --torch-backend cpu {REST}"),
        (TWO, NONE, TWO),
        (f"{PIP} flash-attn==2.8.3+cu12torch2.8", NONE, f"{PIP} flash-attn==2.8.3+cu12torch2.8"),
        (f"rm 'a && b' && {PIP} numpy", PIPS, f"rm 'a && b' && {PIP} --no-index --find-links '/my wheels' numpy"),
        (f"{PIP} --no-index numpy", PIPS, f"{PIP} --no-index numpy"),
        ("uv pip uninstall --python /v/bin/python numpy", PIPS, "uv pip uninstall --python /v/bin/python numpy"),
        ("UV_X='a b' uv pip install x", PIPS, "UV_X='a b' uv pip install --no-index --find-links '/my wheels' x"),
    ],
)  # fmt: skip
def test_a_line_looks_where_wheels_can_come_from(command: str, known: WheelSources, printed: str) -> None:
    assert sourced(command, known) == printed


@given(words=st.lists(WORDS, min_size=1))
def test_what_a_line_says_stays(words: list[str]) -> None:
    """Whatever is quoted in it: only options are added, and to nothing but an install."""
    line = f"rm {shlex.join(words)} && {PIP} {shlex.join(words)}"
    assert shlex.split(sourced(line, PIPS)) == ["rm", *words, "&&", *PIP.split(), *PIPS.options, *words]
    assert sourced(f"uv pip uninstall {shlex.join(words)}", PIPS) == f"uv pip uninstall {shlex.join(words)}"


def test_lines_in_a_sentence_look_there_too() -> None:
    text = "by `{0} x==1` or `{0} x==2`, with `--offline`; `uv pip uninstall x` takes it away"
    more = f"{PIP} --no-index --find-links '/my wheels'"
    assert sourced_text(text.format(PIP), PIPS) == text.format(more)


def test_what_else_there_is_to_know() -> None:
    pin, auto = f"{PIP} torch==2.11.0+cu128", f"{PIP} --torch-backend auto torch"
    assert note([pin, auto], NONE) == note([f"{PIP} numpy"], OWN) == ""
    assert note([pin], OWN) == "where no configured source has that build, add `--torch-backend cu128`"
    assert note([auto], OWN) == (
        "`--torch-backend` asks the PyTorch index: with a mirror, name the build instead (torch==2.11.0+cu128)"
    )


def configured(tmp_path: Path, pip: str = "", uv: str = "", **environ: str) -> WheelSources:
    for path, text in ((tmp_path / "v/pip.conf", pip), (tmp_path / "uv.toml", uv)):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return sources(
        {"PIP_CONFIG_FILE": "", "SSL_CERT_FILE": "/of/this/machine", **environ},
        tmp_path / "home",
        tmp_path,
        tmp_path / "v",
    )


def test_sources_of_uv_and_pip(tmp_path: Path) -> None:
    (tmp_path / "wheels").mkdir()
    assert configured(tmp_path) == NONE
    assert configured(tmp_path, uv='[[index]]\nurl = "file:///mirror"') == OWN
    assert configured(tmp_path, uv='[pip]\nfind-links = ["wheels"]') == OWN
    assert configured(tmp_path, UV_INDEX_URL="file:///mirror") == OWN
    assert configured(tmp_path, uv="=") == NONE
    pip = "[global]\nindex-url = file:///a\nextra-index-url = file:///b file:///c\nfind-links = wheels gone\n"
    assert configured(tmp_path, pip).options == (
        *("--default-index", "file:///a", "--index", "file:///b", "--index", "file:///c"),
        *("--find-links", "wheels", "--index-strategy", "unsafe-best-match"),
    )
    # Of uv's own sources none is lost: an option takes the place of the variable.
    assert configured(tmp_path, pip, UV_INDEX="file:///own", UV_INDEX_URL="file:///mine").options[:6] == (
        *("--index", "file:///own", "--index", "file:///b", "--index", "file:///c"),
    )
    assert configured(tmp_path, UV_FIND_LINKS="wheels", PIP_FIND_LINKS="wheels") == OWN
    # What uv's file says wins, as in a restore.
    for own in ('index-url = "file:///mine"', '[pip]\nindex-url = "file:///mine"', '[[index]]\nurl="/m"\ndefault=true'):
        assert configured(tmp_path, pip, own).options[:4] == ("--index", "file:///b", "--index", "file:///c")
    assert configured(tmp_path, pip, '[[index]]\nurl="/m"').options[:2] == ("--default-index", "file:///a")


HOST = "https://mirror.example"
HIDDEN = "uv does not read pip's configuration: what may be a secret is not printed: set"


@pytest.mark.parametrize(
    ("place", "secret"),
    [
        (f"{HOST}/simple", False),
        (f"{HOST}/repository/nvidia-cuda-12-8-group/simple/", False),
        (f"{HOST}/whl/cu128/torch_stable.html", False),
        ("file:///w/f00dfacef00dfacef00dfacef00dface", False),
        ("https://me:secret@mirror.example/simple", True),
        ("https://t0ken@mirror.example/simple", True),
        (f"{HOST}/simple/?token=X", True),
        (f"{HOST}/simple/?x=y", True),
        (f"{HOST}/deb9f00dfacef00d/simple", True),
        (f"{HOST}/t/t0kent0ken/simple", True),
        (f"{HOST}/simple/0b5c1b4a-3f4e-4b1c-9d53-1f0f6ad9b9a1", True),
        (f"{HOST}/Ab3-dE_Gh1jkLmn0/simple/", True),
        (f"{HOST}/my-own-token/simple", True),
    ],
)
def test_no_secret_is_in_a_line(tmp_path: Path, place: str, *, secret: bool) -> None:
    """It could not be typed as it is shown, or would be in logs: the variable to set is named instead."""
    environ = {"PIP_EXTRA_INDEX_URL": "file:///b", "X_TOKEN": "my-own-token"}
    rest = ("--index", "file:///b", "--index-strategy", "unsafe-best-match")
    known = configured(tmp_path, PIP_INDEX_URL=place, **environ)
    # Without the index that was meant, the others could give what somebody else put there.
    assert known.options == (() if secret else ("--default-index", place, *rest))
    assert known.login == (f"{HIDDEN} UV_DEFAULT_INDEX" if secret else "")
    assert note([PIP], known) == known.login


def test_each_variable_to_set_is_named(tmp_path: Path) -> None:
    secret = f"{HOST}/?token=X"
    known = configured(tmp_path, PIP_INDEX_URL=secret, PIP_EXTRA_INDEX_URL=secret, PIP_FIND_LINKS=secret)
    assert known.login == f"{HIDDEN} UV_DEFAULT_INDEX and UV_INDEX and UV_FIND_LINKS"


def test_a_variable_of_uvs_that_holds_a_secret_hides_nothing_of_pips(tmp_path: Path) -> None:
    known = configured(tmp_path, PIP_EXTRA_INDEX_URL="file:///b", UV_INDEX=f"{HOST}/?token=X")
    first = 'uv does not read pip\'s configuration: first `export UV_INDEX="$UV_INDEX "file:///b`'
    assert (known.options, known.login) == (("--index-strategy", "unsafe-best-match"), first)


@pytest.mark.parametrize("blank", ["", " ", "  "])
def test_what_uvs_own_variable_has_already_is_not_said_again(tmp_path: Path, blank: str) -> None:
    """Nor is a secret in it printed, whatever blanks are around."""
    own = f"https://u:tok@mirror.example/simple{blank} file:///b{blank}"
    known = configured(tmp_path, PIP_EXTRA_INDEX_URL="file:///b", UV_INDEX=own)
    assert known == WheelSources(own=True, options=("--index-strategy", "unsafe-best-match"))


@pytest.mark.parametrize("proxy", ["http://proxy.example:3128", "http://me:secret@proxy.example:3128"])
def test_pips_certificate_and_proxy_are_said(tmp_path: Path, proxy: str) -> None:
    """Uv has no options for them."""
    known = configured(tmp_path, f"[global]\ncert = /etc/my ca.pem\nproxy = {proxy}\n", SSL_CERT_FILE="")
    first = "uv does not read pip's configuration: first `export SSL_CERT_FILE='/etc/my ca.pem'"
    said = f"{first} ALL_PROXY={proxy}`"
    if "@" in proxy:
        said = f"{first}`, and what may be a secret is not printed: set ALL_PROXY"
    assert known == WheelSources(login=said)
    assert note([PIP], known) == said
    home = configured(tmp_path, "[global]\ncert = ~/ca.pem\n", SSL_CERT_FILE="")
    assert home.login == f"uv does not read pip's configuration: first `export SSL_CERT_FILE={tmp_path}/home/ca.pem`"
    assert configured(tmp_path, f"[global]\nproxy = {proxy}\n", ALL_PROXY=proxy) == NONE


def test_a_python_that_is_its_systems(tmp_path: Path) -> None:
    """What somebody installed there is repaired there, which is said."""
    mark = tmp_path / "lib/python3.11/EXTERNALLY-MANAGED"
    mark.parent.mkdir(parents=True)
    mark.touch()
    known = sources({"SSL_CERT_FILE": "/set"}, tmp_path, tmp_path, tmp_path)
    assert known == WheelSources(managed=True)
    python = "--python /usr/bin/python3"
    printed = sourced(f"uv pip uninstall {python} x && uv pip install {python} y", known)
    assert printed == (
        "uv pip uninstall --break-system-packages --python /usr/bin/python3 x && "
        "uv pip install --break-system-packages --python /usr/bin/python3 y"
    )
    assert note([printed], known) == (
        "this Python is marked as the system's, which `--break-system-packages` passes over: a venv is the safe place"
    )
    (tmp_path / "pyvenv.cfg").touch()
    assert sources({"SSL_CERT_FILE": "/set"}, tmp_path, tmp_path, tmp_path) == NONE


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Venv:
    root = tmp_path_factory.mktemp("printed")
    files = {"torch/__init__.py": b"", "torch/version.py": b"__version__ = '2.13.0+cpu'\n"}
    wheel = make_wheel(root / "wheels", "torch", "2.13.0+cpu", files=files)
    return make_venv(root / "v", wheel, cache=root / "cache")


@pytest.mark.parametrize(
    ("extra", "config"),
    [
        ({"PIP_FIND_LINKS": "wheels", "PIP_NO_INDEX": "1"}, ""),
        ({}, 'no-index = true\nfind-links = ["wheels"]\n'),
        ({"UV_FIND_LINKS": "wheels", "UV_OFFLINE": "1"}, ""),
    ],
    ids=["pip", "uv.toml", "uv's variables"],
)
def test_a_build_comes_back_from_where_it_is(stack: Venv, extra: Mapping[str, str], config: str) -> None:
    root = stack.prefix.parent
    (root / "uv.toml").write_text(config)
    own = {"UV_CACHE_DIR": str(root / "cache"), **extra}
    (stack.site_packages / "torch/version.py").unlink()
    report = json.loads(run_envdoctor("check", stack.prefix, "--json", folder=root, extra=own).out)
    (command,) = report["findings"][0]["remediation"]["by_hand"] or report["findings"][0]["remediation"]["commands"]
    assert "--torch-backend" not in command
    typed = command.replace("[TMP]", str(root))
    done = subprocess.run(["sh", "-c", typed], cwd=root, env=environment(root, own), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert (stack.site_packages / "torch/version.py").read_text() == "__version__ = '2.13.0+cpu'\n"
