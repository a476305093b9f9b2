"""One or several lines to copy for each command, and what they are for: shown by `--help` and the man page."""

from collections.abc import Mapping

Examples = tuple[tuple[str, str], ...]

EXAMPLES: Mapping[str, Examples] = {
    "": (
        ("envdoctor check", "what is wrong with the active venv, or the nearest .venv"),
        ("envdoctor check --require torch .venv", "for CI: fails where torch is not installed"),
        ("envdoctor why libcudnn.so.9", "which file `import torch` would load, and whose it is"),
        ("envdoctor capture good", "write down a stack that works"),
        ("envdoctor restore -p good", "build it again beside the venv, and swap it in"),
    ),
    "check": (
        ("envdoctor check .venv -p good", "compare with a known-good stack"),
        ("envdoctor check --lock uv.lock --require torch", "compare with a lock, and insist on torch"),
        ("envdoctor check --fix --dry-run", "one plan for every cause"),
        ("envdoctor check --format html -o report.html", "a page to send"),
        ('envdoctor check --ignore ED403="wandb is wanted here"', "accept a finding, with the reason"),
    ),
    "why": (
        ("envdoctor why libcudnn.so.9", "a library"),
        ("envdoctor why torch._C", "a module"),
        ("envdoctor why nvidia-cudnn-cu12 --venv .venv", "a distribution, and what requires it"),
    ),
    "impact remove": (("envdoctor impact remove nvidia-cudnn-cu13", "what would break"),),
    "impact install": (("envdoctor impact install numpy==2.4.4 --offline", "tried on a scratch copy"),),
    "diff": (
        ("envdoctor diff .venv@1", "backup 1, and the venv now"),
        ("envdoctor diff good other/.venv", "a profile, and another venv"),
        ("envdoctor diff --since 2d", "what changed in two days, from the journal"),
    ),
    "watch-stack": (
        ("envdoctor watch-stack", "the units of a timer that keeps the journal"),
        ("envdoctor watch-stack --once --good", "one entry: a run went well on this stack"),
    ),
    "fleet restore": (
        ("envdoctor fleet restore -p good --hosts hosts.txt --venv /srv/venv --dry-run", "what each node would do"),
        ("envdoctor fleet restore -p good --slurm --venv /srv/venv", "one node first, then 8 at a time"),
    ),
    "fleet repair": (("envdoctor fleet repair --hosts hosts.txt --venv /srv/venv", "nodes that need it"),),
    "fleet rollback": (
        ("envdoctor fleet rollback --hosts hosts.txt --venv /srv/venv", "before the last fleet restore or repair"),
    ),
    "fleet cache push": (
        ("envdoctor fleet cache push good -p good --slurm --venv /srv/venv", "a snapshot of `cache save good`"),
    ),
    "fleet check": (
        ("envdoctor fleet check --hosts hosts.txt --venv /srv/venv", "over ssh"),
        ("envdoctor fleet check --slurm --venv /srv/venv", "the nodes of the allocation"),
    ),
    "bisect": (("envdoctor bisect good .venv -- python -c 'import torch'", "which change breaks the import"),),
    "try": (
        ("envdoctor try -- uv pip install numpy==2.4.4", "with your own installer"),
        ("envdoctor try --with flash-attn --test 'python -c \"import flash_attn\"'", "kept only if the test succeeds"),
    ),
    "fingerprint": (("envdoctor fingerprint .venv -o node7.json", "to be judged or compared elsewhere"),),
    "sbom": (("envdoctor sbom .venv -o sbom.json", "every file is hashed"),),
    "explain": (
        ("envdoctor explain ED201", "a check"),
        ('envdoctor explain "libcudnn.so.9: cannot open shared object file"', "an error text"),
    ),
    "checks": (("envdoctor checks", "codes, names, and what they find"),),
    "schema": (("envdoctor schema check", "of `check --json`"),),
    "restore": (
        ("envdoctor restore -p good --dry-run", "the plan"),
        ("envdoctor restore -p good -y", "carried out without a question; the old venv is kept"),
        ("envdoctor restore -p good --offline --wheelhouse wheels", "without a network"),
    ),
    "repair": (
        ("envdoctor repair --dry-run", "the plan"),
        ("envdoctor repair -p good", "towards the versions of a profile"),
    ),
    "history": (("envdoctor history", "what `rollback` can go back to"),),
    "rollback": (
        ("envdoctor rollback", "the newest backup"),
        ("envdoctor rollback 2 --dry-run", "the plan of another"),
    ),
    "prune": (("envdoctor prune --keep 1 --dry-run", "what would be removed"),),
    "run": (
        ("envdoctor run -p good -- python train.py", "check, then become the command"),
        ("envdoctor run -p good --restore -- python train.py", "restore first where the stack is wrong"),
    ),
    "gate add": (("envdoctor gate add -p good", "the next restore installs it"),),
    "gate write": (("envdoctor gate write envdoctor_gate.py", "beside the train script"),),
    "profiles": (("envdoctor profiles", "names that -p takes"),),
    "profile new": (("envdoctor profile new good --from uv.lock", "from the lock of another tool"),),
    "capture": (("envdoctor capture good --venv .venv", "profiles/good.toml and lockfiles/good.txt"),),
    "fetch": (("envdoctor fetch -p good --wheelhouse wheels", "to carry to a machine without a network"),),
    "lock": (("envdoctor lock direct.in -o lock.txt --python 3.12", "name==version with hashes"),),
    "cache status": (("envdoctor cache status", "will the next run hit, and if not, why"),),
    "cache save": (("envdoctor cache save warm", "the caches as one file"),),
    "cache list": (("envdoctor cache list", "the snapshots there are"),),
    "cache restore": (("envdoctor cache restore warm --dry-run", "what would be added"),),
    "cache warm": (("envdoctor cache warm -p good", "run the profile's warm-up twice, and prove the hit"),),
    "cache gc": (("envdoctor cache gc --older-than 30 --dry-run", "what would be removed"),),
    "cache undo": (("envdoctor cache undo", "put back what the last clean-up took"),),
    "cache import": (("envdoctor cache import cache.bin", "into the caches of the venv"),),
    "cache export": (("envdoctor cache export cache.bin", "for torch.compiler.load_cache_artifacts()"),),
    "config": (("envdoctor config", "each setting and where it comes from"),),
    "mcp": (("envdoctor mcp", "what an agent's client starts"),),
}
"""Words of a command -> its examples."""


def examples_of(command_path: str) -> Examples:
    """Return the examples of "envdoctor cache status"; empty for a group."""
    return EXAMPLES.get(command_path.partition(" ")[2], ())
