"""What a result says of its machine."""

import pytest

from breakeven_bench.machine import cpu_name, read_cpuinfo


@pytest.mark.parametrize(
    ("cpuinfo", "expected"),
    [("", "unknown"), ("vendor_id : X\n", "unknown"), ("model name\t: A: B 2.0\nmodel name\t: other\n", "A: B 2.0")],
)
def test_the_processor_is_named_as_linux_names_it(cpuinfo, expected):
    assert cpu_name(cpuinfo) == expected


def test_where_linux_tells_nothing_there_is_nothing_to_read(tmp_path):
    assert read_cpuinfo(tmp_path / "cpuinfo") == ""
    (tmp_path / "cpuinfo").write_text("model name : µ\n", encoding="utf-8")
    assert read_cpuinfo(tmp_path / "cpuinfo") == "model name : µ\n"
