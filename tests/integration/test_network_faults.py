"""An index that misbehaves, asked by uv and by us in the same test: where uv gets through, so do we."""

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pytest
from uv import find_uv_bin

from envdoctor.model.events import silent
from envdoctor.model.plan import BaseInterpreter, Unavailable
from envdoctor.stack.interpreters import InterpreterRequest, choose
from envdoctor.standards.lock import LockedPackage
from envdoctor.wheels import download, fetched_wheels, wheel_origins, wheel_tags
from envdoctor.wheels import uv as uv_tool
from envdoctor.wheels.cached_answers import Question, Remembered
from envdoctor.wheels.download import Download, DownloadError
from envdoctor.wheels.http import ask
from envdoctor.wheels.index import File
from envdoctor.wheels.index_config import IndexConfig, configured
from envdoctor.wheels.locked_wheels import Fit, search
from envdoctor.wheels.pip_config import PipSettings
from envdoctor.wheels.urls import THREADS, IndexUnreadableError
from tests.factories import faulty_index as deeds
from tests.factories.faulty_index import Deed, FaultyIndex, faulty_index, self_signed
from tests.factories.make_wheel import make_wheel, sha256

WHEEL = "thing-1.0-py3-none-any.whl"
PAGE, FILE = "/simple/thing/", f"/files/{WHEEL}"
AGAIN = "run the same command again: it goes on where it stopped"
ANSWER = "run the same command again: the index did not answer, and may in a moment"
PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
MACHINE = os.uname().machine


