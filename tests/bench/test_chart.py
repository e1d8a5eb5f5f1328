"""The charts: well-formed, true to their values, and readable without colour."""

from itertools import pairwise
from xml.etree import ElementTree as ET

from hypothesis import example, given
from hypothesis import strategies as st

from breakeven_bench.chart import (
    HEIGHT,
    WIDTH,
    Bar,
    Interval,
    Line,
    Point,
    difference_chart,
    latency_chart,
    percent_ticks,
    spread_apart,
    thinned,
    ticks_around,
)

LINES = [
    Line("slow & steady", (Point(1.0, 5.0, True), Point(4.0, 9.0, True))),
    Line("fast", (Point(1.0, 2.0, True), Point(4.0, 40.0, False))),
]


def drawing(text):
    return ET.fromstring(text)  # noqa: S314  # our own output


def test_a_chart_of_nothing_is_nothing():
    assert latency_chart([], "x", "y") == ""
    assert latency_chart([Line("empty", ())], "x", "y") == ""


def test_a_higher_latency_stands_higher():
    circles = drawing(latency_chart(LINES, "rate", "seconds")).findall(".//circle")
    at_five, at_nine, at_two, at_forty = (float(circle.get("cy")) for circle in circles)
    assert at_forty < at_nine < at_five < at_two


def test_a_point_that_did_not_settle_is_hollow_and_says_so():
    circles = drawing(latency_chart(LINES, "rate", "seconds")).findall(".//circle")
    assert [circle.get("fill") == "var(--page)" for circle in circles] == [False, False, False, True]
    assert circles[3].find("title").text == "fast, 4/s: 40.00 s, did not settle"
    assert circles[0].find("title").text == "slow & steady, 1/s: 5.00 s"


def test_every_line_has_its_own_dashes_and_its_name():
    svg = drawing(latency_chart(LINES, "rate", "seconds"))
    assert len({line.get("stroke-dasharray") for line in svg.findall(".//polyline")}) == 2
    assert {"slow & steady", "fast"} <= {text.text for text in svg.findall("text")}


def test_everything_lies_inside_the_chart():
    for circle in drawing(latency_chart(LINES, "rate", "seconds")).findall(".//circle"):
        assert 0.0 < float(circle.get("cx")) < WIDTH
        assert 0.0 < float(circle.get("cy")) < HEIGHT


def test_a_chart_has_a_title_for_those_who_cannot_see_it():
    svg = drawing(latency_chart(LINES, "rate", "seconds"))
    assert svg.get("role") == "img"
    assert svg.find("title").text == "seconds over rate"


BARS = [
    Bar("slower", "slower by 10 %", Interval(5.0, 10.0, 15.0)),
    Bar("faster", "faster by 20 %", Interval(-30.0, -20.0, -10.0)),
    Bar("same", "no difference", Interval(-2.0, 1.0, 4.0)),
    Bar("unstable", "unstable: 10 to 20"),
]


def test_differences_are_told_apart_by_their_class_and_their_place():
    groups = drawing(difference_chart(BARS, "label")).findall("g")
    assert [group.get("class") for group in groups] == ["slower", "faster", "same"]
    places = [float(group.find("circle").get("cx")) for group in groups]
    assert places[1] < places[2] < places[0]


def test_an_arm_without_a_difference_shows_its_words():
    texts = [text.text for text in drawing(difference_chart(BARS, "label")).findall("text")]
    assert "unstable: 10 to 20" in texts


def test_a_chart_without_any_difference_is_still_a_chart():
    assert drawing(difference_chart(BARS[3:], "label")).findall("g") == []


def test_a_difference_whose_bounds_are_zero_does_not_divide_by_it():
    groups = drawing(difference_chart([Bar("same", "no difference", Interval(0.0, 0.0, 0.0))], "label")).findall("g")
    assert [group.get("class") for group in groups] == ["same"]


@example([9999.999999999998])
@given(st.lists(st.floats(1e-3, 1e4), min_size=1, max_size=20))
def test_ticks_enclose_all_values_and_rise(values):
    ticks = ticks_around(values)
    assert ticks[0] <= min(values)
    assert max(values) < ticks[-1]
    assert ticks == sorted(set(ticks))


def test_ticks_are_the_nearest_round_numbers():
    assert ticks_around([2.4, 14.0]) == [2.0, 5.0, 10.0, 20.0]


@given(st.lists(st.floats(0.0, 300.0), max_size=8))
def test_names_at_the_ends_of_lines_do_not_overlap_and_keep_their_order(wanted):
    placed = spread_apart(wanted, 14.0, 300.0)
    assert all(place <= 300.0 for place in placed)
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    for before, after in pairwise(order):
        assert placed[after] - placed[before] >= 14.0 - 1e-9


def test_names_that_are_far_apart_stay_where_they_are():
    assert spread_apart([100.0, 10.0], 14.0, 300.0) == [100.0, 10.0]


def test_names_below_the_axis_move_up():
    assert spread_apart([298.0, 300.0, 299.0], 14.0, 300.0) == [272.0, 300.0, 286.0]


@given(st.lists(st.floats(-500.0, 500.0), max_size=12))
def test_percent_ticks_enclose_zero_and_all_values_and_leave_room_for_their_labels(values):
    ticks = percent_ticks(values)
    assert ticks[0] <= min((0.0, *values))
    assert max((0.0, *values)) <= ticks[-1]
    assert 0.0 in ticks
    assert 2 <= len(ticks) <= 7


def test_the_axis_of_differences_spans_the_data_and_not_as_much_on_the_other_side():
    assert percent_ticks([10.0, 180.0]) == [0.0, 50.0, 100.0, 150.0, 200.0]
    assert percent_ticks([-30.0, -10.0, 4.0]) == [-30.0, -20.0, -10.0, 0.0, 10.0]


def test_no_label_of_the_chart_of_differences_lies_on_another_in_its_row():
    texts = drawing(difference_chart(BARS, "label")).findall("text")
    axis = [float(text.get("x")) for text in texts if text.text == "0" or text.text.endswith(" %")]
    assert all(right - left > 48.0 for left, right in pairwise(axis))


def test_rates_that_lie_close_together_share_a_label():
    assert thinned([1.0, 1.05, 2.0, 2.2], 0.2) == [1.0, 2.0, 2.2]
    crowded = [Line("a", (Point(1.0, 5.0, True), Point(1.01, 6.0, True), Point(4.0, 9.0, True)))]
    texts = [text.text for text in drawing(latency_chart(crowded, "rate", "seconds")).findall("text")]
    assert "1" in texts
    assert "1.01" not in texts
