"""Secrets of 30 shapes in every place that a command reads, and every output, file and log that one writes."""

import json
import re
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.factories.make_incident import Incident, make_incident
from tests.factories.make_venv import install
from tests.factories.make_wheel import make_wheel
from tests.factories.run_envdoctor import run_envdoctor

# %s is the secret: letters and digits, unique to its place.
SHAPES = (
    "https://bob:%s@packages.invalid/simple",
    "https://:%s@packages.invalid/simple",
    "https://%s@packages.invalid/simple",
    "http://bob:pw-%s%%21@proxy.invalid:3128",
    "socks5h://bob:%s@proxy.invalid",
    "bob:%s@proxy.invalid:3128",
    "git+https://oauth2:%s@code.invalid/x.git",
    "ssh://git:%s@code.invalid/x.git",
    "https://packages.invalid/x-1.0.zip?token=%s",
    "https://packages.invalid/x-1.0.zip?a=1&access_token=%s&b=2",
    "https://packages.invalid/x-1.0.zip?X-Amz-Credential=k&X-Amz-Signature=%s",
    "https://packages.invalid/x-1.0.zip?sv=1&sig=%s",
    "https://packages.invalid/x-1.0.zip?X-Goog-Signature=%s",
    "https://packages.invalid/x-1.0.zip#password=%s",
    "https://packages.invalid/t/%s/simple",
    "Authorization: Bearer %s",
    "Authorization: Basic %s==",
    "machine packages.invalid login bob password %s",
    "--wandb-key=%s",
    "--hf-token %s",
    "password = %s",
    "'api_key': '%s'",
    "WANDB_API_KEY=%s",
    "export DB_PASS='%s'",
    "hf_%s",
    "ghp_%s",
    "glpat-%s",
    "pypi-%s",
    "xoxb-%s",
    "eyJhbGciOiJIUzI1NiJ9.%s.%s",
)
# Names that are collected or kept by a profile, half of them without a word that tells.
NAMES = ("TORCH_NOTE_%d", "NCCL_FOO_%d", "PYTORCH_X_%d", "TRITON_Y_%d", "PYTHONZ%d")
SECRET_NAMES = (
    "UV_PUBLISH_PASSWORD", "UV_INDEX_CORP_PASSWORD", "UV_HTTP_PASSWORD", "UV_GITHUB_PAT", "PIP_PASSWD",
    "PYTHON_KEYRING_PW", "TORCH_LICENSE_KEY", "NCCL_FOO_SECRET", "NCCL_AUTH", "HF_TOKEN", "WANDB_API_KEY",
    "AWS_SECRET_ACCESS_KEY", "TORCH_CRED", "UV_INDEX_URL", "PIP_INDEX_URL", "HTTPS_PROXY", "ALL_PROXY",
)  # fmt: skip


def _secret(place: str, at: int) -> str:
    return f"{place}{at:02d}Qz7Wx9Kp3Lm5Vt1Rb8"


def text(place: str, at: int) -> str:
    """Return the text of a shape with the secret of that place."""
    return SHAPES[at].replace("%s", _secret(place, at)).replace("%%", "%")


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """A project and a venv full of secrets."""

    incident: Incident
    variables: dict[str, str]

    @property
    def root(self) -> Path:
        """The project."""
        return self.incident.root


def _variables() -> dict[str, str]:
    found = {NAMES[at % len(NAMES)] % at: text("variable", at) for at in range(len(SHAPES))}
    return (
        found
        | {name: _secret("name", at) for at, name in enumerate(SECRET_NAMES) if "URL" not in name}
        | {
            "UV_INDEX_URL": text("name", 0),
            "PIP_INDEX_URL": text("name", 1),
            "HTTPS_PROXY": text("name", 5),
            "ALL_PROXY": text("name", 4),
        }
    )


def _in_the_venv(incident: Incident) -> None:
    site = incident.venv.site_packages
    for at in range(len(SHAPES)):
        wheel = make_wheel(incident.root / "wheels", f"from{at}", "1.0", files={f"from{at}.py": ""})
        install(incident.venv, wheel)
        info = site / f"from{at}-1.0.dist-info"
        (info / "direct_url.json").write_text(json.dumps({"url": text("direct", at), "archive_info": {}}))
    (site / "from0.py").write_text("changed = 1  # and so repair has something to say\n")
    lines = "".join(f"import os; x = {text('hook', at)!r}\n" for at in range(len(SHAPES)))
    (site / "hook.pth").write_text(lines + "".join(f"/nowhere/{text('path', at)}\n" for at in range(len(SHAPES))))


