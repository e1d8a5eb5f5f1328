"""Dashboard and alert rules against a live router under load, and against a real Prometheus where there is one.

Two simulated engines, the router in front of them, a mixed load that goes on until the questions are answered.
"""

import asyncio
import json
import math
import re
import sys
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
import yaml
from prometheus_client.parser import text_string_to_metric_families

from breakeven.record import Outcome
from breakeven_bench.launch import Command, Launcher
from tests.field.client import Client, body
from tests.field.router import Router, total, until, unused_ports
from tests.house.needs import needs
from tests.house.promql import unknown_names
from tests.house.tree import ROOT, read
from tests.router.certificates import Authority

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]

DASHBOARD = json.loads(read("deploy/grafana/dashboards/breakeven.json"))
RULES = [rule for group in yaml.safe_load(read("deploy/prometheus/rules.yaml"))["groups"] for rule in group["rules"]]
QUERIES = {
    f"{panel['title']}, {target['legendFormat']}": target["expr"]
    for panel in DASHBOARD["panels"]
    for target in panel.get("targets", [])
}
ADDED_BY_PROMETHEUS = frozenset({"instance", "job"})
OF_PROMETHEUS = {"up": set()}

MODEL = "llama-70b"
REQUESTS = (
    {"temperature": 0.7, "stream": True, "stream_options": {"include_usage": True}},
    {"temperature": 1.3, "stream": True, "stream_options": {"include_usage": True}},
    {"temperature": 0.7, "min_p": 0.05},
    {"temperature": 0.0, "model": "nobody-serves-this"},
)
"""Both pools, both ways to answer, a capability rule and a refusal."""

CLIENTS = 3
"""One more than the engines may have requests, so that some have to wait."""

WINDOW = "30s"
"""What Grafana puts in for its rate window: several times the scrape interval of the test."""


@dataclass(frozen=True, slots=True)
class Site:
    """A running router with its engines by pool."""

    router: Router
    engine_ports: dict[str, int]
    launcher: Launcher

    async def exported(self):
        """Sample name to label names, of the page as it is now."""
        page = (await self.router.get("/metrics", admin=True)).body.decode()
        found = {}
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                found.setdefault(sample.name, set()).update(sample.labels)
        return found


def engine(pool, *flags):
    argv = [sys.executable, "-m", "breakeven_bench", "engine", "--port", "0", "--time-scale", "20", *flags]
    return Command(f"engine-{pool}", argv, re.compile(r"ready on http://\S+:(\d+)"), ready_timeout_s=20)


async def load(port):
    """Requests one after another, for as long as nobody cancels this."""
    while True:
        for fields in REQUESTS:
            async with await Client.connect(port) as client:
                await client.ask(body(**{"model": MODEL, "max_tokens": 24, **fields}))


@asynccontextmanager
async def under_load(port):
    task = asyncio.gather(*(load(port) for _ in range(CLIENTS)))
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def counted(router):
    """Whether every kind of request, two scrapes under load and a comparison have left their mark on the metrics."""
    samples = await router.samples()
    found = ("breakeven_engine_acceptance_length", "breakeven_queue_wait_seconds_count")
    compared = total(samples, "breakeven_equivalence_checks_total", result="same")
    return (
        bool(compared)
        and all(total(samples, name) for name in found)
        and all(total(samples, "breakeven_requests_total", pool=pool) for pool in ("baseline", "speculative", "none"))
    )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("monitoring")
    async with Launcher(folder) as launcher:
        started = {
            "baseline": launcher.start(engine("baseline")),
            "speculative": launcher.start(engine("speculative", "--method", "eagle3", "--k", "3")),
        }
        ports = {pool: int((await server.ready())[1]) for pool, server in started.items()}
        pools = [
            {"name": pool, "kind": kind, "backends": [f"http://127.0.0.1:{ports[pool]}"]}
            for pool, kind in (("baseline", "plain"), ("speculative", "speculative"))
        ]
        pools[0]["tls"] = {"ca": str(Authority(folder, "authority").file)}  # for the figures about certificates
        further = {"access_log": "off", "max_in_flight": 1, "shadow": "least_loaded", "equivalence_interval_s": 1}
        router = Router(folder, {"pools": pools, **further})
        try:
            await router.start()
            await router.settled()
            async with under_load(router.port):
                await until(lambda: counted(router), "a request counted of every kind")
                yield Site(router, ports, launcher)
            await router.stop()
        finally:
            await router.kill()


