"""Files are read through `facts/regular_file.py`, which waits for no pipe and takes no more than it was told to.

A file that reads in another way is named here, with what makes it safe: a number that grows is a decision.
"""

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_READS = frozenset({"read_text", "read_bytes"})
# Module -> how often it opens a file to read it by itself, and why that is safe.
OWN = {
    "elf/image.py": (0, "open_regular of its own: a descriptor that is only read at offsets"),
    "loader/torch_import.py": (1, "through elf's open_regular"),
    "loader/lazy.py": (1, "through elf's open_regular"),
    "loader/host.py": (1, "through elf's open_regular"),
    "loader/ldcache.py": (0, "through elf's open_regular"),
    "gate_package/into_lock.py": (1, "a lock that was read before"),
    "gate_package/shipped.py": (2, "our own files"),
    "gate_package/modules.py": (2, "our own source"),
    "fleet/ray.py": (1, "our own source"),
    "report/schemas.py": (1, "our own schemas"),
    "cache/blob.py": (1, "a regular file of a listing"),
    "cache/relocate.py": (1, "a regular file of a manifest"),
    "cache/snapshot.py": (2, "a regular file of a listing, hashed piece by piece"),
    "cache/in_use.py": (2, "/proc"),
    "facts/left_running.py": (1, "/proc"),
    "cache/static_key.py": (2, "/proc"),
    "probes/loading/loader.py": (1, "/proc"),
    "probes/machine/platform.py": (1, "/proc"),
    "probes/machine/mounts.py": (1, "/proc"),
    "probes/machine/gpu.py": (3, "/proc and /sys"),
    "swap/in_use.py": (2, "/proc"),
    "swap/same_venv.py": (1, "/proc"),
    "swap/store.py": (3, "/proc"),
    "probes/loading/gpu_code.py": (1, "a library that was read as an object, mapped"),
    "wheels/locking.py": (1, "what uv wrote for us"),
    "wheels/locked_wheels.py": (1, "what uv wrote for us"),
    "wheels/wheel_origins.py": (1, "a wheel, piece by piece"),
    "wheels/wheel_contents.py": (1, "an entry of a wheel"),
    "wheels/download.py": (1, "a wheel, piece by piece"),
    "capture/pinning.py": (2, "a wheel, piece by piece"),
    "capture/locked_profile.py": (1, "a wheel, piece by piece"),
    "capture/captured_files.py": (1, "a wheel of ours, piece by piece"),
    "capture/repack.py": (1, "an entry of our archive"),
    "capture/built_wheels.py": (1, "a file that RECORD vouches for"),
    "explore/scratch.py": (2, "a copy of a regular file"),
    "trial/attempt.py": (1, "our own log of a command"),
    "trial/relocation.py": (1, "a script that was written a moment ago"),
    "trial/command.py": (1, "our own log of a command"),
    "swap/permissions.py": (1, "a copy of a regular file"),
    "stack/repair_copy.py": (1, "pyvenv.cfg of our copy"),
    "stack/room.py": (1, "/proc"),
    "stack/fix_copy.py": (1, "a file of our copy"),
    "wheels/uv.py": (2, "/proc"),
    "cli/isolation.py": (1, "/proc"),
    "facts/launch.py": (3, "/proc"),
    "watch/supervise.py": (1, "a file that grows, piece by piece; a pipe has no size and is not opened"),
    "facts/processes.py": (3, "/proc"),
    "facts/own_modules.py": (1, "our own bytecode"),
    "rollout/payload.py": (1, "our own module"),
    "documents/fingerprint_file.py": (1, "may come through a pipe; read up to a limit"),
}


def _reads(call: ast.Call) -> bool:
    """Tell whether a call opens a file to read it: open(), path.open(), read_text(), read_bytes()."""
    function = call.func
    name = (
        function.id if isinstance(function, ast.Name) else function.attr if isinstance(function, ast.Attribute) else ""
    )
    if name in _READS:
        return isinstance(function, ast.Attribute) and not (name == "read_text" and len(call.args) > 1)
    if name != "open" or (isinstance(function, ast.Attribute) and ast.unparse(function.value) in _NOT_FILES):
        return False
    mode = call.args[1] if isinstance(function, ast.Name) and len(call.args) > 1 else None
    mode = call.args[0] if isinstance(function, ast.Attribute) and call.args else mode
    given = mode.value if isinstance(mode, ast.Constant) else "r"
    return isinstance(given, str) and len(given) < 4 and not set(given) & set("wax")


# Objects whose open() is another thing.
_NOT_FILES = frozenset({"os", "tarfile", "Workspace", "fork", "loader", "self.loader", "app", "webbrowser"})


def test_every_file_is_read_through_one_place() -> None:
    found: Counter[str] = Counter()
    for path in sorted((ROOT / "envdoctor").rglob("*.py")):
        name = path.relative_to(ROOT / "envdoctor").as_posix()
        if name != "facts/regular_file.py":
            found[name] += sum(
                isinstance(node, ast.Call) and _reads(node) for node in ast.walk(ast.parse(path.read_text()))
            )
    wrong = {name: count for name, count in found.items() if count > OWN.get(name, (0, ""))[0]}
    assert wrong == {}, "use read_regular, read_text or open_regular of envdoctor/facts/regular_file.py"


def test_a_read_is_recognised() -> None:
    reads = ("open(p)", "open(p, 'rb')", "p.open('rb')", "p.open()", "p.read_text()", "Path(x).read_bytes()")
    others = ("open(p, 'w')", "p.open('xb')", "os.open(p, 0)", "Workspace.open(v)", "read_text(p, 5)", "fork.open(p)")
    for text in (*reads, *others):
        (statement,) = ast.parse(text).body
        assert isinstance(statement, ast.Expr)
        assert isinstance(statement.value, ast.Call)
        assert _reads(statement.value) == (text in reads), text


def test_no_link_that_leads_to_itself_ends_a_command() -> None:
    """Path.resolve raises RuntimeError for one; os.path.realpath gives the path as it is."""
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sorted((ROOT / "envdoctor").rglob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if ".resolve()" in line and "__file__" not in line
    ]
    assert found == [], "use Path(os.path.realpath(path))"
