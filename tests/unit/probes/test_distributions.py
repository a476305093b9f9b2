"""The headers of a METADATA file: where they end; and where direct_url.json says that a distribution comes from."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envdoctor.probes.venv import distributions


@given(st.lists(st.sampled_from([b"Name: x", b"\n", b"\r\n", b"\r", b"", b" folded", b"Version: 1"])).map(b"".join))
def test_the_head_of_a_metadata_file_ends_at_the_first_blank_line(data: bytes) -> None:
    assert distributions._head(data) == re.split(rb"\r?\n\r?\n", data, maxsplit=1)[0].replace(b"\r\n", b"\n")


@pytest.mark.parametrize(
    ("told", "built_from"),
    [
        ({"url": "https://h/mono.git", "vcs_info": {"vcs": "git", "commit_id": "ab"}}, "git+https://h/mono.git@ab"),
        (
            {"url": "https://h/mono.git", "vcs_info": {"vcs": "git", "commit_id": "ab"}, "subdirectory": "py/a b"},
            "git+https://h/mono.git@ab#subdirectory=py/a%20b",
        ),
        ({"url": "https://h/x.zip", "archive_info": {}, "subdirectory": "x"}, "https://h/x.zip#subdirectory=x"),
        ({"url": "https://h/x-1-py3-none-any.whl", "archive_info": {}}, "https://h/x-1-py3-none-any.whl"),
        ({"url": "file:///w/x-1-py3-none-any.whl", "archive_info": {}}, ""),
        ({"url": "file:///srv/my%20x", "dir_info": {"editable": True}}, "file:///srv/my%20x"),
    ],
)
def test_where_a_distribution_can_be_built_again(tmp_path: Path, told: dict[str, object], built_from: str) -> None:
    info = tmp_path / "x-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: x\nVersion: 1\n")
    (info / "direct_url.json").write_text(json.dumps(told))
    found = distributions.distribution_in(str(tmp_path), info.name)
    assert found is not None
    assert found.built_from == built_from
