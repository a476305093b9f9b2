"""One worker: reads names of states, a line each, and answers with one JSON line for each.

python -m tests.closure.worker FOLDER STOCK < states
"""

import json
import sys
import traceback
from dataclasses import asdict
from pathlib import Path

import envdoctor.checks.registry
import envdoctor.cli.commands.check
import envdoctor.cli.commands.repair
import envdoctor.cli.commands.why
import envdoctor.probes.registry
import envdoctor.report.as_json
from tests.closure.law import Outcome, judge
from tests.closure.scene import Scene
from tests.closure.states import SEPARATOR, ImpossibleError, bring_about


def main() -> None:
    """Work until no line is left."""
    # Each child would import them again.
    envdoctor.checks.registry.all_checks()
    scene = Scene(root=Path(sys.argv[1]), stock=Path(sys.argv[2]))
    scene.root.mkdir(parents=True)
    scene.build()
    for number, line in enumerate(sys.stdin):
        state = line.strip()
        try:
            about = bring_about(scene, state)
            outcome = judge(scene, state, about, repairs=SEPARATOR not in state or number % 4 == 0)
        except ImpossibleError:
            outcome = Outcome(state=state, made=False)
        except Exception:  # noqa: BLE001 - one state that cannot be made is one failure, told with the others
            outcome = Outcome(state=state, failures=[f"harness: {traceback.format_exc()[-1500:]}"])
        sys.stdout.write(json.dumps(asdict(outcome)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
