"""`breakeven.reloader`: when the configuration is read again, and what is said about it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from breakeven.config import Settings
from breakeven.config_sources import ConfigError, build_settings
from breakeven.metric_table import ReloadResult
from breakeven.reload import Plan, plan_of
from breakeven.reloader import Reloader

pytestmark = pytest.mark.usefixtures("clean_environment")

LOOK_S = 0.01


@pytest.fixture(autouse=True)
def _the_level_of_the_log_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger(), "setLevel", lambda _: None)


def settings(**values: Any) -> Settings:
    return build_settings(Settings, {"baseline": "http://127.0.0.1:1", **values})


class Target:
    """Takes settings over, and remembers them."""

    def __init__(self, first: Settings) -> None:
        self.settings = first
        self.taken: list[Settings] = []

    async def reload(self, settings: Settings) -> Plan:
        plan = plan_of(self.settings, settings)
        self.settings = plan.settings
        self.taken.append(settings)
        return plan


class Told:
    """What came of each reading."""

    def __init__(self) -> None:
        self.results: asyncio.Queue[ReloadResult] = asyncio.Queue()

    async def next(self) -> ReloadResult:
        async with asyncio.timeout(10):
            return await self.results.get()


@asynccontextmanager
async def reloading(target: Target, reread: Callable[[], Settings]) -> AsyncIterator[tuple[Reloader, Told]]:
    told = Told()
    reloader = Reloader(target, reread, told.results.put_nowait, LOOK_S)
    task = asyncio.create_task(reloader.run())
    try:
        yield reloader, told
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_mistake_changes_nothing_and_each_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    def reread() -> Settings:
        raise ConfigError("port: expected a whole number", "policy: no such policy")

    target = Target(settings())
    async with reloading(target, reread) as (reloader, told):
        reloader.ask()
        assert await told.next() is ReloadResult.FAILURE
    assert target.taken == []
    assert [record.getMessage() for record in caplog.records] == [
        "configuration not reloaded: port: expected a whole number",
        "configuration not reloaded: policy: no such policy",
    ]
    assert {record.levelname for record in caplog.records} == {"ERROR"}


async def test_a_fault_of_ours_does_not_end_the_watching(caplog: pytest.LogCaptureFixture) -> None:
    answers = iter([ValueError("a fault"), settings(threshold=0.5)])

    def reread() -> Settings:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    target = Target(settings())
    async with reloading(target, reread) as (reloader, told):
        for expected in (ReloadResult.FAILURE, ReloadResult.SUCCESS):
            reloader.ask()
            assert await told.next() is expected
    assert target.settings.threshold == 0.5
    assert "a fault" in caplog.text


async def test_a_moment_without_threads_does_not_end_the_watching(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    in_thread = asyncio.to_thread
    failures = iter(["can't start new thread"])

    async def sometimes(*arguments: Any) -> Any:
        for failure in failures:
            raise RuntimeError(failure)
        return await in_thread(*arguments)

    async with reloading(Target(settings()), settings) as (reloader, told):
        monkeypatch.setattr(asyncio, "to_thread", sometimes)
        async with asyncio.timeout(10):
            while not caplog.records:  # noqa: ASYNC110  # a log tells nobody
                await asyncio.sleep(LOOK_S)
        reloader.ask()
        assert await told.next() is ReloadResult.SUCCESS
    assert "can't start new thread" in caplog.text


async def test_what_has_changed_and_what_takes_a_restart_is_said(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="breakeven.reloader")
    async with reloading(Target(settings()), lambda: settings(threshold=0.5, port=1)) as (reloader, told):
        reloader.ask()
        assert await told.next() is ReloadResult.SUCCESS
    assert "configuration reloaded: changed: threshold" in caplog.text
    assert "port has changed: that takes a restart" in caplog.text


async def test_a_changed_file_is_read_without_being_asked_to(tmp_path: Path) -> None:
    path = tmp_path / "breakeven.yaml"
    path.write_text("threshold: 1.0")

    def reread() -> Settings:
        return settings(config=path)

    target = Target(reread())
    async with reloading(target, reread) as (_, told):
        path.write_text("threshold: 0.25")
        assert await told.next() is ReloadResult.SUCCESS
        assert target.settings.threshold == 0.25
        path.write_text("threshold: warm")
        assert await told.next() is ReloadResult.FAILURE
        path.write_text("threshold: 0.75")
        assert await told.next() is ReloadResult.SUCCESS
    assert [each.threshold for each in target.taken] == [0.25, 0.75]


async def test_being_asked_is_no_reason_to_read_a_changed_file_twice(tmp_path: Path) -> None:
    path = tmp_path / "breakeven.yaml"
    path.write_text("threshold: 1.0")
    target = Target(settings(config=path))
    async with reloading(target, lambda: settings(config=path)) as (reloader, told):
        path.write_text("threshold: 0.25")
        reloader.ask()
        await told.next()
        looks = 0
        look = reloader._files.changed

        def counted(paths: Any) -> bool:
            nonlocal looks
            looks += 1
            return look(paths)

        reloader._files.changed = counted  # type: ignore[method-assign]
        async with asyncio.timeout(10):
            while looks < 4:  # noqa: ASYNC110  # in a thread
                await asyncio.sleep(LOOK_S)
        assert told.results.empty()
    assert len(target.taken) == 1
