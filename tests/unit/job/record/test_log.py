"""Tests of a job's log: time limits, and what is cancelled or finished when the job is stopped."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from hotdesk.brain.seam import BudgetSpentError, JobHaltedError
from hotdesk.brief.brief import JobBudget
from hotdesk.event import ignore
from hotdesk.job.record.log import JobLog


def log_of(seconds: float) -> JobLog:
    nothing: Any = None
    return JobLog("i" + "j" * 20, nothing, nothing, ignore, JobBudget(), seconds)


async def nap(seconds: float) -> str:
    await anyio.sleep(seconds)
    return "rested"


async def test_work_beyond_the_jobs_time_is_cancelled_and_reported() -> None:
    with pytest.raises(BudgetSpentError, match=r"the job's time limit of 0\.05 seconds was reached"):
        await log_of(0.05).run_within_limits(nap(30))
    assert await log_of(5).run_within_limits(nap(0)) == "rested"


async def test_time_waiting_for_people_is_not_the_jobs_time() -> None:
    log = log_of(0.2)

    async def ask() -> str:
        with log.waiting():
            await anyio.sleep(0.4)
        return "answered"

    assert await log.run_within_limits(ask()) == "answered"


@pytest.mark.slow
async def test_time_continues_only_when_no_person_is_waited_for() -> None:
    log = log_of(0.5)

    async def ask(seconds: float) -> None:
        with log.waiting():
            await anyio.sleep(seconds)

    async def act() -> str:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, 0.2)
            tasks.start_soon(ask, 0.8)
        return await nap(30)

    with pytest.raises(BudgetSpentError), anyio.fail_after(10):
        await log.run_within_limits(act())
    assert 0.7 < log.waited < 5
    assert log.seconds_left <= 0


@pytest.mark.slow
async def test_what_begins_while_people_are_waited_for_has_all_of_its_time() -> None:
    log = log_of(0.3)
    with log.waiting():
        assert await log.run_within_limits(nap(0.6)) == "rested"
    assert log.seconds_left > 0


@pytest.mark.parametrize("planning", [True, False])
async def test_a_pending_model_request_is_cancelled_when_the_job_stops(planning: bool) -> None:
    log = log_of(30)

    async def think() -> str:
        if not planning:
            log.check()
        return await nap(20)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:

            async def stop() -> None:
                await anyio.sleep(0.05)
                log.halt()

            tasks.start_soon(stop)
            with pytest.raises(JobHaltedError):
                await log.run_within_limits(think(), thinking=planning)


async def test_a_running_act_is_finished_when_the_job_stops() -> None:
    log = log_of(30)

    async def act() -> str:
        log.check()
        log.thinking = False  # as it is once the reply is written down
        log.halt()
        return await nap(0.05)

    assert await log.run_within_limits(act()) == "rested"
    with pytest.raises(JobHaltedError):
        log.check()
