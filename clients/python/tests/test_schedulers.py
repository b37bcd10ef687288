"""Schedulers: what a program with threads sees, and one with asyncio."""

import asyncio
import concurrent.futures
import datetime
import decimal
import uuid
from typing import Any

import psycopg
import pytest
from conftest import Face

from rallypoint import (
    CallError,
    Client,
    Options,
    RallypointError,
    Retry,
    Scheduler,
    SchedulerHalted,
    Settings,
    TaskCancelled,
    TaskFailed,
    TasksFailed,
    TaskTimedOut,
    noop,
    shared,
    sql,
)

Database = psycopg.Connection[Any]


async def test_a_result_has_rows_notices_and_times(face: Face, rallypoint: Client) -> None:
    notice = "do $$ begin raise notice '%', e'half\\u2028way\\nthere'; end $$"
    text = notice + "; select g as n from generate_series(1, 3) g"
    async with face.scheduler(rallypoint) as s:
        future = s.submit(sql(text, rows=2), order=7)
        result = await face.result(future)
    assert result.rows == [{"n": 1}, {"n": 2}]
    assert (result.rows_affected, result.truncated, result.order, result.attempt) == (3, True, 7, 1)
    assert result.notices == ["NOTICE: half\u2028way", "there"]
    assert result.started_at <= result.ended_at
    assert result.took >= 0
    assert result.backend_pid > 0
    assert result.replica
    assert (future.seq, future.order, future.done(), future.cancelled()) == (1, 7, True, False)


async def test_rows_too_large_for_an_event_are_there_all_the_same(
    face: Face, rallypoint: Client
) -> None:
    async with face.scheduler(rallypoint) as s:
        future = s.submit(sql("select repeat('x', 200000) as long", rows=1))
        assert len((await face.result(future)).rows[0]["long"]) == 200_000


async def test_an_error_says_what_postgres_says(
    face: Face, rallypoint: Client, database: Database, table: str
) -> None:
    database.execute("alter table seen add constraint small check (id < 10)")
    async with face.scheduler(rallypoint) as s:
        wrong = await face.error(s.submit("select 1,\n  nothere from seen"))
        check = await face.error(s.submit("insert into seen values (10)"))
        hint = await face.error(
            s.submit("do $$ begin raise 'no' using errcode='RP123', hint='try', detail='d'; end $$")
        )
    assert isinstance(wrong, TaskFailed)
    assert (wrong.sqlstate, wrong.code, wrong.position) == ("42703", "42703", 13)
    assert str(wrong).endswith("LINE 2:   nothere from seen\n          ^")
    assert (wrong.seq, wrong.attempt) == (1, 1)
    assert (check.sqlstate, check.constraint) == ("23514", "small")
    assert "Failing row" in check.detail
    assert (hint.sqlstate, hint.hint, hint.detail) == ("RP123", "try", "d")
    assert "PL/pgSQL" in hint.context


@pytest.mark.parametrize(
    ("value", "type_", "shown"),
    [
        (None, "text", None),
        ("it's", "text", "it's"),
        (True, "bool", True),
        (42, "int8", 42),
        (1.5, "float8", 1.5),
        (float("inf"), "float8", "Infinity"),
        (decimal.Decimal("1.20"), "numeric(9,2)", 1.2),
        (b"\0\xff", "bytea", "\\x00ff"),
        (datetime.date(2026, 1, 2), "date", "2026-01-02"),
        (datetime.datetime(2026, 1, 2, 3, 4, 5), "timestamp", "2026-01-02T03:04:05"),
        (datetime.timedelta(days=-1, seconds=1), "interval", "-1 days +00:00:01"),
        (uuid.UUID(int=7), "uuid", str(uuid.UUID(int=7))),
        ({"a": [1, None]}, "jsonb", {"a": [1, None]}),
        ([1, None, 3], "int[]", [1, None, 3]),
        (['a"b', "c\\d", "", "NULL"], "text[]", ['a"b', "c\\d", "", "NULL"]),
        ([[1, 2], [3, 4]], "int[]", [[1, 2], [3, 4]]),
    ],
)
def test_values_of_python_reach_postgres(
    rallypoint: Client, value: Any, type_: str, shown: Any
) -> None:
    with Scheduler(rallypoint) as s:
        future = s.submit(sql(f"select to_jsonb($1::{type_}) as v", value, rows=1))
        assert future.result(30).rows == [{"v": shown}]


