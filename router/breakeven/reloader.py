"""Reads the configuration again when asked to (SIGHUP) or when one of its files has changed, and has it taken over.

What cannot be used changes nothing: each mistake is logged and the router serves on as it did.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from breakeven.certificates import certificates_of
from breakeven.check import judge_certificates, judge_settings
from breakeven.clock import utc_now
from breakeven.config import Settings
from breakeven.config_sources import ConfigError
from breakeven.metric_table import ReloadResult
from breakeven.reload import Plan, watched_files
from breakeven.watch_files import FileWatch

LOG = logging.getLogger(__name__)

LOOK_S = 1.0
"""Between two looks at the files."""


class Reloadable(Protocol):
    """Who takes settings over."""

    @property
    def settings(self) -> Settings:
        """Those in force."""

    async def reload(self, settings: Settings) -> Plan:
        """Take these into force; ConfigError where that cannot be, and nothing has changed."""


class Reloader:
    """`reread` gives the settings as they are written now, or ConfigError; `told` hears what came of it."""

    def __init__(
        self,
        target: Reloadable,
        reread: Callable[[], Settings],
        told: Callable[[ReloadResult], None],
        look_s: float = LOOK_S,
    ) -> None:
        self._target = target
        self._reread = reread
        self._told = told
        self._look_s = look_s
        self._files = FileWatch()
        self._files.take(watched_files(target.settings))
        self._asked = asyncio.Event()

    def ask(self) -> None:
        """Read again soon, whether a file has changed or not."""
        self._asked.set()

    async def run(self) -> None:
        """Reload whenever there is a reason to, until cancelled."""
        while True:
            try:
                if await self._reason_came():
                    await self._read_again()
            except RuntimeError as error:  # no thread can be had now, which must not end a router that serves
                LOG.error("configuration not looked at: %s", error)
                await asyncio.sleep(self._look_s)

    async def _read_again(self) -> None:
        # In a thread, as the looking is: a network disk that stalls, or a long file, must not hold up relays.
        await asyncio.to_thread(self._files.take, watched_files(self._target.settings))
        result = await self._reload()
        await asyncio.to_thread(self._files.note, watched_files(self._target.settings))
        self._told(result)

    async def _reason_came(self) -> bool:
        try:
            async with asyncio.timeout(self._look_s):
                await self._asked.wait()
        except TimeoutError:
            return await asyncio.to_thread(self._files.changed, watched_files(self._target.settings))
        self._asked.clear()
        return True

    async def _reload(self) -> ReloadResult:
        try:
            settings = await asyncio.to_thread(self._reread)
            plan = await self._target.reload(settings)
        except ConfigError as error:
            for line in error.lines:
                LOG.error("configuration not reloaded: %s", line)  # a mistake of a person, no fault
            return ReloadResult.FAILURE
        except Exception:  # whatever goes wrong while the configuration is read must not end a router that serves
            LOG.exception("configuration not reloaded")
            return ReloadResult.FAILURE
        logging.getLogger().setLevel(plan.settings.log_level.upper())
        for line in plan.lines():
            LOG.info("configuration reloaded: %s", line)
        for name in plan.waiting:
            LOG.warning("%s has changed: that takes a restart", name)
        certificates = await asyncio.to_thread(certificates_of, plan.settings)
        for finding in [*judge_settings(plan.settings), *judge_certificates(certificates, utc_now().timestamp())]:
            LOG.warning("%s", finding.text)
        return ReloadResult.SUCCESS
