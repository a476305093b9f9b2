"""`envdoctor checks`: every check, one line each."""

from envdoctor.cli.options import FormatOption, JsonOption
from envdoctor.cli.rules import all_rules
from envdoctor.cli.terminal import write_result
from envdoctor.report.rule_pages import as_list


def checks(output_format: FormatOption = "text", json: JsonOption = False) -> int:
    """List every check: code, name, area, what it finds."""
    rules = all_rules()
    if json or output_format == "json":
        from envdoctor.model.codec import encode
        from envdoctor.report.as_json import dump

        write_result(dump({"schema_version": 1, "checks": encode(rules)}))
    else:
        write_result(as_list(rules))
    return 0
