"""The redactor: what it hides stays hidden in JSON, what only looks like a secret stays, and no text makes it slow."""

import json

import pytest

from envdoctor.report.style import on_terminal
from envdoctor.standards.redaction import anonymous, bare_url, redacted, redacted_words, secrets_of
from tests.integration.test_secrets import SHAPES, text


@pytest.mark.parametrize("at", range(len(SHAPES)), ids=lambda at: SHAPES[at])
def test_every_shape_inside_json_and_after_other_text(at: int) -> None:
    said = text("unit", at)
    document = json.dumps({"a": f"before {said} after", "list": [said, f"p\u00e4ss {said}"]})
    for clean in (redacted(f"it is {said}"), redacted(document), redacted(json.dumps(document))):
        assert "Qz7Wx9Kp3" not in clean
    assert json.loads(redacted(document))["a"].startswith("before ")


@pytest.mark.parametrize(
    "plain",
    [
        "git@code.invalid:org/repo.git",
        "ssh://git@code.invalid/r",
        "image:tag@sha256:0123",
        f"nvidia-cublas-cu12==12.8 --hash=sha256:{'a1' * 32}",
        f"https://files.invalid/packages/ab/cd/{'ab12' * 15}/torch-2.0-cp311.whl#sha256={'0f' * 32}",
        "torch @ https://packages.invalid/torch-2.0.whl",
        "soname:libcudnn.so.9",
        "cache.key: 12ab, tokens_per_second = 21000",
        "TOKENIZERS_PARALLELISM=true UV_KEYRING_PROVIDER=subprocess PYTHONHASHSEED=0",
        "the login needs a password, which no output shows",
        "2026-11-30T10:15:00Z, python -m trainer --preset small --pattern x",
        "/mnt/t/project/src and file:///mnt/t/project/src",
    ],
)
def test_what_is_no_secret_stays(plain: str) -> None:
    assert redacted(plain) == plain
    assert redacted_words(plain.split(" ")) == tuple(plain.split(" "))


def test_words_that_say_what_the_next_one_is() -> None:
    words = (
        "python",
        "t.py",
        "--wandb-key",
        "aB3dE5",
        "--name",
        "x",
        "-e",
        "FOO_KEY=b7",
        "--header",
        "Bearer",
        "c" * 9,
    )
    hidden = (
        "python",
        "t.py",
        "--wandb-key",
        "****",
        "--name",
        "x",
        "-e",
        "FOO_KEY=****",
        "--header",
        "Bearer",
        "c" * 9,
    )
    assert redacted_words(words) == hidden
    assert redacted_words(("x", "known-one"), ("known-one",)) == ("x", "****")


def test_the_secrets_of_an_environment() -> None:
    environ = {
        "A_TOKEN": "abcdefgh1",
        "B_KEY": "short",
        "KEY_FILE": "/a/path/of/a/key",
        "PATH": "/usr/bin",
        "PWD": "x" * 9,
    }
    assert secrets_of(environ) == ("abcdefgh1",)


def test_a_url_of_an_installation_keeps_neither_login_nor_token() -> None:
    assert (
        bare_url("https://bob:pw@h.invalid/aB3dE5gH7jK9mN1pQ3sT/x.whl?sig=a&b=1")
        == "https://h.invalid/****/x.whl?sig=****&b=1"
    )
    assert bare_url("file:///home/x/aB3dE5gH7jK9mN1pQ3sT/y") == "file:///home/x/aB3dE5gH7jK9mN1pQ3sT/y"


def test_for_strangers() -> None:
    said = 'at /home/alice/venv of alice on gpu17.corp.invalid (gpu17): "/home/bob/x" torchinductor_alice malice'
    assert anonymous(said, "/home/alice", "alice", ("gpu17.corp.invalid",)) == (
        'at /home/user/venv of user on host (host): "/home/user/x" torchinductor_user malice'
    )
    assert anonymous("/root/x torch root", "/root", "root", ("torch",)) == "/home/user/x torch root"


@pytest.mark.parametrize(
    "piece",
    [
        *(
            "a_",
            "%",
            "http://a/",
            "-eyJ",
            "-sk-",
            "login ",
            "token ",
            "x:",
            "@",
            "a:b@",
            "--key",
            "?a-",
            "KEY_A",
            "aA1",
            " ",
        ),
        *("-----BEGIN PRIVATE KEY-----", "://", "ssh://a:", "/t/ab", "bearer ", "authorization:", "https://a/t/"),
    ],
)
def test_no_text_makes_it_slow(piece: str) -> None:
    # Quadratic, each of these would take minutes; the suite's limit of a test would end it.
    redacted(piece * (400_000 // len(piece)))


def test_nothing_of_a_file_moves_the_terminal() -> None:
    said = "\x1b[1;31merror\x1b[0m a\x1b]0;title\x07b\x9b2Jc\u202egnp.exe\r\n\tx\udcff"
    assert on_terminal(said) == "\x1b[1;31merror\x1b[0m a\\x1b]0;title\\x07b\\x9b2Jc\\u202egnp.exe\\x0d\n\tx\\xff"