async def test_orders_run_one_after_the_other(
    face: Face, rallypoint: Client, database: Database, table: str
) -> None:
    async with face.scheduler(rallypoint) as s:
        with s.order(100):
            first = await s.map("insert into seen values ($1)", range(4))
            with s.order(200):
                second = await s.map(sql("insert into seen values ($1)"), [(10,), (11,)])
            inner = s.submit("select 1", order=150)
        free = s.submit("select 1")
        s.submit(sql("select 1", order=300))
        await s.synchronize(order=150)
        assert all(future.done() for future in [*first, inner])
    ends = [(await face.result(f)).ended_at for f in first]
    begins = [(await face.result(f)).started_at for f in second]
    assert max(ends) <= min(begins)
    orders = [future.order for future in (first[0], second[0], inner, free)]
    assert orders == [100, 200, 150, None]
    assert database.execute("select count(*) from seen").fetchone() == (6,)


async def test_failures_that_nobody_asked_for_are_raised(face: Face, rallypoint: Client) -> None:
    with pytest.raises(TasksFailed) as raised:
        async with face.scheduler(rallypoint) as s:
            seen = s.submit("select 1/0")
            assert isinstance(await face.error(seen), TaskFailed)
            unseen = await s.map("select 1/$1::int", [0, 1, 0])
            with pytest.raises(TasksFailed):
                await s.synchronize()
            late = s.submit("select 1/0 as late")
    assert raised.value.failures == (late,)
    assert raised.value.count == 1
    assert "division by zero" in str(raised.value)
    assert unseen[0] not in raised.value.failures


async def test_an_exception_cancels_what_is_left(
    face: Face, rallypoint: Client, database: Database, table: str
) -> None:
    futures = []
    with pytest.raises(ZeroDivisionError):
        async with face.scheduler(rallypoint, max_parallelism=1) as s:
            futures.append(s.submit("select pg_sleep(60)"))
            futures += await s.map("insert into seen values ($1)", range(50))
            _ = 1 / 0
    assert all(future.cancelled() for future in futures)
    assert isinstance(await face.error(futures[0]), concurrent.futures.CancelledError)
    assert database.execute("select count(*) from seen").fetchone() == (0,)
    with pytest.raises(RallypointError, match="takes no more tasks"):
        s.submit("select 1")


async def test_a_scheduler_can_be_left_open(face: Face, rallypoint: Client) -> None:
    name = f"shared-{uuid.uuid4()}"
    async with face.scheduler(rallypoint, name=name, reuse=True) as s:
        first = s.submit(noop())
    assert first.done()
    async with face.scheduler(rallypoint, name=name, reuse=True) as again:
        assert again.handle == s.handle
        second = again.submit(noop())
    assert second.seq == 2
    with pytest.raises(CallError) as taken:
        async with face.scheduler(rallypoint, name=name):
            pass
    assert taken.value.reason == "NAME_TAKEN"
    async with face.scheduler(rallypoint, handle=s.handle, on_exit="leave") as third:
        goes_on = third.submit("select pg_sleep(0.5)")
    assert goes_on.seq == 3
    assert "goes on" in str(await face.error(goes_on))
    async with face.scheduler(rallypoint, handle=s.handle, on_exit="cancel") as last:
        assert (await last.describe()).submitted == 3
    with pytest.raises(CallError) as released:
        async with face.scheduler(rallypoint, handle=s.handle) as over:
            await face.result(over.submit(noop()))
    assert released.value.reason == "HANDLE_RELEASED"


async def test_settings_that_the_open_scheduler_has_not_are_refused(
    face: Face, rallypoint: Client
) -> None:
    def named(**settings: Any) -> Any:
        return face.scheduler(rallypoint, name=name, reuse=True, **settings)

    name = f"shared-{uuid.uuid4()}"
    async with named(on_failure=None):
        pass
    s = named(on_failure="halt", max_parallelism=1, weight=1)
    with pytest.raises(RallypointError) as refused:
        await s.open()
    assert str(refused.value).splitlines() == [
        f"scheduler {name} is open with on_failure='continue', max_parallelism=None, "
        "not with on_failure='halt', max_parallelism=1",
        "  Give what it has, leave these out and call update(on_failure='halt', "
        "max_parallelism=1), or use another name.",
    ]
    async with named() as shared_one:
        await shared_one.update(on_failure="halt", max_parallelism=1)
    await s.open()
    await s.close()
    async with named(on_exit="drain", on_failure="halt") as last:
        assert (await last.describe()).settings.max_parallelism == 1


