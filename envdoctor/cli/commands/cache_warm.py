"""`envdoctor cache warm`: run the profile's warm-up twice, and prove that the second compiles nothing."""

from envdoctor.app import cache_warm as app
from envdoctor.cli.dialog import Terminal
from envdoctor.cli.options import (
    FormatOption,
    JsonOption,
    ProfileOption,
    TrustVariablesOption,
    VenvArgument,
    VenvOption,
)
from envdoctor.cli.output import finish
from envdoctor.cli.values import one_venv
from envdoctor.doctor.workspace import Workspace


def warm(
    venv: VenvArgument = "",
    venv_option: VenvOption = "",
    profile: ProfileOption = "",
    trust_variables: TrustVariablesOption = False,
    output_format: FormatOption = "text",
    json: JsonOption = False,
) -> int:
    """Run the warm-up of the training code in the venv, twice, and prove that the second run compiles nothing.

    Runs the venv's interpreter. The time is kept with the profile, so that a check can say what a cold start costs.
    Exit codes: 0 proven warm, 1 not, 2 bad input.
    """
    workspace = Workspace.open(one_venv(venv, venv_option), profile)
    done = app.warm(workspace, Terminal(), trust_variables=trust_variables)
    return finish(done, output_format, json=json)
