"""`envdoctor fingerprint`: write down what an environment is, to be judged or compared elsewhere."""

from envdoctor.cli.options import DeepOption, OutputOption, ProfileOption, VenvArgument
from envdoctor.cli.patient import Request, take
from envdoctor.cli.terminal import write_result
from envdoctor.documents.fingerprint_file import document
from envdoctor.report.as_json import dump


def fingerprint(
    venv: VenvArgument = "", profile: ProfileOption = "", deep: DeepOption = False, output: OutputOption = ""
) -> int:
    """Write the facts of a venv as one JSON document, which `check --fingerprint FILE` reads back.

    Nothing of the venv is run or imported. A profile names the source files of the training code to hash. `digest` is
    equal for two venvs exactly when the same code would run in them, wherever they lie.
    """
    write_result(dump(document(take(Request(venv=venv, profile=profile, deep=deep), contents=True))), output)
    return 0