def test_settings_that_the_open_scheduler_has_are_no_others(rallypoint: Client) -> None:
    options: Options = {"timeout": 60, "retries": 2, "resources": [shared("b"), "a"], "role": ""}
    settings: Settings = {
        "display_name": "night",
        "max_parallelism": 3,
        "weight": 0.1,
        "on_failure": "cancel_rest",
        "late_order": "join",
        "default_options": {**options, "read_only": True, "search_path": ["a"], "labels": {}},
        "idle_timeout": datetime.timedelta(seconds=3600.5),
        "on_abandon": "cancel",
        "labels": {"team": "etl"},
        "session_reset": "scheduler",
    }
    name = f"shared-{uuid.uuid4()}"
    with Scheduler(rallypoint, name=name, **settings):
        with Scheduler(rallypoint, name=name, reuse=True, **settings):
            pass
        others: dict[str, Any] = {"idle_timeout": 60, "labels": {}, "default_options": {}}
        for setting, value in others.items():
            with pytest.raises(RallypointError, match=f"is open with {setting}=") as refused:
                Scheduler(rallypoint, name=name, reuse=True, **{setting: value}).open()
            assert f"update({setting}={value})" in str(refused.value)


async def test_tasks_of_others_in_a_shared_scheduler_are_left_alone(
    face: Face, rallypoint: Client
) -> None:
    async with face.scheduler(rallypoint) as s:
        theirs = s.submit("select pg_sleep(1)")
        s.submit(noop())
        await s.synchronize(timeout=30)
        with pytest.raises(ZeroDivisionError):
            async with face.scheduler(rallypoint, handle=s.handle) as mine:
                stopped = mine.submit("select pg_sleep(60)")
                _ = 1 / 0
        assert stopped.cancelled()
        again = s.submit(noop())
    assert not theirs.cancelled()
    assert (await face.result(again)).seq == 4


async def test_a_block_drains_what_others_have_submitted(face: Face, rallypoint: Client) -> None:
    async with face.scheduler(rallypoint, on_exit="leave") as s:
        s.submit("select pg_sleep(0.5)")
    async with face.scheduler(rallypoint, handle=s.handle, on_exit="drain"):
        pass
    async with face.scheduler(rallypoint, handle=s.handle, on_exit="leave") as over:
        assert (await over.describe()).done == 1


async def test_a_future_cancels_its_task(face: Face, rallypoint: Client) -> None:
    async with face.scheduler(rallypoint, max_parallelism=1) as s:
        running = s.submit("select pg_sleep(60)")
        waiting = s.submit(noop())
        assert waiting.cancel()
        assert isinstance(await face.error(waiting), TaskCancelled)
        assert running.cancel()
        assert running.cancel()
        error = await face.error(running)
        done = s.submit(noop())
        await face.result(done)
    assert (error.code, running.cancelled(), waiting.cancelled()) == ("CANCELLED", True, True)
    assert not done.cancel()
    assert not done.cancelled()


async def test_a_halt_is_told_and_lifted_by_a_retry(face: Face, rallypoint: Client) -> None:
    async with face.scheduler(rallypoint, on_failure="halt") as s:
        bad = s.submit("select 1/0", order=1)
        blocked = s.submit("select 1", order=2)
        with pytest.raises(SchedulerHalted) as halted:
            await s.synchronize()
        assert (halted.value.blocked, halted.value.failed) == (1, (1,))
        again = await s.retry(bad, sql("select 1/1"))
        await face.result(again)
        await face.result(blocked)
        assert again.seq == 3
        assert (await s.retry(bad, sql("select 1/1"))).seq == 3
        worse = s.submit("select 1/0", order=3)
        end = s.submit("select 1", order=4)
        await face.error(worse)
        await s.resume(ignore_failures=True)
        await s.synchronize()
        assert end.done()
    assert isinstance(await face.error(bad), TaskFailed)


