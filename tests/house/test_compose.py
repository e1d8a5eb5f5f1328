"""The compose file: what no running Docker engine has checked yet."""

import re

import pytest
import yaml

from breakeven.config import Settings
from breakeven.config_sources import build_settings
from tests.house.tree import ROOT, read

COMPOSE = yaml.safe_load(read("deploy/compose.yaml"))
SERVICES = COMPOSE["services"]
OURS = [name for name, service in SERVICES.items() if "build" in service]
ENGINES = [name for name, service in SERVICES.items() if "profiles" in service]


def seconds(text):
    amount, unit = re.fullmatch(r"(\d+)([smh])", text).groups()
    return int(amount) * {"s": 1, "m": 60, "h": 3600}[unit]


def of_profile(profile):
    return {name: service for name, service in SERVICES.items() if profile in service.get("profiles", [])}


def router_settings(monkeypatch, **outside):
    """The router's settings as the container would read them, with these variables set outside."""
    for name, value in SERVICES["router"]["environment"].items():
        filled = re.sub(r"\$\{(\w+):-([^}]*)\}", lambda match: outside.get(match[1], match[2]), str(value))
        monkeypatch.setenv(name, filled)
    return build_settings(Settings, {})


def test_the_router_accepts_what_the_compose_file_sets(monkeypatch):
    settings = router_settings(monkeypatch)
    assert [(each.pool, each.host, each.port) for each in settings.addresses()] == [
        ("baseline", "baseline", 8000),
        ("speculative", "speculative", 8000),
    ]
    assert settings.admin_host == "0.0.0.0"
    assert settings.admin_key is None


def test_engines_of_ones_own_come_from_the_environment(monkeypatch):
    outside = {
        "BREAKEVEN_BASELINE": "http://gpu-1:8000",
        "BREAKEVEN_SPECULATIVE": "http://gpu-2:8000,http://gpu-3:8000",
    }
    settings = router_settings(monkeypatch, **outside)
    assert [each.host for each in settings.addresses()] == ["gpu-1", "gpu-2", "gpu-3"]


@pytest.mark.parametrize("profile", ["sim", "vllm"])
def test_each_profile_brings_an_engine_for_both_default_addresses(profile):
    aliases = [service["networks"]["default"]["aliases"] for service in of_profile(profile).values()]
    assert sorted(aliases) == [["baseline"], ["speculative"]]


def test_no_image_floats():
    images = [service["image"] for service in SERVICES.values()]
    assert [image for image in images if not re.fullmatch(r"[a-z/-]+:v?\d+\.\d+\.\d+", image)] == []


def test_a_loading_engine_is_given_half_an_hour_and_every_probe_more_than_a_second():
    # Field case B91: a shorter start period restarts large models for ever, a probe of one second fails under load.
    for name in ENGINES:
        assert seconds(SERVICES[name]["healthcheck"]["timeout"]) > 1
    for service in of_profile("vllm").values():
        assert seconds(service["healthcheck"]["start_period"]) >= 1800


@pytest.mark.parametrize("name", OURS)
def test_our_containers_write_nothing_and_may_nothing(name):
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["tmpfs"] == ["/tmp"]  # noqa: S108  # the container's own
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]


def test_only_the_api_is_open_to_other_machines():
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert [port for port in published if not port.startswith("127.0.0.1:")] == ["8080:8080"]


def test_containers_outlive_the_answers_they_are_giving(monkeypatch):
    assert seconds(SERVICES["router"]["stop_grace_period"]) > router_settings(monkeypatch).drain_timeout_s
    shutdown_s = int(re.search(r"SHUTDOWN_TIMEOUT_S:-(\d+)", read("deploy/vllm/pools.sh"))[1])
    for service in of_profile("vllm").values():
        assert seconds(service["stop_grace_period"]) > shutdown_s


def test_the_two_real_engines_share_no_gpu():
    devices = [service["deploy"]["resources"]["reservations"]["devices"][0] for service in of_profile("vllm").values()]
    assert [device["device_ids"] for device in devices] == [["0", "1"], ["2", "3"]]


def test_the_real_engines_run_the_scripts_of_this_folder():
    for service in of_profile("vllm").values():
        shell, script = service["entrypoint"]
        assert shell == "bash"
        assert (ROOT / script.removeprefix("/")).is_file()


def test_every_mounted_file_is_in_the_folder_and_every_volume_declared():
    mounts = [mount.split(":") for service in SERVICES.values() for mount in service.get("volumes", [])]
    for source, *_ in mounts:
        assert (ROOT / "deploy" / source).exists() if source.startswith("./") else source in COMPOSE["volumes"]


def test_prometheus_scrapes_the_names_that_the_compose_file_gives():
    targets = yaml.safe_load(read("deploy/prometheus/engines.yaml"))
    assert [(each["targets"], each["labels"]) for each in targets] == [
        (["baseline:8000"], {"pool": "baseline"}),
        (["speculative:8000"], {"pool": "speculative"}),
    ]
    config = yaml.safe_load(read("deploy/prometheus/prometheus.yaml"))
    assert config["scrape_configs"][0]["static_configs"] == [{"targets": ["router:8081"]}]
