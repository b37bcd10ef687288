"""Which failures are raised at the end of a block."""

import pytest

from pytest_rallypoint import RallypointServer
from rallypoint import Client, Scheduler, TaskCancelled, TasksFailed, noop


@pytest.mark.parametrize("seen", [slice(100), slice(1, None)])
def test_all_that_nobody_has_seen_are_counted(rallypoint: Client, seen: slice) -> None:
    with pytest.raises(TasksFailed) as raised, Scheduler(rallypoint) as s:
        futures = s.map("select 1/$1::int", [0] * 300)
        errors = [future.exception(30) for future in futures[seen]]
    assert raised.value.count == 300 - len(errors)
    assert len(raised.value.failures) == min(raised.value.count, 100)
    assert set(raised.value.failures).isdisjoint(futures[seen])


def test_what_an_operator_cancels_is_told(
    rallypoint: Client, rallypoint_server: RallypointServer
) -> None:
    with pytest.raises(TasksFailed) as raised, Scheduler(rallypoint) as s:
        s.pause()
        future = s.submit(noop())
        while not future.seq:
            pass
        rallypoint_server.run("release", "--cancel", "--yes", s.handle)
    assert raised.value.count == 1
    assert isinstance(future.exception(), TaskCancelled)
