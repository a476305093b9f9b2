"""`envdoctor fingerprint`: write down what an environment is, to be judged or compared elsewhere."""

from envdoctor.cli.hashing import facts_of
from envdoctor.cli.options import DeepOption, OutputOption, ProfileOption, VenvArgument, VenvOption, one_venv
from envdoctor.cli.terminal import write_result
from envdoctor.doctor.workspace import Workspace
from envdoctor.documents.fingerprint_file import document
from envdoctor.facts.context import Options
from envdoctor.report.as_json import dump


def fingerprint(
    venv: VenvArgument = "",
    venv_option: VenvOption = "",
    profile: ProfileOption = "",
    deep: DeepOption = False,
    output: OutputOption = "",
) -> int:
    """Write the facts of a venv as one JSON document, which `check --fingerprint FILE` reads back.

    Nothing of the venv is run or imported. A profile names the source files of the training code to hash. `digest` is
    equal for two venvs exactly when the same code would run in them, wherever they lie.
    """
    workspace = Workspace.open(one_venv(venv, venv_option), profile)
    write_result(dump(document(facts_of(workspace, Options(contents=True, deep=deep)))), output)
    return 0
