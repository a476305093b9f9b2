"""A local package index over HTTP that can misbehave file by file: slow, truncated, absent, changed, cut."""

import hashlib
import json
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Literal
from urllib.parse import unquote

Fault = Literal["slow", "truncated", "missing", "changed", "cut", "unsized", "forbidden"]
"""slow: a little at a time; truncated: fewer bytes than announced, connection closed; missing: 404;
changed: other bytes of the same length (the index still states the right hash); cut: the connection drops at once;
unsized: served well, but no size in the page; forbidden: 403."""

SLOW_CHUNK = 4096


@dataclass(slots=True, kw_only=True)
class Index:
    """A running index. `faults` may be changed while it runs."""

    url: str
    """Base URL of the simple API, for `--index-url`."""
    folder: Path
    """Where its wheels lie; a wheel added later is served at once."""
    faults: dict[str, Fault] = field(default_factory=dict)
    """Wheel file name -> fault."""
    requests: list[str] = field(default_factory=list)
    """"METHOD path" of every request, in order; a request for a range ends in its header: "GET path bytes=-65536"."""
    pause: float = 0.05
    """Seconds between the chunks of a slow file."""
    ranges: bool = True
    """Answer range requests with 206; without it every answer is the whole file."""
    cut_after: int = 0
    """Bytes after which a "truncated" file ends; 0 for half of it."""

    def downloads(self) -> list[str]:
        """Return the names of the wheels that were fetched whole (GET without a range), in order."""
        return [line.rsplit("/", 1)[1] for line in self.requests if re.fullmatch(r"GET /files/\S+", line)]


@contextmanager
def make_index(folder: Path, faults: Mapping[str, Fault] | None = None) -> Iterator[Index]:
    """Serve the wheels of `folder` under the simple API (PEP 503 HTML and PEP 691 JSON) on a free local port."""
    index = Index(url="", folder=folder, faults=dict(faults or {}))

    class Handler(_Handler):
        served = index

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    index.url = f"http://127.0.0.1:{server.server_address[1]}/simple/"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield index
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    served: Index

    def do_GET(self) -> None:
        wanted = f" {self.headers['Range']}" if "Range" in self.headers else ""
        self.served.requests.append(f"GET {self.path}{wanted}")
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self.served.requests.append(f"HEAD {self.path}")
        self._answer(body=False)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Keep the test output quiet; requests are kept in `Index.requests`."""

    def _answer(self, *, body: bool) -> None:
        parts = [unquote(part) for part in self.path.split("?")[0].split("/") if part]
        if len(parts) == 2 and parts[0] == "simple":
            self._page(parts[1], body=body)
        elif len(parts) == 2 and parts[0] == "files":
            self._file(parts[1], body=body)
        else:
            self.send_error(404)

    def _page(self, project: str, *, body: bool) -> None:
        wheels = [
            path
            for path in sorted([*self.served.folder.glob("*.whl"), *self.served.folder.glob("*.tar.gz")])
            if _project(path) == project
        ]
        if not wheels:
            self.send_error(404)
            return
        if "application/vnd.pypi.simple.v1+json" in self.headers.get("Accept", ""):
            kind, text = "application/vnd.pypi.simple.v1+json", json.dumps(self._json_page(project, wheels))
        else:
            links = [f'<a href="/files/{w.name}#sha256={_digest(w)}">{w.name}</a><br>' for w in wheels]
            kind, text = "text/html", "<!DOCTYPE html><html><body>" + "\n".join(links) + "</body></html>"
        self._send(text.encode(), kind, body=body)

    def _json_page(self, project: str, wheels: list[Path]) -> dict[str, object]:
        files = []
        for wheel in wheels:
            entry: dict[str, object] = {
                "filename": wheel.name,
                "url": f"/files/{wheel.name}",
                "hashes": {"sha256": _digest(wheel)},
                "upload-time": "2026-01-02T00:00:00Z",
            }
            if self.served.faults.get(wheel.name) != "unsized":
                entry["size"] = wheel.stat().st_size
            files.append(entry)
        return {"meta": {"api-version": "1.1"}, "name": project, "files": files}

    def _file(self, name: str, *, body: bool) -> None:
        path = self.served.folder / name
        fault = self.served.faults.get(name)
        if fault in ("missing", "forbidden") or not path.is_file():
            self.send_error(403 if fault == "forbidden" else 404)
            return
        content = path.read_bytes()
        if fault == "changed":
            content = _changed(content)
        if fault == "cut":
            self.close_connection = True
            return
        self._send(content, "application/octet-stream", body=body, fault=fault)

    def _send(self, content: bytes, kind: str, *, body: bool, fault: Fault | None = None) -> None:
        first, last = self._range(len(content))
        if last is not None and first >= len(content):
            self.send_error(416)
            return
        self.send_response(200 if last is None else 206)
        if last is not None:
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(content)}")
            content = content[first : last + 1]
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if not body:
            return
        if fault == "truncated":
            content = content[: self.served.cut_after or len(content) // 2]
            self.close_connection = True
        step = SLOW_CHUNK if fault == "slow" else max(len(content), 1)
        for start in range(0, len(content), step):
            try:
                self.wfile.write(content[start : start + step])
                self.wfile.flush()
            except (BrokenPipeError, ConnectionResetError):
                return  # the client gave up, which is what some tests want
            if fault == "slow":
                time.sleep(self.served.pause)

    def _range(self, size: int) -> tuple[int, int | None]:
        """Return the first and the last byte of the range that was asked for; no last one when the whole is meant."""
        found = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if found is None or not self.served.ranges:
            return 0, None
        if not found[1]:
            return max(size - int(found[2]), 0), size - 1
        return int(found[1]), min(int(found[2]), size - 1) if found[2] else size - 1


def _changed(content: bytes) -> bytes:
    """Return another valid zip of the same length: one bit of the first member's time, in both of its headers."""
    other = bytearray(content)
    for place in (10, content.index(b"PK\x01\x02") + 12):
        other[place] ^= 1
    return bytes(other)


def _project(wheel: Path) -> str:
    return wheel.name.split("-")[0].replace("_", "-").lower()


def _digest(wheel: Path) -> str:
    return hashlib.sha256(wheel.read_bytes()).hexdigest()
