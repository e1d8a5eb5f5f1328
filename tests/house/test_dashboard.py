"""The dashboard as a file: up to date, wired to what provisions it, readable. Its queries are in test_monitoring.py."""

import json
import subprocess
import sys

import yaml

from tests.house.tree import ROOT, read

DASHBOARD = json.loads(read("deploy/grafana/dashboards/breakeven.json"))
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def test_the_committed_file_is_what_its_table_makes():
    made = subprocess.run(
        [sys.executable, "deploy/grafana/dashboard.py"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert read("deploy/grafana/dashboards/breakeven.json") == made


def test_every_query_goes_to_the_data_source_that_is_provisioned():
    (source,) = yaml.safe_load(read("deploy/grafana/provisioning/datasources/prometheus.yaml"))["datasources"]
    asked = [target["datasource"] for panel in PANELS for target in panel["targets"]]
    asked += [panel["datasource"] for panel in PANELS]
    asked += [variable["datasource"] for variable in DASHBOARD["templating"]["list"]]
    assert {(each["type"], each["uid"]) for each in asked} == {(source["type"], source["uid"])}


def test_grafana_looks_for_dashboards_where_the_compose_file_mounts_them():
    (provider,) = yaml.safe_load(read("deploy/grafana/provisioning/dashboards/breakeven.yaml"))["providers"]
    grafana = yaml.safe_load(read("deploy/compose.yaml"))["services"]["grafana"]
    mounted = [mount.split(":")[1] for mount in grafana["volumes"] if mount.startswith("./grafana/dashboards:")]
    assert mounted == [provider["options"]["path"]]
    assert grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"] == f"{mounted[0]}/breakeven.json"


def test_the_shortest_rate_window_follows_the_scrape_interval():
    (source,) = yaml.safe_load(read("deploy/grafana/provisioning/datasources/prometheus.yaml"))["datasources"]
    scrape = yaml.safe_load(read("deploy/prometheus/prometheus.yaml"))["global"]["scrape_interval"]
    assert source["jsonData"]["timeInterval"] == scrape


def test_every_panel_says_how_to_read_it_and_has_a_title_of_its_own():
    assert [panel["title"] for panel in PANELS if not panel["description"]] == []
    titles = [panel["title"] for panel in PANELS]
    assert len(titles) == len(set(titles))


def test_panels_have_their_own_numbers_and_do_not_overlap():
    numbers = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(numbers) == len(set(numbers))
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in DASHBOARD["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
