"""The redactor: what it hides stays hidden in JSON, what only looks like a secret stays, and no text makes it slow."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envdoctor.report.style import on_terminal
from envdoctor.standards.redaction import anonymous, bare_url, redacted, redacted_words, secrets_of
from tests.integration.test_secrets import SHAPES
from tests.integration.test_secrets import text as planted_text


@pytest.mark.parametrize("at", range(len(SHAPES)), ids=lambda at: SHAPES[at])
def test_every_shape_inside_json_and_after_other_text(at: int) -> None:
    said = planted_text("unit", at)
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
        "a.so:sym@VERSION libc.so.6:memcpy@GLIBC_2.14: not found, libx.so.1:f(int)@V_1.",
        "PATH=/a:/b@2:/c@3.1",
        "pass: 3, fail: 12, pass: 3/4",
        "X_AUTH=required, Y_KEY=none",
        '{"token": "none", "password": null}',
        "--auth required --mask-token 151669",
        "mask_token=5 PAD_TOKEN=0",
        "/etc/passwd: leads out of the venv",
        "real token: no mask, def login(password: str)",
        "torch/lib/libtorch.so:_ZN2at4_ops@libtorch_cpu.so",
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
        "X_AUTH": "required",
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
    assert anonymous("file:///data/al/x.whl a/data/al", "/data/al", "al", ()) == "file:///home/user/x.whl a/data/user"


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


# Places of a secret as people write them, and what may stand around it. %s is the secret.
HIDING = (
    *SHAPES,
    "bob:%s@10.0.0.7:3128", "bob:%s@proxy_1:3128", "bob:%s@PROXY_1.corp/x", "https:/bob:%s@packages.invalid/x",
    "X_AUTH=%s", "--x-auth %s", "pass: %s", "token: '%s'", '"secret": "%s"', "MY_MASK_KEY=%s", "postgres://a:%s@db/x",
)  # fmt: skip
LETTERS = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ"
secrets = st.builds(
    lambda first, word, digit, last: first + word + digit + last,
    st.sampled_from(("", "no", "none", "3", "required", "true", "12/")),
    st.text(LETTERS, min_size=6, max_size=30),
    st.sampled_from("0123456789"),
    st.text(LETTERS + "0123456789", min_size=12, max_size=40),
)
around = st.sampled_from(("", " ", "x ", "\n", "(", "'", '"', ", ", "at /a:/b: ", "é", "a=1 ", "{", "\t"))


@pytest.mark.property
@pytest.mark.parametrize("shape", HIDING)
@settings(max_examples=30)
@given(secret=secrets, before=around, after=around)
def test_no_secret_in_its_place_stays(shape: str, secret: str, before: str, after: str) -> None:
    if re.search("[@/_.-]", shape):
        secret = secret.replace("/", "")
    said = before + shape.replace("%s", secret).replace("%%", "%") + after
    for text in (said, json.dumps(said), json.dumps([json.dumps({"a": said})])):
        assert secret[-12:] not in redacted(text)


VERSIONS = st.from_regex(r"[A-Z]{1,9}_[0-9]{1,2}(\.[0-9]{1,2}){0,3}", fullmatch=True)
SYMBOLS = st.from_regex(r"_?[A-Za-z]\w{0,40}", fullmatch=True).filter(lambda name: name.isascii())
PATHS = st.from_regex(r"(/[a-z0-9._-]{1,12}(@[0-9]{1,3}(\.[0-9]{1,3}){0,2})?){1,5}", fullmatch=True)
READABLE = st.one_of(
    st.builds(lambda name, at, symbol, version: f"lib{name}.so{at}:{symbol}@{version}",
              st.from_regex(r"[a-z0-9_+-]{1,20}", fullmatch=True), st.sampled_from(("", ".1", ".6.0.33")), SYMBOLS,
              VERSIONS),
    st.builds(lambda symbol, version: f"{symbol}@{version}, version {version} not found", SYMBOLS, VERSIONS),
    st.lists(PATHS, min_size=1, max_size=6).map(":".join),
    st.builds(lambda word, number: f"{word}: {number}", st.sampled_from(("pass", "fail", "token", "key")),
              st.integers(0, 999)),
    st.builds(lambda name, value: f"{name}={value}", st.sampled_from(("X_AUTH", "GIT_AUTH", "Y_KEY", "MASK_TOKEN")),
              st.sampled_from(("required", "none", "false", "7", "basic", "optional"))),
    st.builds(lambda name, version: f"{name}=={version}", SYMBOLS,
              st.from_regex(r"[0-9]{1,3}(\.[0-9]{1,3}){1,3}", fullmatch=True)),
)  # fmt: skip


@pytest.mark.property
@given(said=st.lists(READABLE, min_size=1, max_size=4))
def test_what_only_looks_like_a_secret_stays_readable(said: list[str]) -> None:
    for text in (", ".join(said), "\n".join(said)):
        assert redacted(text) == text
        assert json.loads(redacted(json.dumps({"a": text}))) == {"a": text}
