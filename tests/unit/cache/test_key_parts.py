"""Comparing keys part by part."""

import pytest

from envdoctor.cache.key_parts import KeyDifference, KeyPart, compare, digest, reaches


def parts(**values: str) -> tuple[KeyPart, ...]:
    return tuple(KeyPart(name=name.replace("__", "."), value=value) for name, value in values.items())


def test_equal_keys_differ_in_nothing() -> None:
    key = parts(torch__version="2.13.0", gpu__name="NVIDIA H200")
    assert compare(key, reversed(key)).differences == ()
    assert digest(key) == digest(reversed(key))


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("torch.sources", ("fx graph", "autograd graph")),
        ("triton.sources", ("fx graph", "autograd graph", "triton kernel")),
        ("gpu.name", ("fx graph", "autograd graph")),
        ("gpu.arch", ("triton kernel",)),
        ("driver.version", ("cuda binary",)),
        ("venv.prefix", ("c++ kernel",)),
        ("cache.folder", ("triton kernel",)),
        ("cpu.model", ()),
        ("env.TORCHINDUCTOR_MAX_AUTOTUNE", ("fx graph", "autograd graph")),
        ("env.DISABLE_LLVM_OPT", ("triton kernel",)),
        ("config.inductor.max_autotune", ("fx graph", "autograd graph")),
    ],
)
def test_a_part_reaches_the_entries_that_hash_it(name: str, kinds: tuple[str, ...]) -> None:
    found = compare([KeyPart(name=name, value="a")], [KeyPart(name=name, value="b")])
    assert reaches(name) == kinds
    assert found.missing == set(kinds)
    if not name.startswith("config."):
        assert found.differences == (KeyDifference(name=name, saved="a", present="b", reaches=kinds),)


def test_a_variable_that_one_side_has_counts_as_unset_on_the_other() -> None:
    set_now = [KeyPart(name="env.TORCHINDUCTOR_SIZE_ASSERTS", value="0", means=("size_asserts",))]
    (found,) = compare([], set_now).differences
    assert (found.saved, found.present, found.means) == ("", "0", ("size_asserts",))
    (found,) = compare(set_now, []).differences
    assert (found.saved, found.present, found.means) == ("0", "", ("size_asserts",))


def test_an_unread_part_is_no_difference() -> None:
    unread = KeyPart(name="gpu.name", value="NVML was not asked", known=False)
    found = compare(parts(gpu__name="NVIDIA H200"), [unread])
    assert (found.differences, found.unknown) == ((), (unread,))
    assert compare([unread], parts(gpu__name="NVIDIA H200")).unknown == (unread,)


def test_configuration_is_compared_only_when_both_asked_torch() -> None:
    asked = [KeyPart(name="config.inductor.max_autotune", value="True"), KeyPart(name="config.inductor.x", value="1")]
    assert compare(asked, []).differences == ()
    (found,) = compare(asked, [KeyPart(name="config.inductor.max_autotune", value="False"), asked[1]]).differences
    assert (found.name, found.saved, found.present) == ("config.inductor.max_autotune", "True", "False")


def test_folders_and_configuration_are_left_out_of_the_digest() -> None:
    key = parts(torch__version="2.13.0")
    more = parts(venv__prefix="/a", python__base="/b", cache__folder="/c", triton__folder="/d", config__x="1")
    assert digest(key) == digest([*key, *more])
    assert digest(key) != digest(parts(torch__version="2.11.0"))
