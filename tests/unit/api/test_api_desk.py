"""The desk: at most so many at once, a bounded queue, and counts that come back to nothing."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from planner.api.desk import Desk
from planner.api.problems import Problem


def test_never_more_at_once_than_there_are_threads() -> None:
    busy, most, lock = 0, 0, threading.Lock()

    def work() -> None:
        nonlocal busy, most
        with lock:
            busy += 1
            most = max(most, busy)
        time.sleep(0.01)
        with lock:
            busy -= 1

    async def everyone() -> None:
        desk = Desk(threads=2, queue=20)
        await asyncio.gather(*(desk.ask(work) for _ in range(20)))
        desk.close()

    asyncio.run(everyone())
    assert most == 2


def test_a_full_queue_refuses_at_once_and_opens_again() -> None:
    async def everyone() -> tuple[int, int]:
        desk, gate = Desk(threads=1, queue=2), threading.Event()
        waiting = [asyncio.ensure_future(desk.ask(lambda: gate.wait(10))) for _ in range(3)]
        await asyncio.sleep(0.05)
        with pytest.raises(Problem) as refused:
            await desk.ask(lambda: True)
        gate.set()
        answers = await asyncio.gather(*waiting)
        again = await desk.ask(lambda: 7)
        desk.close()
        assert all(answers)
        return refused.value.kind.status, again

    assert asyncio.run(everyone()) == (503, 7)


def test_waiting_ends_while_the_thread_stays_taken() -> None:
    async def everyone() -> None:
        desk, gate = Desk(threads=1, queue=1, timeout_s=0.1), threading.Event()
        with pytest.raises(Problem, match="timeout"):
            await desk.ask(lambda: gate.wait(10))
        with pytest.raises(Problem, match="timeout"):  # the one thread is still at work on what nobody waits for
            await desk.ask(lambda: True)
        gate.set()
        await asyncio.sleep(0.1)
        assert await desk.ask(lambda: 1) == 1
        desk.close()

    asyncio.run(everyone())


def test_an_error_in_the_work_is_the_askers_own() -> None:
    def work() -> None:
        raise ZeroDivisionError

    async def one() -> None:
        desk = Desk(threads=1, queue=0)
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                await desk.ask(work)
        desk.close()

    asyncio.run(one())
