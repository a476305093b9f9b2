"""A project with a venv, a profile and a filled cache, to be spoilt."""

from pathlib import Path

import pytest

from envdoctor.cache.store import label
from tests.factories.make_cache import filled, manifest_of
from tests.factories.make_incident import Incident, make_incident


@pytest.fixture
def project(tmp_path: Path) -> Incident:
    made = make_incident(tmp_path)
    label(tmp_path / "cache", manifest_of(filled(tmp_path / "cache")))
    return made
