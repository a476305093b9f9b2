"""A repair keeps the certificates that an operator added to certifi's bundle, wherever in it, and no others."""

from base64 import b64encode
from pathlib import Path

import pytest

from envdoctor.errors import RestoreError
from envdoctor.stack.bundles import LongerBundle, carry_added, longer_bundles
from envdoctor.stack.repair_plan import Changes, Reinstall
from tests.factories.make_facts import resized
from tests.factories.make_stack import make_stack
from tests.factories.make_venv import make_venv
from tests.factories.make_wheel import make_wheel

_PATH = "certifi/cacert.pem"


def _certificate(name: str, comment: str = "") -> str:
    block = f"-----BEGIN CERTIFICATE-----\n{b64encode(name.encode()).decode()}\n-----END CERTIFICATE-----\n"
    return f"{comment}{block}"


def _published(name: str) -> str:
    return "\n" + _certificate(name, f"# Label: {name}\n# SHA256 Fingerprint: {name}\n")


def _again(before: str, version: str) -> Changes:
    item = Reinstall(name="certifi", version=version, before=before, reason="", bytes=0)
    return Changes(removals=(), reinstalls=(item,))


_OURS = _certificate("ours", "# of the company\n")
_MARKED = _published("ours")
_ONE, _TWO, _THREE = map(_published, ("one", "two", "three"))


@pytest.mark.parametrize(
    ("old", "new", "after", "same_version"),
    [
        (_ONE + _TWO + "\n" + _OURS, _ONE + _TWO, _ONE + _TWO + "\n" + _OURS, True),
        (_OURS + _ONE + _TWO, _ONE + _TWO, _ONE + _TWO + "\n" + _OURS, True),
        (_ONE + "\n" + _OURS + _TWO, _ONE + _TWO, _ONE + _TWO + "\n" + _OURS, True),
        # uv's cache has what was added too.
        (_ONE + _OURS, _ONE + _OURS, _ONE + _OURS, True),
        # A newer and longer version, which withdraws one.
        (_ONE + _OURS, _TWO + _THREE + _published("four"), _TWO + _THREE + _published("four") + "\n" + _OURS, False),
        # A newer version, which only withdraws some.
        (_ONE + _TWO + _OURS, _ONE, _ONE + "\n" + _OURS, False),
        # The same version, one deleted and one with the comment of published ones added.
        (_ONE + _THREE + _MARKED, _ONE + _TWO + _THREE, _ONE + _TWO + _THREE + "\n" + _MARKED.lstrip(), True),
        # The same certificate, in other lines.
        (_ONE + _OURS.replace("b3Vycw==", "b3Vy\r\ncw=="), _ONE + _OURS, _ONE + _OURS, True),
    ],
    ids=["appended", "prepended", "between", "cached", "another version", "withdrawn", "commented", "other lines"],
)
def test_what_was_added_is_carried(tmp_path: Path, old: str, new: str, after: str, *, same_version: bool) -> None:
    for name, text in (("venv", old), ("copy", new)):
        (tmp_path / name / "certifi").mkdir(parents=True)
        (tmp_path / name / _PATH).write_text(text)
    (tmp_path / "copy" / _PATH).chmod(0o604)
    bundle = LongerBundle(path=_PATH, same_version=same_version)
    carry_added(tmp_path / "venv", tmp_path / "copy", [bundle])
    assert (tmp_path / "copy" / _PATH).read_text() == after
    assert (tmp_path / "copy" / _PATH).stat().st_mode & 0o777 == 0o604


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (_ONE + _OURS.rpartition("-----END")[0], 9),
        (_ONE + _OURS.partition("\n-----BEGIN CERTIFICATE-----")[2], 9),
        (_OURS.replace("b3Vycw==", "b3Vycw"), 4),
        (_OURS.replace("b3Vycw==", ""), 4),
        ("a note\n", 1),
    ],
    ids=["cut", "without its first line", "no base64", "nothing", "no certificate"],
)
def test_a_bundle_that_is_no_list_of_certificates_is_refused(tmp_path: Path, text: str, line: int) -> None:
    fault = resized("certifi", _PATH, 1, 9)
    bundle = tmp_path / fault.path
    bundle.parent.mkdir(parents=True)
    bundle.write_text(text)
    with pytest.raises(RestoreError) as refused:
        longer_bundles(tmp_path, [fault], _again("1", "1"))
    assert (refused.value.message, refused.value.hint) == (
        f"{bundle} is longer than published, and line {line} ends no whole certificate: which of them were "
        "added could not be determined",
        f"keep what you added in a file of its own, and remove {bundle}; then run this again",
    )


@pytest.mark.parametrize(
    ("version", "but"),
    [
        ("1", ""),
        ("2", ", but for those marked `# SHA256 Fingerprint:`, as published ones are, that the new one lacks"),
    ],
)
def test_the_plan_says_which_certificates_are_kept(tmp_path: Path, version: str, but: str) -> None:
    fault = resized("certifi", _PATH, 1, 9)
    (tmp_path / fault.path).parent.mkdir(parents=True)
    (tmp_path / fault.path).write_text(_ONE)
    (bundle,) = longer_bundles(tmp_path, [fault], _again("1", version))
    assert bundle.told == (
        f"{fault.path}: certificates that were added are kept{but}; published ones that were deleted come back"
    )


def test_a_repair_keeps_an_authority_in_front(tmp_path: Path) -> None:
    files = {"certifi/__init__.py": "", "certifi/core.py": "x = 1\n", _PATH: _ONE + _TWO}
    wheel = make_wheel(tmp_path / "wheels", "certifi", "2026.1", files=files)
    stack = make_stack(tmp_path, wheel)
    venv = make_venv(stack.venv, *stack.wheels, wheel, cache=stack.cache)
    bundle = venv.site_packages / _PATH
    bundle.unlink()
    bundle.write_text(_OURS + _ONE + _TWO)
    (venv.site_packages / "certifi/core.py").unlink()
    planned = stack.run("repair", "--venv", "venv", "--dry-run").out
    told = "certificates that were added are kept; published ones that were deleted come back"
    assert f"\nwarning: {bundle.relative_to(venv.prefix)}: {told}\n" in planned
    assert stack.run("repair", "--venv", "venv", "--yes").code == 0
    assert (venv.site_packages / _PATH).read_text() == _ONE + _TWO + "\n" + _OURS
