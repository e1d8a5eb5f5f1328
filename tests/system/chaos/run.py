"""Engines are killed, frozen, restarted and slowed at random while clients of every kind ask a real router.

    python -m tests.system.chaos.run [--seconds 600] [--seed N]

Prints the plan as it is carried out and a verdict; the exit code is 0 only where every request had one outcome, every
answer was its own and whole or broken for a reason that the plan proves, and the router kept nothing.
"""

import argparse
import asyncio
import json
import random
import signal
import statistics
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

import psutil

from breakeven_bench.launch import free_port
from tests.field.router import Router, total
from tests.system.bond import dies_with_us
from tests.system.chaos.load import visitor
from tests.system.chaos.plan import REST_S, Harm, Outage, blows
from tests.system.chaos.verdict import Evidence, Limits, judge, read_journals

POOLS = {"baseline": ("baseline-0", "baseline-1"), "speculative": ("speculative-0", "speculative-1")}
CLIENTS = 30
SETTINGS = {
    "connect_timeout_s": 1.0,
    "first_byte_timeout_s": 3.0,
    "idle_timeout_s": 3.0,
    "probe_interval_s": 0.2,
    "probe_timeout_s": 1.0,
    "probe_failures_max": 2,
    "scrape_interval_s": 0.5,
    "engine_failures_max": 3,
    "engine_frozen_s": 3.0,
    "drain_timeout_s": 5.0,
}
LIMITS = Limits(
    first_byte_s=SETTINGS["first_byte_timeout_s"],
    idle_s=SETTINGS["idle_timeout_s"],
    # Two probes that take a second each, a pause between them, and as much again for a machine that is busy.
    taken_out_s=4.5,
    # The next probe, or the next question for a token where it was ejected; and a machine that is busy.
    brought_back_s=3.5,
)
GRACE_S = 0.3
"""Between SIGTERM and SIGKILL, as every supervisor has it."""

SAMPLES_S = 0.5
MEMORY_GROWTH_MAX = 0.10
MEMORY_SLACK_MB = 6.0
"""The last third of a run against the first after the warm-up; the slack is for runs of seconds."""

DESCRIPTORS_SLACK = 8


class Engines:
    """The engine processes by name, on ports that stay the same."""

    def __init__(self, folder, say):
        self._folder, self._say = folder, say
        self._began_s = time.monotonic()
        self._processes = {}
        self.ports = {name: free_port() for names in POOLS.values() for name in names}
        self.outages = []

    def begin(self):
        """From now on time is counted."""
        self._began_s = time.monotonic()

    def age_s(self):
        return time.monotonic() - self._began_s

    def journal(self, name):
        return self._folder / f"{name}.journal"

    async def start(self, name):
        """Start it and wait until it serves."""
        command = [sys.executable, "-m", "tests.system.chaos.engine", name, str(self.ports[name]), self.journal(name)]
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, preexec_fn=dies_with_us()
        )
        self._processes[name] = process
        line = await process.stdout.readline()
        assert b"ready on" in line, f"{name} did not start"

    async def stop(self):
        for process in self._processes.values():
            if process.returncode is None:
                process.send_signal(signal.SIGKILL)
            await process.wait()

    async def suffer(self, planned):
        """Carry out the blows for one engine one after the other, however long a start takes on a busy machine."""
        for blow in planned:
            await self.strike(blow)

    async def strike(self, blow):
        await asyncio.sleep(max(0.0, blow.at_s - self.age_s()))
        from_s = time.monotonic()
        self._say(f"{from_s - self._began_s:7.2f} s  {blow.engine} {blow.harm} for {blow.lasts_s:.1f} s")
        await getattr(self, f"_{blow.harm.name.lower()}")(blow.engine, blow.lasts_s)
        self.outages.append(Outage(blow.engine, blow.harm, from_s, time.monotonic()))

    async def _kill(self, name, lasts_s):
        self._processes[name].send_signal(signal.SIGKILL)
        await self._processes[name].wait()
        await asyncio.sleep(lasts_s)
        await self.start(name)

    async def _restart(self, name, lasts_s):
        self._processes[name].send_signal(signal.SIGTERM)
        await asyncio.sleep(GRACE_S)
        await self._kill(name, lasts_s) if self._processes[name].returncode is None else await self.start(name)

    async def _freeze(self, name, lasts_s):
        self._processes[name].send_signal(signal.SIGSTOP)
        await asyncio.sleep(lasts_s)
        self._processes[name].send_signal(signal.SIGCONT)

    _hiccup = _freeze

    async def _slow(self, name, lasts_s):
        self._processes[name].send_signal(signal.SIGUSR1)
        await asyncio.sleep(lasts_s)
        self._processes[name].send_signal(signal.SIGUSR2)


async def sampled(router, samples):
    """Memory (MB) and descriptors of the router, again and again."""
    process = psutil.Process(router.pid)
    while True:
        samples.append((process.memory_info().rss / 2**20, process.num_fds()))
        await asyncio.sleep(SAMPLES_S)


