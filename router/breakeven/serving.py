"""One process of the router as others see it: the sockets it was given, the signals it hears, what it says of itself.

It runs a `Router` from the first signal that it must not miss to the last line that it writes.
"""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack

from breakeven.check import judge_settings
from breakeven.clock import utc_now
from breakeven.config import Settings
from breakeven.inherited import NOTHING, Inherited, UnfitSocketError, address_of, take_inherited
from breakeven.notify import READY, STOPPING, VARIABLE, Notifier, patience
from breakeven.recorders import CannotTraceError, UnwritableError, open_recorders, open_tracing
from breakeven.reloader import Reloader
from breakeven.wiring import Router, StartError, calm_collector, raise_open_files, reason, run_in_loop, start_logging

LOG = logging.getLogger(__name__)

LAST_WORDS_S = 10.0
"""Beyond the time for requests: for the admin port, the last lines of logs, and the end of workers."""


async def serve(
    settings: Settings,
    reread: Callable[[], Settings],
    make: type[Router] = Router,
    inherited: Inherited = NOTHING,
    notifier: Notifier | None = None,
) -> None:
    """Run a router until SIGTERM or SIGINT; a second signal cuts what still runs. SIGHUP reads the settings again."""
    loop = asyncio.get_running_loop()
    notifier = notifier or Notifier(None)
    stop, at_once = asyncio.Event(), asyncio.Event()

    def on_signal() -> None:
        (at_once if stop.is_set() else stop).set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    with ExitStack() as stack:
        try:
            recorder = stack.enter_context(open_recorders(settings, utc_now))
            tracing = stack.enter_context(open_tracing(settings, utc_now))
        except CannotTraceError as error:
            raise StartError(str(error)) from None
        except UnwritableError as unwritable:
            raise StartError(f"{unwritable}: {reason(unwritable.error)}") from None
        router = make(settings, recorder, tracing=tracing)
        reloader = Reloader(
            router, reread, lambda result: router.metrics.config_reloaded(result, utc_now().timestamp())
        )
        loop.add_signal_handler(signal.SIGHUP, reloader.ask)  # before the start of workers: unheard, it would end us
        for finding in judge_settings(settings):
            LOG.warning("%s", finding.text)
        for line in unused(settings, inherited):
            LOG.warning("%s", line)
        await router.start(inherited)
        reloading = asyncio.create_task(reloader.run(), name="reload")
        calm_collector()
        sys.stderr.write(ready_line(settings, router.port, router.admin_port, inherited))
        sys.stderr.flush()
        notifier.tell(READY)
        try:
            await router.run_until(stop, reloading)
        finally:
            notifier.tell(STOPPING, patience(settings.drain_delay_s + settings.drain_timeout_s + LAST_WORDS_S))
            reloading.cancel()
            await asyncio.gather(reloading, return_exceptions=True)
            await router.stop(at_once)


def run(settings: Settings, reread: Callable[[], Settings], make: type[Router] = Router) -> None:
    """`breakeven serve`; StartError where it cannot start. `reread` reads what the settings were made of once more."""
    start_logging(settings.log_level)
    raise_open_files()
    try:
        inherited = take_inherited(os.environ, os.getpid())
    except UnfitSocketError as error:
        raise StartError(str(error)) from None
    run_in_loop(serve(settings, reread, make, inherited, Notifier(os.environ.get(VARIABLE))))


def unused(settings: Settings, inherited: Inherited) -> list[str]:
    """Ports that somebody has set and that inherited sockets make mean nothing."""
    lines = []
    for setting, sockets in (("port", inherited.api), ("admin_port", inherited.admin)):
        wanted, given = getattr(settings, setting), sorted({address_of(each)[1] for each in sockets})
        if given and setting in settings.model_fields_set and wanted not in {0, *given}:
            used = ", ".join(map(str, given))
            lines.append(f"{setting}: {wanted} is not used: this process was given sockets that listen on {used}")
    return lines


def ready_line(settings: Settings, port: int, admin_port: int, inherited: Inherited = NOTHING) -> str:
    """What a person, and whoever started us as a process, waits for."""
    scheme = "http" if settings.tls_cert is None else "https"
    host = address_of(inherited.api[0])[0] if inherited.api else settings.host
    admin_host = address_of(inherited.admin[0])[0] if inherited.admin else settings.admin_host
    return f"breakeven ready on {origin(host, port, scheme)}, admin on {origin(admin_host, admin_port)}\n"


def origin(host: str, port: int, scheme: str = "http") -> str:
    """The address as a URL."""
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
