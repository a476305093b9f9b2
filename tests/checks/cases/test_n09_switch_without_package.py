"""A variable switches on what is not installed: HF_HUB_ENABLE_HF_TRANSFER=1 (N09)."""

import subprocess
from pathlib import Path

from envdoctor.facts.host import Host
from tests.factories.examine_venv import environment_after, first, verdict_of
from tests.factories.make_reading import bare_host
from tests.factories.make_venv import Venv, install, make_venv
from tests.factories.make_wheel import make_wheel

HUB = {
    "huggingface_hub/__init__.py": "import os\nif os.environ.get('HF_HUB_ENABLE_HF_TRANSFER') == '1':\n"
    "    try: import hf_transfer\n"
    "    except ImportError: raise ValueError('hf_transfer is enabled but not available')\n"
}


def _error(venv: Venv, host: Host) -> str:
    command = [venv.python, "-c", "import huggingface_hub"]
    done = subprocess.run(command, env=dict(host.environ), capture_output=True, text=True, check=False)
    return done.stderr.strip().rpartition("\n")[2]


def test_n09_a_switch_for_a_package_that_is_not_installed(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv", make_wheel(tmp_path / "wheels", "huggingface-hub", "0.35.3", files=HUB))
    host = bare_host(tmp_path / "home", HF_HUB_ENABLE_HF_TRANSFER="1")
    assert _error(venv, host) == "ValueError: hf_transfer is enabled but not available"
    verdict = verdict_of(venv.prefix, host)
    assert first(verdict, tmp_path) == (
        "ED607",
        "HF_HUB_ENABLE_HF_TRANSFER=1 switches on hf-transfer, which is not installed: huggingface-hub 0.35.3 raises",
    )
    healed = environment_after(host, *verdict.findings[0].remediation.commands)
    assert (_error(venv, healed), verdict_of(venv.prefix, healed).findings) == ("", ())
    install(venv, make_wheel(tmp_path / "wheels", "hf-transfer", "0.1.9"))
    assert (_error(venv, host), verdict_of(venv.prefix, host).findings) == ("", ())


def test_n09_a_hub_that_ignores_the_switch_is_healthy(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv", make_wheel(tmp_path / "wheels", "huggingface-hub", "1.4.0"))
    for value in ("1", "0"):
        host = bare_host(tmp_path / "home", HF_HUB_ENABLE_HF_TRANSFER=value)
        assert verdict_of(venv.prefix, host).findings == ()
