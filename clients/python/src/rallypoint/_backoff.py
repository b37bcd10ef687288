"""When to call again: after doubling delays, no sooner than the server asks, until a deadline."""

import asyncio
import logging
import os
from collections.abc import Callable

from rallypoint.errors import CallError

log = logging.getLogger("rallypoint")

# After so long people want to know what it waits for.
_SILENCE = 2.0
_INITIAL_DELAY = 0.05
_MAX_DELAY = 2.0
# While the shard changes owners, which is quick.
_MAX_OWNER_DELAY = 0.4


class Backoff:
    """The delays between the attempts of one call."""

    def __init__(self, timeout: float, busy_timeout: Callable[[], float] = lambda: 0.0) -> None:
        """`busy_timeout`: for how long it goes on, if that is longer, while the service answers
        that it has no room.
        """
        self._timeout, self._busy_timeout = timeout, busy_timeout
        # Since when nobody has answered, and since when there is no room.
        self._silent_since: float | None = None
        self._busy_since: float | None = None
        self._is_said = False
        self._delay = _INITIAL_DELAY
        self._mix_up: CallError | None = None

    async def wait(self, error: CallError, *, at_once: bool = False) -> None:
        """Waits before the next attempt. Raises the error when it is final, or it is too late.

        `at_once`: another server may answer, so only the jitter is waited for.
        """
        error = self._most_telling(error)
        if error.reason in ("NOT_OWNER", "OWNER_CHANGED"):
            self._delay = min(self._delay, _MAX_OWNER_DELAY)
        asked = 0.0 if at_once else error.retry_after or 0.0
        # Half to all of it, so that many clients do not call together.
        wait = asked + self._delay * (0.5 + os.urandom(1)[0] / 510)
        now = asyncio.get_running_loop().time()
        since, timeout = self._counted(error, now)
        if not (error.is_retryable or at_once) or now + wait > since + timeout:
            raise error
        if not self._is_said and now + wait > since + _SILENCE:
            self._is_said = True
            missing = "answer" if self._busy_since is None else "room"
            log.warning("no %s yet; calling for %g s in all: %s", missing, timeout, error)
        self._delay = min(self._delay * 2, _MAX_DELAY)
        await asyncio.sleep(wait)

    def _counted(self, error: CallError, now: float) -> tuple[float, float]:
        """Since when errors of this kind count, and for how long it goes on after them."""
        if error.code == "RESOURCE_EXHAUSTED" and error.retry_after is not None:
            self._silent_since = None
            if self._busy_since is None:
                self._busy_since = now
            return self._busy_since, max(self._timeout, self._busy_timeout())
        if self._silent_since is None:
            self._silent_since = now
        return self._silent_since, self._timeout

    def _most_telling(self, error: CallError) -> CallError:
        """A mix-up of TLS, if one was found, before what was found last.

        A host may have several addresses, as `localhost` has, and gRPC says only what was wrong
        with the one that it tried last.
        """
        if error._is_tls_mix_up():
            self._mix_up = error
        elif self._mix_up is not None and error.reason is None and error.code == "UNAVAILABLE":
            return self._mix_up
        return error
