"""Names are normalized as packaging does it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.utils import canonicalize_name

from envdoctor.standards.names import normalized


@pytest.mark.property
@given(st.text())
def test_as_packaging_does_it(name: str) -> None:
    assert normalized(name) == canonicalize_name(name)
