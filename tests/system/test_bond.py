"""What tests start ends with them, also where pytest is killed and nothing of it can clean up."""

import signal
import subprocess
import sys

import psutil
import pytest

FIELD = """
import asyncio, pathlib, sys
from tests.field.router import Router
async def main():
    router = Router(pathlib.Path(sys.argv[1]), {"baseline": ["http://127.0.0.1:1"], "workers": 2})
    await router.start()
    print(router.pid, flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""

SYSTEM = """
import time
from tests.system.router_process import router_process
with router_process("--baseline", "http://127.0.0.1:1") as router:
    print(router.process.pid, flush=True)
    time.sleep(600)
"""

PATIENCE_S = 30.0


@pytest.mark.slow
@pytest.mark.parametrize("code", [FIELD, SYSTEM], ids=["field", "system"])
def test_a_router_ends_with_the_process_of_the_tests_that_started_it(tmp_path, code):
    with subprocess.Popen([sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE) as tests:
        try:
            router = psutil.Process(int(tests.stdout.readline()))
            all_of_it = [router, *router.children(recursive=True)]
            tests.send_signal(signal.SIGTERM)
            _, left = psutil.wait_procs(all_of_it, PATIENCE_S)
        finally:
            tests.kill()
    for process in left:
        process.kill()
    assert left == []
