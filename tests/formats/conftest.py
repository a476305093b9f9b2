"""One broken project for all format tests: nothing here changes it."""

import pytest

from tests.formats.scene import Scene, make_scene


@pytest.fixture(scope="session")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return make_scene(tmp_path_factory.mktemp("formats"))
