"""A check's former name goes on working where a user may have written it: `explain`, `--ignore`, waivers."""

from dataclasses import replace

import pytest

from envdoctor.app.checks import find_rule
from envdoctor.checks.former_names import FORMER_NAMES
from envdoctor.checks.registry import all_checks, judge, refuse_unknown
from envdoctor.model.profile import Waiver
from tests.factories import make_facts as facts

OLD_ED201 = "files-lost-to-another-uninstall"
CODES = {check.code: check.name for check in all_checks()}


@pytest.mark.parametrize(("former", "code"), sorted(FORMER_NAMES.items()))
def test_a_former_name_means_the_check_of_its_code(former: str, code: str) -> None:
    assert former not in CODES.values()
    assert (find_rule(former.upper()).code, find_rule(former).name) == (code, CODES[code])
    refuse_unknown("profile mine: ", [Waiver(code=former, reason="known")])


def test_a_waiver_with_a_former_name_takes_the_finding_out() -> None:
    owner = facts.owner("nvidia-cudnn-cu12", "9.10.2.21", files=29, missing=1)
    fault = facts.missing("nvidia-cudnn-cu12", "nvidia/cudnn/lib/libcudnn.so.9")
    case = facts.case(replace(facts.FILES, owners=(owner,), faults=(fault,)))
    waived = [judge(case, [Waiver(code=name, reason="known")]).waived for name in ("ED201", OLD_ED201, "ED203")]
    assert [[(item.finding.code, item.reason) for item in items] for items in waived] == [
        [("ED201", "known")], [("ED201", "known")], []
    ]  # fmt: skip
