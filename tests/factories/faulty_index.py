"""A local index over HTTP/1.1 with kept connections that does, request by request, what a script says."""

import gzip
import hashlib
import json
import re
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

LONG = 60.0
"""Seconds of silence that no client of a test waits for."""

Deed = Callable[["Handler", bytes, str], None]
"""Answers one request, given the content and its type."""


@dataclass(slots=True, kw_only=True)
class FaultyIndex:
    """A running index; paths without a script are served well."""

    url: str
    """Base URL of the simple API."""
    folder: Path
    scripts: dict[str, list[Deed]] = field(default_factory=dict)
    """Path ("/simple/NAME/", "/files/WHEEL") -> what each request gets, in order; the last one stays."""
    requests: list[str] = field(default_factory=list)
    """"METHOD path [range]" of each request."""
    connections: int = 0
    over: threading.Event = field(default_factory=threading.Event)
    """Set when the index ends: what stalls goes on."""


@contextmanager
def faulty_index(folder: Path, *, certificate: Path | None = None) -> Iterator[FaultyIndex]:
    """Serve the wheels of a folder on a free local port, by HTTPS with that certificate, which has its key."""
    index = FaultyIndex(url="", folder=folder)

    class Bound(Handler):
        served = index

    server = ThreadingHTTPServer(("127.0.0.1", 0), Bound)
    server.daemon_threads = True
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    index.url = f"http{'s' if certificate else ''}://127.0.0.1:{server.server_address[1]}/simple/"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield index
    finally:
        index.over.set()
        server.shutdown()
        server.server_close()
        thread.join()


def self_signed(folder: Path) -> Path:
    """Make a certificate for 127.0.0.1 that nobody has signed; certificate and key in one file."""
    path = folder / "self-signed.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
         "-addext", "basicConstraints=critical,CA:FALSE", "-keyout", path, "-out", path],
        check=True, capture_output=True,
    )  # fmt: skip
    return path


class Handler(BaseHTTPRequestHandler):
    """Answers as the script of its index says."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    served: FaultyIndex

    def setup(self) -> None:
        """Count the connection."""
        super().setup()
        self.served.connections += 1

    def handle(self) -> None:
        """Bear a client that went away, or that did not like the certificate."""
        try:
            super().handle()
        except (ConnectionError, ssl.SSLError):
            self.close_connection = True

    def do_GET(self) -> None:
        """Answer."""
        wanted = f" {self.headers['Range']}" if "Range" in self.headers else ""
        self.served.requests.append(f"{self.command} {self.path}{wanted}")
        content, kind = self._content()
        script = self.served.scripts.get(self.path, [])
        deed = (script.pop(0) if len(script) > 1 else script[0]) if script else well
        try:
            deed(self, content, kind)
        except (ConnectionError, ssl.SSLError):
            self.close_connection = True

    def do_HEAD(self) -> None:
        """Answer without a body."""
        self.do_GET()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Keep the test output quiet."""

    def _content(self) -> tuple[bytes, str]:
        parts = [unquote(part) for part in self.path.split("?")[0].split("/") if part]
        if len(parts) == 2 and parts[0] == "simple":
            wheels = [path for path in sorted(self.served.folder.glob("*.whl")) if _project(path) == parts[1]]
            return (page(wheels), "application/vnd.pypi.simple.v1+json") if wheels else (b"", "")
        path = self.served.folder / parts[-1]
        return (path.read_bytes(), "application/octet-stream") if path.is_file() else (b"", "")

    def head(self, status: int, length: int | None, **headers: str) -> None:
        """Send the status line and headers."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.end_headers()

    def body(self, content: bytes) -> None:
        """Send bytes, unless only the head was asked for."""
        if self.command != "HEAD":
            self.wfile.write(content)
            self.wfile.flush()


def page(wheels: Sequence[Path]) -> bytes:
    """Return a page of the simple API as JSON (PEP 691)."""
    files = [
        {
            "filename": wheel.name,
            "url": f"/files/{wheel.name}",
            "hashes": {"sha256": hashlib.sha256(wheel.read_bytes()).hexdigest()},
            "size": wheel.stat().st_size,
            "upload-time": "2026-01-02T00:00:00Z",
        }
        for wheel in wheels
    ]
    return json.dumps({"meta": {"api-version": "1.1"}, "name": _project(wheels[0]), "files": files}).encode()


def html(handler: Handler, content: bytes, kind: str) -> None:
    """Answer with the same page as HTML (PEP 503)."""
    del kind
    files = json.loads(content)["files"]
    links = [f'<a href="{one["url"]}#sha256={one["hashes"]["sha256"]}">{one["filename"]}</a>' for one in files]
    _whole(handler, "<!DOCTYPE html><html><body>{}</body></html>".format("\n".join(links)).encode(), "text/html")


def well(handler: Handler, content: bytes, kind: str) -> None:
    """Answer as a good server does: ranges, an ETag, a kept connection."""
    if not kind:
        status(404)(handler, content, kind)
        return
    found = re.fullmatch(r"bytes=(\d*)-(\d*)", handler.headers.get("Range", ""))
    etag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
    same = handler.headers.get("If-Range", etag) == etag
    if found is None or not same:
        handler.head(200, len(content), Content_Type=kind, ETag=etag, Accept_Ranges="bytes")
        handler.body(content)
        return
    first = int(found[1]) if found[1] else max(len(content) - int(found[2]), 0)
    last = min(int(found[2]), len(content) - 1) if found[1] and found[2] else len(content) - 1
    if first >= len(content):
        handler.head(416, 0, Content_Range=f"bytes */{len(content)}")
        return
    told = f"bytes {first}-{last}/{len(content)}"
    handler.head(206, last - first + 1, Content_Type=kind, ETag=etag, Content_Range=told)
    handler.body(content[first : last + 1])


def whole(handler: Handler, content: bytes, kind: str) -> None:
    """Answer whole, whatever range was asked for."""
    _whole(handler, content, kind)


def _whole(handler: Handler, content: bytes, kind: str) -> None:
    handler.head(200, len(content), Content_Type=kind)
    handler.body(content)


def drop(handler: Handler, content: bytes, kind: str) -> None:
    """Close the connection without a word."""
    del content, kind
    handler.close_connection = True


def half(handler: Handler, content: bytes, kind: str) -> None:
    """Close the connection in the middle of the body."""
    handler.head(200, len(content), Content_Type=kind)
    handler.body(content[: len(content) // 2])
    handler.close_connection = True


def half_of_range(handler: Handler, content: bytes, kind: str) -> None:
    """Close the connection in the middle of what was asked for, a range of it included."""
    found = re.fullmatch(r"bytes=(\d+)-", handler.headers.get("Range", ""))
    if found is None:
        half(handler, content, kind)
        return
    first = int(found[1])
    told = f"bytes {first}-{len(content) - 1}/{len(content)}"
    handler.head(206, len(content) - first, Content_Type=kind, Content_Range=told)
    handler.body(content[first : first + max((len(content) - first) // 2, 1)])
    handler.close_connection = True


def stall(handler: Handler, content: bytes, kind: str) -> None:
    """Fall silent in the middle of the body."""
    handler.head(200, len(content), Content_Type=kind)
    handler.body(content[: len(content) // 2])
    handler.served.over.wait(LONG)
    handler.close_connection = True


def mute(handler: Handler, content: bytes, kind: str) -> None:
    """Take the request and never answer."""
    del content, kind
    handler.served.over.wait(LONG)
    handler.close_connection = True


def trickle(handler: Handler, content: bytes, kind: str) -> None:
    """Send a little at a time, never so slowly that a client gives up."""
    handler.head(200, len(content), Content_Type=kind)
    step = max(len(content) // 12, 1)
    for start in range(0, len(content), step):
        handler.body(content[start : start + step])
        time.sleep(0.05)


def too_long(handler: Handler, content: bytes, kind: str) -> None:
    """Announce more bytes than there are."""
    handler.head(200, len(content) + 100, Content_Type=kind)
    handler.body(content)
    handler.close_connection = True


def too_short(handler: Handler, content: bytes, kind: str) -> None:
    """Announce, and send, fewer bytes than there are."""
    handler.head(200, len(content) - 100, Content_Type=kind)
    handler.body(content[:-100])


def other(handler: Handler, content: bytes, kind: str) -> None:
    """Send other bytes of the same length, still a zip: one bit of the first member's time, in both of its headers."""
    changed = bytearray(content)
    for place in (10, content.index(b"PK\x01\x02") + 12):
        changed[place] ^= 1
    well(handler, bytes(changed), kind)


