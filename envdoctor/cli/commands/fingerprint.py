"""`envdoctor fingerprint`: write down what an environment is, to be judged or compared elsewhere."""

from envdoctor.app import check as app
from envdoctor.cli.dialog import Terminal
from envdoctor.cli.options import (
    DeepOption,
    JsonOption,
    OutputOption,
    ProfileOption,
    VenvArgument,
    VenvOption,
)
from envdoctor.cli.output import finish
from envdoctor.cli.values import one_venv
from envdoctor.doctor.workspace import Workspace


def fingerprint(
    venv: VenvArgument = "",
    venv_option: VenvOption = "",
    profile: ProfileOption = "",
    deep: DeepOption = False,
    json: JsonOption = False,
    output: OutputOption = "",
) -> int:
    """Write the facts of a venv as one JSON document, which `check --fingerprint FILE` reads back.

    Nothing of the venv is run or imported. A profile names the source files of the training code to hash. `digest` is
    equal for two venvs exactly when the same code would run in them, wherever they are.
    """
    workspace = Workspace.open(one_venv(venv, venv_option), profile)
    done = app.fingerprint(workspace, Terminal(), deep=deep)
    return finish(done, json=json, output=output)
