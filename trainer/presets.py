"""The settings each profile starts from; a config file and flags go on top.

A preset fits the machine its profile describes. Sizes of the published drafters: facts in docs/trainer.md.
"""

from collections.abc import Mapping

from trainer.errors import ConfigError

Preset = Mapping[str, Mapping[str, object]]

_SERVER: Preset = {
    "drafter": {"layers": 5, "block": 32, "anchors": 1024},
    "data": {"buckets": [2048, 4096, 8192, 16384, 40960], "tokens": 8192},
    "optim": {"learning_rate": 6e-4, "warmup": 0.04},
    "run": {"steps": 20_000, "device": "cuda", "save_every": 1000},
    "topology": {"targets": 5, "drafters": 3},
}

PRESETS: Mapping[str, Preset] = {
    "cpu-smoke": {
        "target": {"layer_ids": [0, 1, 2]},
        "drafter": {"layers": 2, "block": 8, "anchors": 24},
        "data": {"buckets": [48, 64], "tokens": 512},
        "optim": {"learning_rate": 3e-3, "warmup": 0.05},
        "run": {"steps": 150, "device": "cpu", "log_every": 10, "save_every": 75, "threads": 1},
    },
    "21k-toks": _SERVER,
    "pypi-cu128": _SERVER,
}


def preset(profile: str) -> Preset:
    """Return the preset of `profile`; raises ConfigError naming those that exist."""
    if profile not in PRESETS:
        raise ConfigError(
            f"--profile {profile}: no such preset",
            f"use one of {', '.join(PRESETS)}; change its settings with --config FILE or --set KEY=VALUE",
        )
    return PRESETS[profile]
