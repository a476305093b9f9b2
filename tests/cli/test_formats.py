"""`--format` and `-o` of every command: what is not there is said, and the exit code stays what it was."""

import json
from xml.etree import ElementTree as ET

import pytest

from tests.factories.run_envdoctor import Outcome, run_envdoctor
from tests.formats.scene import COMMANDS, Scene, make_scene

FORMATS = ("json", "html", "markdown", "sarif", "junit", "github")


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return make_scene(tmp_path_factory.mktemp("formats"))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_format_changes_no_exit_code(scene: Scene, command: str) -> None:
    words = COMMANDS[command]
    # Each command with two of them: what a format does with a code is the same for every command.
    first = list(COMMANDS).index(command) * 2
    chosen = [FORMATS[at % len(FORMATS)] for at in (first, first + 1)]
    codes = [run_envdoctor(*words, "--format", name, folder=scene.root).code for name in ("text", *chosen)]
    assert codes == [codes[0]] * 3


@pytest.mark.parametrize("name", ["text", *FORMATS])
def test_a_file_gets_what_stdout_would(scene: Scene, name: str) -> None:
    words = ("diff", "small", ".venv", "--format", name)
    printed = run_envdoctor(*words, folder=scene.root)
    written = run_envdoctor(*words, "-o", "report", folder=scene.root)
    assert (written.code, written.out, written.err) == (printed.code, "", "")
    assert (scene.root / "report").read_text().replace(str(scene.root), "[TMP]") == printed.out


def test_a_format_that_a_command_does_not_have(scene: Scene) -> None:
    assert run_envdoctor("why", "torch", "--format", "sarif", folder=scene.root) == Outcome(
        code=2,
        out="",
        err="error: invalid value for '--format' (env var: 'ENVDOCTOR_FORMAT'): 'sarif' is not one of 'text', "
        "'json'\n\n"
        "hint: `envdoctor why --help` lists what it takes\n",
    )


def test_a_page_of_a_restore_is_of_its_plan(scene: Scene) -> None:
    words = ("restore", "-p", "small", "--offline", "--wheelhouse", "wheels", "--format")
    assert run_envdoctor(*words, "html", "-y", folder=scene.root) == Outcome(
        code=2, out="", err="error: --format html shows the plan of a restore\n\nhint: add `--dry-run`\n"
    )
    page = run_envdoctor(*words, "html", "--dry-run", folder=scene.root)
    assert (page.code, page.out.count("<svg ")) == (0, 1)
    assert '<th scope="row">stranger</th><td>1.0 -&gt; removed (from file://' in page.out
    picture = run_envdoctor(*words, "svg", "--dry-run", folder=scene.root)
    texts = [item.text for item in ET.fromstring(picture.out).iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["now", "restored", "stranger", "1.0", "nothing"]


def test_json_is_an_alias_and_contradicts_only_what_was_typed(scene: Scene) -> None:
    done = run_envdoctor("check", "--json", "--format", "sarif", folder=scene.root)
    assert (done.code, done.err) == (
        2,
        "error: both --json and --format sarif were given\n\nhint: give only one of them\n",
    )
    done = run_envdoctor("check", "--json", folder=scene.root, extra={"ENVDOCTOR_FORMAT": "sarif"})
    assert json.loads(done.out)["tool"]["name"] == "envdoctor"
    done = run_envdoctor("check", folder=scene.root, extra={"ENVDOCTOR_FORMAT": "sarif"})
    assert json.loads(done.out)["version"] == "2.1.0"
