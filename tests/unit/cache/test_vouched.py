"""Who vouches for an archive: its sha256, or a signature of ssh-keygen by somebody who is allowed."""

import hashlib
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from envdoctor.cache.vouched import Vouching, checked, sign, vouched
from envdoctor.errors import CacheError, UsageError
from envdoctor.facts.regular_file import open_regular

pytestmark = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")
ENVIRON = {"PATH": "/usr/bin:/bin"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Signing:
    """An archive, two keys, and a file that allows the first one."""

    archive: Path
    key: Path
    stranger: Path
    signers: Path


@pytest.fixture
def signing(tmp_path: Path) -> Signing:
    keys = [tmp_path / "key", tmp_path / "stranger"]
    for key in keys:
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    public = (tmp_path / "key.pub").read_text().split()
    (tmp_path / "signers").write_text(f"alice@lab.invalid {public[0]} {public[1]}\n")
    (tmp_path / "made.tar.zst").write_bytes(b"an archive" * 100)
    return Signing(archive=tmp_path / "made.tar.zst", key=keys[0], stranger=keys[1], signers=tmp_path / "signers")


def proven(signing: Signing, **wanted: str) -> tuple[str, str]:
    with open_regular(signing.archive) as content:
        found = vouched(content, signing.archive, Vouching(**wanted), ENVIRON)
        assert content.tell() == 0
    return found.sha256, found.signer


def test_a_signature_names_its_signer(signing: Signing) -> None:
    assert sign(signing.archive, str(signing.key), ENVIRON).name == "made.tar.zst.sig"
    assert proven(signing, signers=str(signing.signers)) == ("", "alice@lab.invalid")


@pytest.mark.parametrize("attack", ["none", "stranger", "changed", "purpose", "nonsense", "pipe"])
def test_what_is_not_signed_by_an_allowed_signer_is_refused(signing: Signing, attack: str) -> None:
    signature = signing.archive.with_name("made.tar.zst.sig")
    if attack in ("stranger", "changed"):
        sign(signing.archive, str(signing.stranger if attack == "stranger" else signing.key), ENVIRON)
    if attack == "changed":
        signing.archive.write_bytes(b"another archive")
    if attack == "purpose":
        subprocess.run(["ssh-keygen", "-q", "-Y", "sign", "-n", "git", "-f", signing.key, signing.archive], check=True)
    if attack == "nonsense":
        signature.write_text("x")
    if attack == "pipe":
        subprocess.run(["mkfifo", signature], check=True)
    with pytest.raises(CacheError) as refused:
        proven(signing, signers=str(signing.signers))
    assert "nothing was taken from" in refused.value.message


def test_a_sha256_pins_the_file(signing: Signing) -> None:
    digest = hashlib.sha256(signing.archive.read_bytes()).hexdigest()
    assert proven(signing, sha256=digest) == (digest, "")
    with pytest.raises(CacheError) as refused:
        proven(signing, sha256="0" * 64)
    assert refused.value.message == (
        f"{signing.archive} has the sha256 {digest}, not {'0' * 64}; nothing was taken from it"
    )


def test_what_is_asked_for_must_make_sense(tmp_path: Path) -> None:
    digest = "AB" * 32
    assert checked(Vouching(sha256=f"sha256:{digest}"), {}, tmp_path) == Vouching(sha256=digest.lower())
    with pytest.raises(UsageError, match="`abc` is not a sha256"):
        checked(Vouching(sha256="abc"), {}, tmp_path)
    with pytest.raises(UsageError, match="there is no file of allowed signers at"):
        checked(Vouching(), {"ENVDOCTOR_CACHE_SIGNERS": "absent"}, tmp_path)


def test_the_program_is_never_one_of_a_venv(signing: Signing, tmp_path: Path) -> None:
    trap = tmp_path / "venv/bin/ssh-keygen"
    trap.parent.mkdir(parents=True)
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    trap.chmod(0o755)
    (tmp_path / "venv/pyvenv.cfg").write_text("")
    sign(signing.archive, str(signing.key), {"PATH": f"{trap.parent}:.:/usr/bin:/bin"})
    assert not (tmp_path / "ran").exists()
    with pytest.raises(CacheError) as refused:
        sign(signing.archive, str(tmp_path / "absent"), ENVIRON)
    assert refused.value.message.startswith(f"{signing.archive} is saved, but was not signed: ")