@pytest.mark.parametrize("panel", QUERIES)
async def test_every_query_of_the_dashboard_names_what_the_live_router_exports(site, panel):
    assert unknown_names(QUERIES[panel], await site.exported(), ADDED_BY_PROMETHEUS) == []


async def test_alerts_speak_of_outcomes_that_exist():
    named = {
        word
        for rule in RULES
        for words in re.findall(r'outcome=~"([a-z_|]+)"', rule["expr"])
        for word in words.split("|")
    }
    assert named
    assert sorted(named - set(Outcome)) == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
async def test_every_alert_rule_names_what_the_live_router_or_prometheus_exports(site, rule):
    exported = await site.exported() | OF_PROMETHEUS
    assert unknown_names(rule["expr"], exported, ADDED_BY_PROMETHEUS) == []


async def test_the_choice_of_pools_comes_from_a_series_that_has_that_label(site):
    (variable,) = DASHBOARD["templating"]["list"]
    metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]["query"]).groups()
    assert label in (await site.exported())[metric]


async def test_every_metric_of_the_router_is_on_the_dashboard(site):
    asked = " ".join(QUERIES.values())
    own = {
        re.sub(r"_(bucket|sum|count|created)$", "", name)
        for name in await site.exported()
        if name.startswith("breakeven_")
    }
    assert sorted(name for name in own if not re.search(rf"\b{name}(_bucket)?\b", asked)) == []


async def promtool(*arguments):
    program = needs("promtool", "apt-get install prometheus")
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        program, *arguments, cwd=ROOT / "deploy/prometheus", stdout=pipe, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await process.communicate()
    return process.returncode, output.decode()


async def test_prometheus_accepts_the_configuration_and_the_rules():
    assert (await promtool("check", "config", "prometheus.yaml"))[0] == 0


async def test_the_alerts_fire_when_they_should_and_not_before():
    status, output = await promtool("test", "rules", "rules_test.yaml")
    assert status == 0, output


def configuration(site, folder):
    """The shipped configuration with this machine's addresses and a quicker pace."""
    config = yaml.safe_load(read("deploy/prometheus/prometheus.yaml"))
    config["global"] = {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "1s"}
    config["rule_files"] = [str(ROOT / "deploy/prometheus/rules.yaml")]
    router, engines = config["scrape_configs"]
    router["static_configs"] = [{"targets": [f"127.0.0.1:{site.router.admin_port}"]}]
    targets = yaml.safe_load(read("deploy/prometheus/engines.yaml"))
    for target in targets:
        target["targets"] = [f"127.0.0.1:{site.engine_ports[target['labels']['pool']]}"]
    (folder / "engines.yaml").write_text(yaml.safe_dump(targets), encoding="utf-8")
    engines["file_sd_configs"] = [{"files": [str(folder / "engines.yaml")]}]
    path = folder / "prometheus.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def prometheus(site, tmp_path_factory):
    """Asks a running Prometheus; answers the values of the series found."""
    program = needs("prometheus", "apt-get install prometheus")
    folder: Path = tmp_path_factory.mktemp("prometheus")
    (port,) = unused_ports(1)
    argv = [
        program,
        f"--config.file={configuration(site, folder)}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    server = site.launcher.start(
        Command("prometheus", argv, re.compile("ready to receive web requests"), ready_timeout_s=20)
    )
    await server.ready()
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}/api/v1", trust_env=False) as client:

        async def ask(path, **parameters):
            answer = (await client.get(path, params=parameters)).json()
            assert answer["status"] == "success", answer
            return answer["data"]

        yield ask
    await site.launcher.stop([server])


def as_grafana_sends_it(expression):
    return expression.replace("$__rate_interval", WINDOW).replace("$pool", ".*")


@pytest.mark.parametrize("panel", QUERIES)
async def test_every_query_of_the_dashboard_is_answered_with_figures(prometheus, panel):
    async def figures():
        found = (await prometheus("query", query=as_grafana_sends_it(QUERIES[panel])))["result"]
        return [series for series in found if math.isfinite(float(series["value"][1]))]

    await until(figures, f"figures for {panel}", deadline_s=30)


async def test_every_target_of_the_shipped_configuration_is_scraped(prometheus):
    async def all_up():
        targets = (await prometheus("targets"))["activeTargets"]
        return len(targets) == 3 and all(target["health"] == "up" for target in targets)

    await until(all_up, "three targets up")


async def test_a_healthy_fleet_raises_no_alert(prometheus):
    assert (await prometheus("alerts"))["alerts"] == []
    assert len((await prometheus("rules"))["groups"][0]["rules"]) == len(RULES)