async def test_a_failure_cancels_the_rest(face: Face, rallypoint: Client) -> None:
    with pytest.raises(TasksFailed) as raised:
        async with face.scheduler(rallypoint, on_failure="cancel_rest") as s:
            await s.pause()
            s.submit("select 1/0", order=1)
            rest = await s.map(noop(), range(3), order=2)
            while (await s.describe()).submitted < 4:
                await asyncio.sleep(0.01)
            await s.resume()
    assert raised.value.count == 1
    assert [future.cancelled() for future in rest] == [True] * 3


async def test_one_wrong_task_does_not_take_others_with_it(face: Face, rallypoint: Client) -> None:
    async with face.scheduler(rallypoint) as s:
        blocker = s.submit("select pg_sleep(60)", order=5)
        while (await s.describe()).current_order != 5:
            await asyncio.sleep(0.01)
        good = await s.map(noop(), range(100))
        wrong = s.submit(sql("select 1", target="nowhere"))
        late = s.submit(noop(), order=1)
        more = await s.map(noop(), range(100))
        refused = await face.error(wrong)
        assert isinstance(refused, CallError)
        assert (refused.reason, refused.is_unknown) == ("TARGET_UNKNOWN", False)
        assert refused.violations[0][0].startswith("task.")
        text = "task.sql.target: no such target on this server, which has: app"
        assert str(refused).splitlines()[0] == f"INVALID_ARGUMENT TARGET_UNKNOWN: {text}"
        assert "rallypoint serve --target NAME=URL" in str(refused)
        too_late = await face.error(late)
        assert too_late.reason == "ORDER_CLOSED"
        assert too_late.metadata["current_order"] == "5"
        for future in good + more:
            await face.result(future)
        blocker.cancel()
    assert all(future.exception() is None for future in good + more)


async def test_a_retry_has_the_parameters_of_its_task_or_its_own(
    face: Face, rallypoint: Client
) -> None:
    async with face.scheduler(rallypoint, default_options={"rows": 1}) as s:
        for other, expected in [
            ("select $1 + 1", "6"),
            (sql("select 7"), "7"),
            (sql("select $1", 8), "8"),
        ]:
            wrong = s.submit(sql("select $1 / 0", 5))
            await face.error(wrong)
            again = await face.result(await s.retry(wrong, other))
            assert [str(value) for value in again.rows[0].values()] == [expected]


async def test_limits_and_retries_of_a_task(face: Face, rallypoint: Client) -> None:
    async with face.scheduler(rallypoint, default_options={"timeout": 0.2, "rows": 1}) as s:
        slow = s.submit("select pg_sleep(60)")
        own = s.submit(sql("select 7 as n", timeout=30))
        tried = s.submit(sql("select 1/0", retry=Retry(max_attempts=3, initial_backoff=0.01)))
        once_more = s.submit(sql("select 1/0", retries=1))
        only = s.submit(sql("create table nope ()", read_only=True))
        assert isinstance(await face.error(slow), TaskTimedOut)
        assert (await face.error(slow)).code == "TIMEOUT"
        assert (await face.error(slow)).sqlstate is None
        assert (await face.result(own)).rows == [{"n": 7}]
        assert (await face.error(tried)).attempt == 3
        assert (await face.error(once_more)).attempt == 2
        assert (await face.error(only)).sqlstate == "25006"


async def test_a_task_holds_resources(face: Face, rallypoint: Client) -> None:
    rallypoint.create_resource("pool", capacity=2)
    spec = sql(
        "select current_setting('rallypoint.token') as t", rows=1, resources=[shared("pool")]
    )
    async with face.scheduler(rallypoint) as s:
        assert int((await face.result(s.submit(spec))).rows[0]["t"]) > 0


async def test_settings_can_be_changed(face: Face, rallypoint: Client) -> None:
    async with face.scheduler(rallypoint, labels={"team": "a"}, weight=2) as s:
        await s.pause()
        waits = s.submit(noop())
        await s.update(max_parallelism=3, labels={"team": "b"})
        described = await s.describe()
        assert described.paused
        assert described.settings.max_parallelism == 3
        assert dict(described.settings.labels) == {"team": "b"}
        with pytest.raises(TimeoutError, match="1 task has not ended within 0.2 s"):
            await s.synchronize(timeout=0.2)
        assert not waits.done()
        await s.resume()
    assert waits.done()
