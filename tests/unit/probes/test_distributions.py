"""The headers of a METADATA file: where they end."""

import re

from hypothesis import given
from hypothesis import strategies as st

from envdoctor.probes.venv import distributions


@given(st.lists(st.sampled_from([b"Name: x", b"\n", b"\r\n", b"\r", b"", b" folded", b"Version: 1"])).map(b"".join))
def test_the_head_of_a_metadata_file_ends_at_the_first_blank_line(data: bytes) -> None:
    assert distributions._head(data) == re.split(rb"\r?\n\r?\n", data, maxsplit=1)[0].replace(b"\r\n", b"\n")