def unkept(handler: Handler, content: bytes, kind: str) -> None:
    """Answer well, promise to keep the connection, and close it."""
    well(handler, content, kind)
    handler.close_connection = True


def zipped(handler: Handler, content: bytes, kind: str) -> None:
    """Compress the body where the client takes that."""
    if "gzip" not in handler.headers.get("Accept-Encoding", ""):
        well(handler, content, kind)
        return
    packed = gzip.compress(content)
    handler.head(200, len(packed), Content_Type=kind, Content_Encoding="gzip")
    handler.body(packed)


def chunked(handler: Handler, content: bytes, kind: str) -> None:
    """Send chunks without a length."""
    handler.head(200, None, Content_Type=kind, Transfer_Encoding="chunked")
    if handler.command != "HEAD":
        for start in range(0, len(content), 1000):
            piece = content[start : start + 1000]
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        handler.wfile.write(b"0\r\n\r\n")
        handler.wfile.flush()


def endless(handler: Handler, content: bytes, kind: str) -> None:
    """Send chunks until nobody takes them."""
    handler.head(200, None, Content_Type=kind, Transfer_Encoding="chunked")
    piece = content + bytes(100_000)
    while handler.command != "HEAD":
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))


def portal(handler: Handler, content: bytes, kind: str) -> None:
    """Answer like a network that wants a login first: a page of its own, with 200."""
    del content, kind
    _whole(handler, b"<html><body><form>Please log in</form></body></html>", "text/html")


def status(code: int, **headers: str) -> Deed:
    """Return a deed: that status, an empty body."""

    def deed(handler: Handler, content: bytes, kind: str) -> None:
        del content, kind
        handler.head(code, 0, **headers)

    return deed


def moved(to: str) -> Deed:
    """Return a deed: a redirect; "{path}" stands for the path that was asked for."""

    def deed(handler: Handler, content: bytes, kind: str) -> None:
        del content, kind
        handler.head(302, 0, Location=to.format(path=handler.path))

    return deed


def login(user: str, password: str) -> Deed:
    """Return a deed: 401 without that login, else well."""
    from base64 import b64encode  # noqa: PLC0415

    wanted = "Basic " + b64encode(f"{user}:{password}".encode()).decode()

    def deed(handler: Handler, content: bytes, kind: str) -> None:
        if handler.headers.get("Authorization") == wanted:
            well(handler, content, kind)
        else:
            status(401, WWW_Authenticate='Basic realm="wheels"')(handler, content, kind)

    return deed


def _project(wheel: Path) -> str:
    return wheel.name.split("-")[0].replace("_", "-").lower()