def grown(samples):
    """By how much the memory grew, MB; and what it was in the middle third."""
    warm = [memory for memory, _ in samples[len(samples) // 4 :]]
    third = max(1, len(warm) // 3)
    return statistics.median(warm[-third:]) - statistics.median(warm[:third]), statistics.median(warm)


def settings_of(engines, folder):
    pools = [
        {
            "name": name,
            "kind": "plain" if name == "baseline" else "speculative",
            "backends": [{"name": each, "url": f"http://127.0.0.1:{engines.ports[each]}"} for each in names],
        }
        for name, names in POOLS.items()
    ]
    return {**SETTINGS, "pools": pools, "access_log": str(folder / "access.log")}


async def run(seconds, seed, folder, say=print, clients=CLIENTS, rest_s=REST_S):
    """One run; the verdict, with what the router kept among its faults."""
    say(f"seed {seed}, {seconds:g} s, {clients} clients, {sum(map(len, POOLS.values()))} engines")
    engines, samples, fates = Engines(folder, say), [], []
    async with AsyncExitStack() as stack:
        stack.push_async_callback(engines.stop)
        await asyncio.gather(*map(engines.start, engines.ports))
        router = Router(folder, settings_of(engines, folder))
        stack.push_async_callback(router.kill)
        await router.start()
        await router.settled()
        descriptors = psutil.Process(router.pid).num_fds()
        sampling = asyncio.create_task(sampled(router, samples))
        engines.begin()
        planned = blows(seed, engines.ports, seconds, rest_s)
        blown = [engines.suffer([blow for blow in planned if blow.engine == name]) for name in engines.ports]
        visitors = (
            visitor(number, seed, router.port, lambda: engines.age_s() > seconds, fates) for number in range(clients)
        )
        await asyncio.gather(*visitors, *blown)
        say(f"{engines.age_s():7.2f} s  the last client has left")
        sampling.cancel()
        left = await kept(router, descriptors)
        counted = await router.samples("breakeven_requests_total")
        await router.stop()
    verdict = judge(evidence(engines, folder, fates), LIMITS)
    verdict.faults += left
    if total(counted, "breakeven_requests_total") != len(fates):
        verdict.faults.append(f"{total(counted, 'breakeven_requests_total'):g} requests counted, {len(fates)} made")
    growth, level = grown(samples)
    if growth > max(MEMORY_SLACK_MB, MEMORY_GROWTH_MAX * level):
        verdict.faults.append(f"memory grew by {growth:.1f} MB from {level:.1f} MB")
    tell(verdict, engines, fates, f"memory {level:.1f} MB, {growth:+.1f} MB from the first third to the last", say)
    return verdict


async def kept(router, descriptors_before):
    """What the router holds after everybody has left; waits for what takes its time to go (idle connections: 4 s)."""
    process = psutil.Process(router.pid)
    told = []
    for _ in range(200):
        told = []
        in_flight = await router.samples("breakeven_requests_in_flight")
        told += [f"in flight {dict(labels)}: {value:g}" for (_, labels), value in in_flight.items() if value]
        descriptors = process.num_fds()
        if descriptors > descriptors_before + DESCRIPTORS_SLACK:
            told.append(f"{descriptors} descriptors are open, {descriptors_before} before")
        if not told:
            break
        await asyncio.sleep(0.05)
    return told


def evidence(engines, folder, fates):
    pages = {name: engines.journal(name).read_text() for name in engines.ports}
    journals = read_journals(pages)
    journals.pop("-", None)  # the router's own questions for a token
    logged = {}
    for line in (folder / "access.log").read_text().splitlines():
        entry = json.loads(line)
        logged.setdefault(entry["request_id"], []).append(entry)
    return Evidence(fates, journals, engines.outages, logged, frozenset(POOLS["baseline"]), frozenset(engines.ports))


def tell(verdict, engines, fates, memory, say):
    """The verdict for a reader."""
    say(f"\n{len(fates)} requests: " + ", ".join(f"{count} {kind}" for kind, count in verdict.kinds.most_common()))
    say("ended: " + ", ".join(f"{count} {how}" for how, count in verdict.outcomes.most_common()))
    harms = [f"{sum(o.harm is harm for o in engines.outages)} {harm}" for harm in Harm]
    say("engines: " + ", ".join(harms))
    for reason, count in verdict.explained.most_common():
        say(f"  {count:5d} failed for {reason}")
    say(memory)
    for fault in verdict.faults[:40]:
        say(f"FAULT {fault}")
    say(f"verdict: {len(verdict.faults)} faults" if verdict.faults else "verdict: every request accounted for")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument("--clients", type=int, default=CLIENTS)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        verdict = asyncio.run(run(asked.seconds, asked.seed, Path(folder), clients=asked.clients))
    if verdict.faults:
        print(f"again: python -m tests.system.chaos.run --seconds {asked.seconds:g} --seed {asked.seed}")
    return 1 if verdict.faults else 0


if __name__ == "__main__":
    sys.exit(main())
