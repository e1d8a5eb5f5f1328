"""What a decision costs, for every policy and two sizes of fleet: instructions, and the shortest time of many.

    python -m tests.house.deciding                  needs valgrind (apt-get install valgrind); two minutes
    python -m tests.house.deciding breakeven 64     one policy, one number of backends

Pools are half plain and half speculative, 4 backends in each at 8 and 8 in each at 64; all are ready, listed, scraped
and under different loads, and all is known of them, so that every step of a decision is taken. Instructions are the
same on a busy machine; a time is the shortest of 40 rounds.
"""

import os
import re
import subprocess
import sys
import time

from breakeven_policies.registry import build_policy, policy_names
from breakeven_policies.snapshot import BackendView, EngineSignals, FleetSnapshot, PoolKind, PoolView
from tests.house.instructions import VALGRIND
from tests.policies.fleets import learned_of, request

COUNTS = (100, 600)
SIZES = {8: (2, 4), 64: (8, 8)}


def fleet(backends):
    pools = []
    many, each = SIZES[backends]
    names = [f"{'ps'[number % 2]}{number}" for number in range(many)]
    for number, name in enumerate(names):
        views = tuple(
            BackendView(
                f"{name}-{place}", in_flight=place % 5, signals=EngineSignals(running=float(place % 5), waiting=0.0),
                scraped_at_s=99.5, in_flight_at_scrape=place % 3, models=frozenset({"m"}),
            )
            for place in range(each)
        )  # fmt: skip
        speculative = number % 2
        kind = PoolKind.SPECULATIVE if speculative else PoolKind.PLAIN
        pools.append(PoolView(name, kind, views, "eagle3" if speculative else "none", 5 * speculative))
    return FleetSnapshot(100.0, tuple(pools), learned_of({name: 20.0 + place for place, name in enumerate(names)}))


def decide(policy, backends, count):
    chosen, seen, now = build_policy(policy), request(), fleet(backends)
    assert policy != "breakeven" or "cost" in chosen.decide(seen, now).reason
    started_s = time.perf_counter()
    for _ in range(count):
        chosen.decide(seen, now)
    return (time.perf_counter() - started_s) / count


def instructions(policy, backends, count):
    ran = subprocess.run(
        [*VALGRIND, sys.executable, "-m", __spec__.name, policy, str(backends), str(count)],
        env=os.environ | {"PYTHONHASHSEED": "0"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return int(re.search(r"Collected : (\d+)", ran.stderr).group(1))


def main(arguments):
    if len(arguments) == 3:
        decide(arguments[0], int(arguments[1]), int(arguments[2]))
        return
    policies = arguments[:1] or [f"{name}:p0" if name == "pinned" else name for name in policy_names()]
    for policy in policies:
        for backends in map(int, arguments[1:] or SIZES):
            first, second = (instructions(policy, backends, count) for count in COUNTS)
            shortest_s = min(decide(policy, backends, 100) for _ in range(40))
            each = (second - first) / (COUNTS[1] - COUNTS[0])
            print(f"{policy}, {backends} backends: {each:,.0f} instructions, {shortest_s * 1e6:.1f} us")


if __name__ == "__main__":
    main(sys.argv[1:])