def _around(incident: Incident) -> None:
    home, root = incident.root / "home", incident.root
    (home / ".config/pip").mkdir(parents=True)
    (home / ".config/uv").mkdir(parents=True)
    urls = [at for at, shape in enumerate(SHAPES) if "://" in shape]
    (home / ".config/pip/pip.conf").write_text(
        "[global]\nindex-url = "
        + text("pipconf", 0)
        + "\nextra-index-url =\n"
        + "".join(f"    {text('pipconf', at)}\n" for at in urls)
        + "proxy = "
        + text("pipconf", 5)
        + "\n"
    )
    (home / ".config/uv/uv.toml").write_text(
        "".join(f"[[index]]\nname = 'i{at}'\nurl = {text('uvtoml', at)!r}\n" for at in urls)
    )
    (home / ".netrc").write_text(
        "".join(f"machine m{at}.invalid login bob password {_secret('netrc', at)}\n" for at in range(30))
    )
    git = ("git", "-C", str(root))
    subprocess.run([*git, "init", "-q"], check=True)
    (root / "train.py").write_text("".join(f"X{at} = {text('source', at)!r}\n" for at in range(len(SHAPES))))
    for at in urls:
        subprocess.run([*git, "remote", "add", f"r{at}", text("remote", at)], check=True)
    subprocess.run([*git, "add", "train.py"], check=True)
    subprocess.run([*git, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"], check=True)
    lock = root / "lockfiles" / "small.txt"
    lock.write_text("".join(f"# {text('lock', at)}\n" for at in range(len(SHAPES))) + lock.read_text())
    profile = root / "profiles" / "small.toml"
    summary = json.dumps(" ".join(text("profile", at) for at in range(len(SHAPES))))
    profile.write_text(re.sub(r"(?m)^summary = .*$", lambda _: f"summary = {summary}", profile.read_text()))


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    incident = make_incident(tmp_path_factory.mktemp("planted"))
    _in_the_venv(incident)
    _around(incident)
    return Planted(incident=incident, variables=_variables())


COMMANDS: tuple[tuple[str, ...], ...] = (
    ("check", "-v", "--profile", "small", ".venv"),
    ("check", "--json", "--deep", "--profile", "small", ".venv"),
    ("check", "-v", "-o", "report.txt", ".venv"),
    ("check", "--format", "sarif", "--profile", "small", ".venv"),
    ("check", "--format", "html", "--profile", "small", ".venv"),
    ("check", "--fix", "--dry-run", ".venv"),
    ("check", "--format", "github", "--no-redact", ".venv"),
    ("fingerprint", ".venv", "-o", "facts.json"),
    ("fingerprint", ".venv"),
    ("check", "--fingerprint", "facts.json", "--json"),
    ("diff", ".venv", "facts.json"),
    ("diff", ".venv", "small", "--json"),
    ("why", "from0", "--venv", ".venv"),
    ("why", "from2", "--venv", ".venv", "--json"),
    ("impact", "remove", "from1", "--venv", ".venv"),
    ("profiles",),
    ("profiles", "--json"),
    ("config", "--json"),
    ("history", "--venv", ".venv"),
    ("restore", "--profile", "small", "--venv", ".venv", "--dry-run", "--offline"),
    ("restore", "--profile", "small", "--venv", "other", "--dry-run", "--offline", "--json"),
    ("repair", "--venv", ".venv", "--dry-run", "--offline"),
    ("repair", "--venv", ".venv", "--dry-run", "--offline", "--json"),
    ("capture", "good", "--venv", ".venv", "--offline"),
    ("capture", "good", "--venv", ".venv", "--offline", "--without", "from1", "--source", "train.py"),
    ("fetch", "--profile", "small", "--wheelhouse", "fetched"),
    ("cache", "status", "--venv", ".venv"),
    ("cache", "list"),
    ("run", "--profile", "small", "--venv", ".venv", "--gate", "off", "--reason", "%all", "--", "true", "%each"),
    ("run", "--profile", "small", "--venv", ".venv", "--gate", "warn", "--reason", "x", "--", "true", "%each"),
    ("run", "--profile", "small", "--venv", ".venv", "--", "true", "%each"),
    ("check", "%all"),
    ("why", "%all", "--venv", ".venv"),
    ("lock", "%all"),
    ("check", "--format", "markdown", "--profile", "small", ".venv"),
    ("check", "--format", "junit", "--profile", "small", ".venv"),
    ("check", "--format", "svg", "--profile", "small", ".venv"),
    ("check", "--write-baseline", "baseline.json", ".venv"),
    ("check", "--baseline", "baseline.json", ".venv"),
    ("check", "--lock", "lockfiles/small.txt", ".venv"),
    ("check", "--fix", "--dry-run", "--json", ".venv"),
    ("check", "--fix", "-y", ".venv"),
    ("check", "--ignore", "ED202=%all", ".venv"),
    ("history", "--venv", ".venv", "--json"),
    ("watch-stack", "--once", "--good", ".venv"),
    ("watch-stack", ".venv"),
    ("diff", "--last-good"),
    ("diff", "--last-good", "--format", "html"),
    ("sbom", "--venv", ".venv"),
    ("explain", "%all"),
    ("explain", "--log", "train.py"),
    ("fleet", "check", "--files", "facts.json", "more/facts.json"),
    ("fleet", "check", "--files", "facts.json", "more/facts.json", "--json"),
    ("fleet", "check", "--files", "facts.json", "more/facts.json", "--format", "html"),
    ("fleet", "check", "--kubernetes", "--node-count", "2", "--image", "https://bob:argument00Qz7Wx9Kp3Lm5Vt1Rb8@h/i"),
    ("run", "--profile", "small", "--venv", ".venv", "--gate", "warn", "--reason", "x", "--provenance", "run.json",
     "--", "true", "%each"),
    ("impact", "install", "from0", "--offline", "--venv", ".venv"),
    ("try", "--discard", "--venv", ".venv", "--", "true", "%each"),
    ("try", "--discard", "--venv", ".venv", "--json", "--", "true", "%each"),
    ("bisect", "--offline", ".venv", ".venv@1", "--", "false", "%each"),
    ("repair", "--venv", ".venv", "-y", "--offline"),
    ("restore", "--profile", "small", "--venv", "other", "--force", "-y", "--offline"),
    ("bisect", "--offline", "other", ".venv", "--", "false", "%each"),
    ("bisect", "--offline", "other", ".venv", "--measure", "%all", "--", "true", "%each"),
    ("profile", "new", "made", "--from", "lockfiles/small.txt", "-y"),
    ("cache", "status", "--venv", ".venv", "--json"),
    ("gate", "write", "--force", "envdoctor_gate.py"),
)  # fmt: skip


def _words(command: tuple[str, ...]) -> Iterator[str]:
    for word in command:
        if word == "%each":
            for at in range(len(SHAPES)):
                yield from text("argument", at).split(" ")
        else:
            yield word.replace("%all", " ".join(text("argument", at) for at in range(len(SHAPES))))


def _written(root: Path, before: set[Path]) -> Iterator[tuple[str, str]]:
    for path in root.rglob("*"):
        if path.is_file() and path not in before:
            yield str(path), path.read_text(errors="replace")


def test_no_secret_leaves(planted: Planted) -> None:
    root = planted.root
    (root / "more").mkdir()
    before = set(root.rglob("*"))
    told: list[tuple[str, str]] = []
    for command in COMMANDS:
        done = run_envdoctor(*_words(command), folder=root, extra=planted.variables)
        told.append((f"{' '.join(command)} ({done.code})", done.out + done.err))
        assert "Traceback" not in done.err, done.err
        assert "no such option" not in done.err or "%all" in command, (command, done.err)
        if command[-1] == "facts.json":
            # Another host's, which differs in what a variable says.
            facts = (root / "facts.json").read_text()
            (root / "more/facts.json").write_text(facts.replace("TORCH_NOTE_0", "TORCH_OTHER_0"))
    told += _written(root, before)
    places = (
        "variable",
        "name",
        "direct",
        "hook",
        "path",
        "pipconf",
        "uvtoml",
        "netrc",
        "source",
        "remote",
        "lock",
        "profile",
        "argument",
    )
    secrets = [_secret(place, at) for place in places for at in range(len(SHAPES))]
    leaked = sorted({f"{secret[:-16]}: {where}" for where, said in told for secret in secrets if secret in said})
    assert leaked == [], "\n".join(leaked)
    # What was looked for was there to be found: the reports did speak of what holds it.
    everything = "".join(said for _, said in told)
    for spoken in ("hook.pth", "from0", "TORCH_NOTE_0", "packages.invalid", "****"):
        assert spoken in everything


def test_redact_names_no_home_and_no_host(planted: Planted) -> None:
    home = planted.root / "home"
    extra = {"LD_LIBRARY_PATH": str(home / "lib"), "TORCH_NOTE": f"on {socket.gethostname()}"}
    said = [
        run_envdoctor(*command, folder=planted.root, extra=extra)
        for command in (
            ("fingerprint", ".venv"),
            ("fingerprint", ".venv", "--redact"),
            ("check", "--redact", str(home)),
        )
    ]
    plain, *shared = ((done.out + done.err).replace("[TMP]", str(planted.root)) for done in said)
    assert str(home) in plain
    assert f"on {socket.gethostname()}" in plain
    for text_ in shared:
        assert str(home) not in text_
    assert "/home/user/lib" in shared[0]
    assert "on host" in shared[0]
    assert json.loads(shared[0])["digest"] == json.loads(plain)["digest"]