@dataclass(slots=True, kw_only=True)
class Bench:
    """A wheel, its index, and both who ask for it."""

    folder: Path
    index: FaultyIndex
    more: Mapping[str, str]
    """Variables for both."""
    url: str = ""
    """Of the index, where it is not asked under its own."""

    @property
    def package(self) -> LockedPackage:
        """The locked wheel."""
        return LockedPackage(name="thing", version="1.0", hashes=(sha256(self.folder / "wheels" / WHEEL),))

    @property
    def environment(self) -> dict[str, str]:
        """Nothing of the user's, an empty cache."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder / "home"),
            "UV_CACHE_DIR": str(self.folder / "cache"),
            "UV_NO_CONFIG": "1",
            "UV_PYTHON_DOWNLOADS": "never",
            "UV_HTTP_TIMEOUT": "1",
            "NO_COLOR": "1",
            **self.more,
        }

    def with_uv(self) -> bool:
        """Tell whether uv installs the wheel."""
        command = [find_uv_bin(), "pip", "install", "--no-deps", "--require-hashes", "--requirements", "-"]
        command += ["--python", sys.executable, "--target", str(self.folder / "target")]
        package = self.package
        done = subprocess.run(
            command,
            input=f"thing==1.0 --hash=sha256:{package.hashes[0]}\n",
            env={**self.environment, "UV_DEFAULT_INDEX": self.url or self.index.url},
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode == 0 and (self.folder / "target" / "thing" / "__init__.py").is_file()

    def sources(self) -> tuple[uv_tool.Uv, IndexConfig]:
        """Return uv and the one index, as a command finds them."""
        uv = uv_tool.locate(self.environment, self.folder)
        pip = PipSettings(index_url=self.url or self.index.url, told_by={})
        return uv, configured(uv, pip, self.folder / "home", sys.executable)

    def fetched(self) -> str:
        """Fetch the wheel; return nothing, or why it is missing and what to do."""
        uv, sources = self.sources()
        major, minor = (int(part) for part in PYTHON.split("."))
        tags = wheel_tags.supported((major, minor), MACHINE, 17)
        house = self.folder / "house"
        found = search(
            [self.package], house, Fit(python=PYTHON, machine=MACHINE, tags=tags, torch_backend=""), sources, uv
        )
        done = fetched_wheels.fetch(found, house, sources.access, silent)
        if not done.missing:
            assert sha256(house / WHEEL) == self.package.hashes[0]
            return ""
        assert list(house.glob("*.whl")) == []
        return f"{done.missing[0].reason}\n{done.missing[0].hint}".replace(self.base, "INDEX")

    def planned(self) -> Unavailable | None:
        """Plan a restore; return why the wheel has no source."""
        uv, sources = self.sources()
        question = Question(uv=uv, interpreter=self.interpreter, sources=sources)
        found = wheel_origins.locate(question, [self.package], Remembered())
        return found.unavailable[0] if found.unavailable else None

    def scripted(self, path: str, script: Sequence[Deed]) -> None:
        """Have the index do this, from the beginning."""
        self.index.scripts = {path: list(script)}

    @property
    def interpreter(self) -> BaseInterpreter:
        """The one of the tests."""
        return choose(InterpreterRequest(versions=(PYTHON,)), {"PATH": ""}, Path("/nonexistent"))

    @property
    def base(self) -> str:
        """Host and port."""
        return self.index.url.partition("://")[2].partition("/")[0]


# (name, where, what each request gets; the last one stays)
PASSING: list[tuple[str, str, list[Deed]]] = [
    ("dropped twice", FILE, [deeds.drop, deeds.drop, deeds.well]),
    ("dropped twice, page", PAGE, [deeds.drop, deeds.drop, deeds.well]),
    ("stalled once", FILE, [deeds.stall, deeds.well]),
    ("stalled once, page", PAGE, [deeds.stall, deeds.well]),
    ("no answer once", FILE, [deeds.mute, deeds.well]),
    ("cut once", FILE, [deeds.half, deeds.well]),
    ("cut once, page", PAGE, [deeds.half, deeds.well]),
    ("429 with Retry-After", FILE, [deeds.status(429, Retry_After="1"), deeds.well]),
    ("429 with Retry-After, page", PAGE, [deeds.status(429, Retry_After="1"), deeds.well]),
    ("503 twice", FILE, [deeds.status(503), deeds.status(503), deeds.well]),
    ("503 twice, page", PAGE, [deeds.status(503), deeds.status(503), deeds.well]),
    ("500 once", FILE, [deeds.status(500), deeds.well]),
    ("408 once", FILE, [deeds.status(408), deeds.well]),
    ("no ranges", FILE, [deeds.whole]),
    ("cut once, then whole", FILE, [deeds.half, deeds.whole]),
    ("redirect", FILE, [deeds.moved("{path}?moved"), deeds.well]),
    ("redirect, page", PAGE, [deeds.moved("{path}?moved"), deeds.well]),
    ("trickle", FILE, [deeds.trickle]),
    ("connections not kept", FILE, [deeds.unkept]),
    ("connections not kept, page", PAGE, [deeds.unkept]),
    ("gzip, page", PAGE, [deeds.zipped]),
    ("chunked", FILE, [deeds.chunked]),
    ("chunked, page", PAGE, [deeds.chunked]),
    ("HTML, page", PAGE, [deeds.html]),
]


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """Make the wheel."""
    files: dict[str, bytes | str] = {"thing/__init__.py": "", "thing/data.bin": os.urandom(120_000)}
    make_wheel(tmp_path / "wheels", "thing", "1.0", files=files)
    (tmp_path / "home").mkdir()
    return tmp_path / "wheels"


@pytest.fixture
def bench(wheels: Path) -> Bench:  # type: ignore[misc]
    """Serve it."""
    with faulty_index(wheels) as index:
        yield Bench(folder=wheels.parent, index=index, more={})


def test_a_file_that_does_not_end_is_not_taken_to_the_last_byte_of_the_disk(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = (bench.folder / "wheels" / WHEEL).stat().st_size
    bench.scripted(FILE, [deeds.endless])
    hint = "look at what that server serves, or take the wheel from another source"
    told = f"http://INDEX{{}} does not end: more than {{}}\n{hint}"
    assert bench.fetched() == told.format(FILE, f"{size} bytes came, which is its size")
    monkeypatch.setattr(download, "_LARGEST", 1 << 20)
    monkeypatch.setattr(download.Download, "_size", lambda *_: None)
    assert bench.fetched() == told.format(FILE, "1048576 bytes came, and nobody says its size")
    assert not list((bench.folder / "house").glob(".*.part"))


@pytest.mark.parametrize(
    ("path", "script"), [(path, script) for _, path, script in PASSING], ids=[one[0] for one in PASSING]
)
def test_what_passes_keeps_neither_uv_nor_us(bench: Bench, path: str, script: list[Deed]) -> None:
    bench.scripted(path, script)
    assert bench.with_uv()
    bench.scripted(path, script)
    assert (bench.fetched() if path == FILE else bench.planned()) in ("", None)


BROKEN = f"http://INDEX{FILE}: the connection broke off"
# (name, where, what each request gets, the whole message of a fetch: reason, hint)
FAILING: list[tuple[str, str, list[Deed], str, str]] = [
    ("dropped", FILE, [deeds.drop], f"{BROKEN} (Remote end closed connection without response)", AGAIN),
    ("stalled", FILE, [deeds.stall], "INDEX did not answer: nothing came for 1 s", AGAIN),
    ("stalled, page", PAGE, [deeds.stall], "INDEX did not answer: nothing came for 1 s", ANSWER),
    ("503", FILE, [deeds.status(503)], f"http://INDEX{FILE}: it answered 503 Service Unavailable", AGAIN),
    ("503, page", PAGE, [deeds.status(503)], f"http://INDEX{PAGE}: it answered 503 Service Unavailable", ANSWER),
    (
        "an hour, page",
        PAGE,
        [deeds.status(429, Retry_After="3600")],
        f"http://INDEX{PAGE}: it answered 429 Too Many Requests",
        ANSWER,
    ),
    ("404", FILE, [deeds.status(404)], f"the index names http://INDEX{FILE}, but does not serve it (404)", AGAIN),
    ("403", FILE, [deeds.status(403)], f"http://INDEX{FILE}: it answered 403 Forbidden", AGAIN),
    ("cut, no ranges", FILE, [deeds.half], f"{BROKEN} (HALF of SIZE bytes came)", AGAIN),
    ("announced too long", FILE, [deeds.too_long], f"{BROKEN} (SIZE of LONGER bytes came)", AGAIN),
    (
        "announced too short",
        FILE,
        [deeds.too_short],
        f"http://INDEX{FILE} is not the locked wheel: it hashes to OTHER, the lock allows LOCKED",
        "do not install it; find out which source serves other bytes (a rebuilt wheel, a mirror, tampering)",
    ),
    (
        "other bytes",
        FILE,
        [deeds.other],
        f"http://INDEX{FILE} is not the locked wheel: it hashes to OTHER, the lock allows LOCKED",
        "do not install it; find out which source serves other bytes (a rebuilt wheel, a mirror, tampering)",
    ),
    ("redirects in a circle", FILE, [deeds.moved("{path}")], f"http://INDEX{FILE}: it redirects in a circle", AGAIN),
    (
        "a network that wants a login",
        PAGE,
        [deeds.portal],
        "no configured place has it",
        f"download its CPython {PYTHON} wheel (sha256 LOCKED) on a machine with access, put it into FOLDER/house, and "
        "run the same command again: it verifies the wheel",
    ),
]


@pytest.mark.parametrize(
    ("path", "script", "reason", "hint"), [one[1:] for one in FAILING], ids=[one[0] for one in FAILING]
)
def test_what_does_not_pass_is_said(bench: Bench, path: str, script: list[Deed], reason: str, hint: str) -> None:
    bench.more = {"UV_HTTP_RETRIES": "0"}
    bench.scripted(path, script)
    assert not bench.with_uv()
    bench.scripted(path, script)
    told = bench.fetched()
    size, locked = (bench.folder / "wheels" / WHEEL).stat().st_size, bench.package.hashes[0]
    got = told.partition("hashes to ")[2][:64]
    told = told.replace(got or "OTHER", "OTHER").replace(locked, "LOCKED").replace(str(bench.folder), "FOLDER")
    expected = f"{reason}\n{hint}".replace("HALF", str(size // 2)).replace("LONGER", str(size + 100))
    assert told == expected.replace("SIZE", str(size))
    if path == PAGE and hint == ANSWER:
        missing = bench.planned()
        assert missing is not None
        assert (missing.reason.replace(bench.base, "INDEX"), missing.hint, missing.transient) == (reason, ANSWER, True)


def test_a_download_goes_on_where_it_broke_off_however_often(bench: Bench) -> None:
    bench.index.scripts[FILE] = [*[deeds.half_of_range] * 6, deeds.well]
    assert bench.fetched() == ""
    begun = [int(line.rpartition("=")[2].rstrip("-")) for line in bench.index.requests if "bytes=" in line]
    assert begun == sorted(set(begun))
    assert len(begun) == 6


def test_another_file_behind_the_same_name_is_not_joined_to_what_has_come(bench: Bench) -> None:
    wheel = bench.folder / "wheels" / WHEEL
    right = wheel.read_bytes()

    def half_of_another(handler: deeds.Handler, content: bytes, kind: str) -> None:
        handler.head(200, len(content), Content_Type=kind, ETag='"another"')
        handler.body(b"x" * (len(content) // 2))
        handler.close_connection = True

    bench.index.scripts[FILE] = [half_of_another, deeds.well]
    assert bench.fetched() == ""
    assert (bench.folder / "house" / WHEEL).read_bytes() == right
    # The range was asked for on the condition that the file is the same: the whole came, in one more request.
    assert [line.partition(WHEEL)[2].strip() for line in bench.index.requests if WHEEL in line] == [
        "",
        f"bytes={len(right) // 2}-",
    ]


def test_connections_are_kept_and_shared(bench: Bench) -> None:
    more = [make_wheel(bench.folder / "wheels", f"more-{number}", "1.0") for number in range(30)]
    packages = [bench.package]
    packages += [LockedPackage(name=f"more-{n}", version="1.0", hashes=(sha256(one),)) for n, one in enumerate(more)]
    uv, sources = bench.sources()
    found = wheel_origins.locate(
        Question(uv=uv, interpreter=bench.interpreter, sources=sources), packages, Remembered()
    )
    assert found.unavailable == ()
    assert len(bench.index.requests) == 2 * len(packages)
    assert bench.index.connections <= THREADS


@pytest.mark.parametrize(("code", "length"), [(403, 0), (404, 5_000), (404, 1_000_000)])
def test_answers_that_nobody_reads_to_their_end_give_their_connection_back(
    bench: Bench, code: int, length: int
) -> None:
    def refused(handler: deeds.Handler, content: bytes, kind: str) -> None:
        handler.head(code, length)
        handler.body(b"x" * length)

    packages = [
        LockedPackage(name=f"thing-{number}", version="1.0", hashes=("a" * 64,)) for number in range(2 * THREADS)
    ]
    bench.index.scripts = {f"/simple/{package.name}/": [refused] for package in packages}
    access = bench.sources()[1].access
    left = [package.name for package in packages]

    def ask_all() -> None:
        while left:
            with pytest.raises((FileNotFoundError, IndexUnreadableError)):
                ask(f"http://{bench.base}/simple/{left[-1]}/", access, method="GET")
            left.pop()

    asking = threading.Thread(target=ask_all, daemon=True)
    asking.start()
    asking.join(60)
    assert left == []
    # One request each, and what is short leaves its connection open for the next.
    assert len(bench.index.requests) == len(packages)
    assert bench.index.connections == (1 if length < 1_000_000 else len(packages))


def test_a_redirect_takes_the_login_along_on_its_own_host_only(bench: Bench) -> None:
    sent: list[str | None] = []

    def noted(handler: deeds.Handler, content: bytes, kind: str) -> None:
        sent.append(handler.headers.get("Authorization"))
        deeds.well(handler, content, kind)

    with faulty_index(bench.folder / "wheels") as other:
        elsewhere = other.url.replace("/simple/", FILE)
        bench.more = {"NETRC": str(bench.folder / "none"), "UV_HTTP_RETRIES": "0"}
        bench.url = bench.index.url.replace("://", "://me:geheim@")
        known = deeds.login("me", "geheim")
        other.scripts[FILE] = [noted]
        bench.index.scripts = {PAGE: [deeds.moved("{path}?moved")], f"{PAGE}?moved": [known], FILE: [known]}
        assert bench.fetched() == ""
        (bench.folder / "house" / WHEEL).unlink()
        bench.index.scripts[FILE] = [deeds.moved(elsewhere)]
        assert bench.fetched() == ""
    assert sent == [None]


def test_a_redirect_to_a_host_whose_certificate_must_be_valid(wheels: Path) -> None:
    signed = self_signed(wheels.parent)
    with faulty_index(wheels, certificate=signed) as index, faulty_index(wheels, certificate=signed) as other:
        bench = Bench(folder=wheels.parent, index=index, more={"UV_HTTP_RETRIES": "0"})
        bench.more = {**bench.more, "UV_INSECURE_HOST": bench.base}
        index.scripts[FILE] = [deeds.moved(other.url.replace("/simple/", FILE))]
        host = other.url.partition("://")[2].partition("/")[0]
        assert bench.fetched() == (
            f"{host} has a certificate that is not trusted here (self-signed certificate); SSL_CERT_FILE, or pip's "
            f"`cert`, names the CA that signed it\n{AGAIN}"
        )
        assert other.requests == []


def test_a_login_in_any_script(bench: Bench) -> None:
    bench.index.scripts = {PAGE: [deeds.login("я", "пароль")], FILE: [deeds.login("я", "пароль")]}
    bench.url = bench.index.url.replace("://", f"://{quote('я')}:{quote('пароль')}@")
    assert bench.with_uv()
    assert bench.fetched() == ""


@pytest.mark.parametrize("url", ["http://[::1/simple/", "http://127.0.0.1:99999/simple/"])
def test_what_is_not_a_url_is_said(bench: Bench, url: str) -> None:
    with pytest.raises(IndexUnreadableError) as caught:
        ask(url, bench.sources()[1].access)
    why = "Invalid IPv6 URL" if "[" in url else "Port out of range 0-65535"
    assert str(caught.value) == f"{url}: not a URL ({why})"


def test_a_full_disk_is_no_broken_connection(bench: Bench) -> None:
    def full(came: int) -> None:
        if came:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    house = bench.folder / "house"
    house.mkdir()
    file = File(filename=WHEEL, url=f"http://{bench.base}{FILE}")
    download = Download(
        file=file,
        hashes=bench.package.hashes,
        folder=house,
        access=bench.sources()[1].access,
        tick=full,
        stop=threading.Event(),
    )
    with pytest.raises(DownloadError) as caught:
        download.run()
    assert (caught.value.reason, caught.value.hint) == (
        f"the disk that holds {house} is full",
        f"free some space, then {AGAIN}",
    )
    assert len(bench.index.requests) == 1


def test_a_host_that_never_answered_is_not_asked_for_every_wheel(bench: Bench) -> None:
    bench.more = {"UV_HTTP_RETRIES": "0"}
    packages = [LockedPackage(name=f"thing-{number}", version="1.0", hashes=("a" * 64,)) for number in range(40)]
    for package in packages:
        bench.index.scripts[f"/simple/{package.name}/"] = [deeds.drop]
    uv, sources = bench.sources()
    found = wheel_origins.locate(
        Question(uv=uv, interpreter=bench.interpreter, sources=sources), packages, Remembered()
    )
    assert [one.transient for one in found.unavailable] == [True] * 40
    asked = [line for line in bench.index.requests if "thing-" in line]
    assert len(asked) < 40 * 3


@pytest.mark.parametrize("trusted", [False, True])
def test_a_certificate_that_nobody_signed(wheels: Path, *, trusted: bool) -> None:
    with faulty_index(wheels, certificate=self_signed(wheels.parent)) as index:
        bench = Bench(folder=wheels.parent, index=index, more={"UV_HTTP_RETRIES": "0"})
        if trusted:
            bench.more = {**bench.more, "UV_INSECURE_HOST": bench.base}
        assert bench.with_uv() is trusted
        told = bench.fetched()
        assert told == ("" if trusted else told)
        assert told.partition("\n")[0] == (
            ""
            if trusted
            else "no configured place that could be read has it; INDEX has a certificate that is not trusted here "
            "(self-signed certificate); SSL_CERT_FILE, or pip's `cert`, names the CA that signed it"
        )


def test_a_certificate_that_the_user_names_is_trusted(wheels: Path) -> None:
    signed = self_signed(wheels.parent)
    with faulty_index(wheels, certificate=signed) as index:
        bench = Bench(folder=wheels.parent, index=index, more={"SSL_CERT_FILE": str(signed)})
        assert bench.with_uv()
        assert (bench.planned(), bench.fetched()) == (None, "")


@pytest.mark.parametrize("kept_in", ["url", "netrc", "nowhere"])
def test_a_login_is_sent_and_never_shown(bench: Bench, kept_in: str) -> None:
    bench.index.scripts = {PAGE: [deeds.login("me", "geheim")], FILE: [deeds.login("me", "geheim")]}
    netrc = bench.folder / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password geheim\n")
    bench.more = {"NETRC": str(netrc if kept_in == "netrc" else bench.folder / "none"), "UV_HTTP_RETRIES": "0"}
    bench.url = bench.index.url.replace("://", "://me:geheim@" if kept_in == "url" else "://")
    assert bench.with_uv() is (kept_in != "nowhere")
    told = bench.fetched()
    assert "geheim" not in told
    assert told.partition("\n")[0] == (
        f"no configured place that could be read has it; http://INDEX{PAGE}: it answered 401 Unauthorized"
        if kept_in == "nowhere"
        else ""
    )


@pytest.mark.parametrize("bypassed", [False, True])
def test_a_proxy_that_does_not_answer_is_named(bench: Bench, *, bypassed: bool) -> None:
    bench.more = {"ALL_PROXY": "http://me:geheim@127.0.0.1:9", "UV_HTTP_RETRIES": "0"}
    if bypassed:
        bench.more = {**bench.more, "NO_PROXY": "example.invalid,127.0.0.1"}
    assert bench.with_uv() is bypassed
    assert bench.fetched() == (
        "" if bypassed else f"http://INDEX{PAGE}: the proxy did not answer (Connection refused)\n{ANSWER}"
    )
