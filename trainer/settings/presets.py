"""Settings to start from, by name; a config file and flags go on top.

A profile says which stack a run needs, a preset how the run is set up; a profile may name the preset that fits its
machine. Sizes of the published drafters: trainer/README.md.
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

PLAIN = "plain"
"""The preset of a profile that names none: every key at its default, a toy target where no model is given."""
PRESETS: Mapping[str, Preset] = {
    PLAIN: {},
    "cpu-smoke": {
        "target": {"layer_ids": [0, 1, 2]},
        "drafter": {"layers": 2, "block": 8, "anchors": 24},
        "data": {"buckets": [48, 64], "tokens": 512},
        "optim": {"learning_rate": 3e-3, "warmup": 0.05},
        "run": {"steps": 150, "device": "cpu", "log_every": 10, "save_every": 75, "threads": 1, "evaluate": 16},
    },
    "server": _SERVER,
}


def preset(name: str) -> Preset:
    """Return the preset of that name; raises ConfigError naming those that exist."""
    if name not in PRESETS:
        raise ConfigError(
            f"preset `{name}`: not found",
            f"use one of {', '.join(PRESETS)} (`--preset`, or [trainer] preset of the profile); change its settings "
            "with --config FILE or --set KEY=VALUE",
        )
    return PRESETS[name]
