"""What a shell offers: asked for by real shells, of the installed program, with the completion that it prints."""

import contextlib
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.factories.make_incident import Incident, make_incident
from tests.factories.run_envdoctor import Outcome, environment, run_behind, run_envdoctor

# What is typed before the tab key -> what stands on the line after it.
BY_NAME = {
    "envdoctor rest": "envdoctor restore ",
    "envdoctor check -p cpu": "envdoctor check -p cpu-smoke ",
    "envdoctor check --format mark": "envdoctor check --format markdown ",
    "envdoctor explain files-rem": "envdoctor explain files-removed-by-uninstall ",
    "envdoctor check --ignore ED417": "envdoctor check --ignore ED417= ",
    "envdoctor why libcudnn_ops.": "envdoctor why libcudnn_ops.so.9 ",
    "envdoctor impact remove nvidia": "envdoctor impact remove nvidia-cudnn-cu12 ",
    "envdoctor rollback ": "envdoctor rollback 1 ",
    "envdoctor diff small .venv@": "envdoctor diff small .venv@1 ",
    "envdoctor cache restore war": "envdoctor cache restore warm-h200 ",
}
START = {
    "bash": (
        "--norc",
        "--noprofile",
        'eval "$(envdoctor --show-completion)"\n'
        """bind -x '"\\C-t": printf "%s\\n" "$READLINE_LINE" >>typed; READLINE_LINE='\n""",
    ),
    "zsh": (
        "-f",
        "-i",
        "autoload -Uz compinit; compinit -u -D; zstyle ':completion:*' insert-tab false\n"
        'eval "$(envdoctor --show-completion)"\n'
        "keep() { print -r -- \"$BUFFER\" >>typed; BUFFER=''; }; zle -N keep; bindkey '^T' keep\n",
    ),
}


@pytest.fixture(scope="module")
def incident(tmp_path_factory: pytest.TempPathFactory) -> Incident:
    made = make_incident(tmp_path_factory.mktemp("completion"))
    (made.root / ".envdoctor/.venv/generations/0001").mkdir(parents=True)
    store = made.root / "store"
    store.mkdir()
    (store / "warm-h200.tar.zst").touch()
    return made


def _environment(incident: Incident) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    told = {"PATH": path, "ENVDOCTOR_CACHE_STORE": str(incident.root / "store"), "TERM": "dumb", "LC_ALL": "C.UTF-8"}
    return environment(incident.root, told)


@pytest.mark.parametrize("shell", START)
def test_the_tab_key_completes_values(incident: Incident, shell: str) -> None:
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    *options, setup = START[shell]
    kept = incident.root / "typed"
    kept.unlink(missing_ok=True)
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(incident.root)
        os.execvpe(shell, [shell, *options], _environment(incident))  # noqa: S606 - a terminal needs a fork of its own
    # As somebody types ahead; what the shell shows is read so that it is never held up.
    for text in (setup, *(f"{line}\t\x14" for line in BY_NAME), "exit\n"):
        os.write(terminal, text.encode())
    shown = b""
    with contextlib.suppress(OSError):  # EIO: the shell has ended
        while part := os.read(terminal, 65536):
            shown += part
    os.close(terminal)
    os.waitpid(child, 0)
    assert kept.read_text().splitlines() == list(BY_NAME.values()), shown.decode(errors="replace")


def test_fish_offers_the_same_values(incident: Incident) -> None:
    fish = shutil.which("fish")
    if fish is None:
        pytest.skip("fish is not installed")
    lines = "\n".join(f"complete -C '{line}'; echo END" for line in BY_NAME)
    done = subprocess.run(
        [fish, "--no-config", "-c", f"envdoctor --show-completion | source\n{lines}\n"],
        cwd=incident.root,
        env=_environment(incident),
        capture_output=True,
        text=True,
        check=True,
    )
    offered = [[line.split("\t")[0] for line in part.splitlines()] for part in done.stdout.split("END\n")[:-1]]
    wanted = [line.split()[-1] for line in BY_NAME.values()]
    assert [(word in words, words) for word, words in zip(wanted, offered, strict=True) if word not in words] == []
    assert done.stderr == ""


@pytest.mark.parametrize(
    "line",
    [
        "envdoctor why --venv nosuch lib",
        "envdoctor rollback --venv pyproject.toml ",
        "envdoctor diff nosuch@",
        "envdoctor check --nosuch ",
    ],
)
def test_what_cannot_be_completed_says_nothing(tmp_path: Path, line: str) -> None:
    (tmp_path / "pyproject.toml").write_text("broken")
    words = line.split(" ")
    told = {"COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1), "_ENVDOCTOR_COMPLETE": "complete_bash"}
    found = run_envdoctor(folder=tmp_path, extra=told)
    assert (found.code, found.err, [word for word in found.out.split() if not word.startswith("lib")]) == (0, "", [])


def test_a_folder_that_does_not_answer_is_given_up(tmp_path: Path) -> None:
    code = (
        "import os, time, envdoctor.documents.profile_store as store\n"
        "store.names = lambda folder: time.sleep(3600)\n"
        "os.environ |= {'COMP_WORDS': 'envdoctor check -p ', 'COMP_CWORD': '3', '_ENVDOCTOR_COMPLETE': 'complete_bash'}"
    )
    assert run_behind(code, folder=tmp_path) == Outcome(code=0, out="", err="")
