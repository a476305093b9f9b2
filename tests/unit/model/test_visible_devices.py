"""CUDA_VISIBLE_DEVICES, against what the driver made of it on a machine with two GPUs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envdoctor.model.visible_devices import parse_visible

A = "GPU-9f891056-5af5-405f-b9b9-5a4112e30bbc"
B = "GPU-54d64ce1-d947-703f-6302-1e737234f5f8"
# Value -> devices, as cuInit, cuDeviceGetCount and cuDeviceGetUuid told (driver 580.159.04, two H200).
OBSERVED = {
    "": "",
    "-1": "",
    "0": "A",
    "1": "B",
    "0,1": "AB",
    "1,0": "BA",
    "0,8,1": "A",
    "8,0": "",
    "0,0": "",
    "0,1,0": "",
    " 0, 1": "AB",
    "0 ,1": "AB",
    "0;1": "A",
    "cuda:0": "",
    "0,cuda:1": "A",
    "0x1": "A",
    "01": "B",
    "+1": "B",
    "0a": "A",
    "1gpu0": "B",
    "0,": "A",
    "0,,1": "A",
    ",0": "",
    "NoDevFiles": "",
    A: "A",
    A[:12]: "A",
    A[:6]: "A",
    f"{B},{A}": "BA",
    f"{A},{A}": "",
    f"{A},0": "A",
    f"0,{A}": "A",
    f"GPU-zz,{A}": "",
    f"{A},GPU-zz": "A",
    f" {A}": "",
    f"{A}, {B}": "A",
    "MIG-aa,MIG-bb": "",
    "MIG-" + A[4:]: "A",
    "2": "",
    "0,-1,1": "A",
    "all": "",
    "none": "",
    "void": "",
    "0.5": "A",
    "1e0": "B",
    A.lower(): "",
    A[4:]: "",
    "GPU-" + A[4:].upper(): "A",
    f"{A[:10]},{A}": "",
}
LETTER = {"0": "A", "1": "B", A: "A", B: "B"}


@pytest.mark.parametrize(("value", "devices"), OBSERVED.items())
def test_the_list_is_read_as_the_driver_read_it(value: str, devices: str) -> None:
    assert "".join(LETTER[device] for device in parse_visible(value, 2, (A, B)).devices) == devices


def test_what_ended_the_list_is_kept() -> None:
    seen = parse_visible("0,8,1", 8, ())
    assert (seen.devices, seen.stopped_at, seen.dropped) == (("0",), "8", ("1",))


def test_a_process_uses_the_first_of_several_mig_instances() -> None:
    seen = parse_visible("MIG-aa,MIG-bb", 8, ("GPU-1", "MIG-aa11", "MIG-bb22"))
    assert (seen.devices, seen.mig) == (("MIG-aa11",), 2)


def test_an_ordinal_is_taken_as_valid_where_the_count_is_not_known() -> None:
    assert parse_visible("0,7", None, ()).devices == ("0", "7")


@pytest.mark.property
@given(value=st.text(alphabet="01 ,-+GPUMIa9", max_size=30), count=st.integers(0, 4))
def test_no_value_names_a_device_twice_or_beyond_the_count(value: str, count: int) -> None:
    seen = parse_visible(value, count, ("GPU-A1", "GPU-9"))
    assert len(set(seen.devices)) == len(seen.devices)
    assert all(int(device) < count for device in seen.devices if device.isdigit())
