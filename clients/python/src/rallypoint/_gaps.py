"""Orders of which tasks were refused: a later order must not run without them unnoticed."""

from typing import NamedTuple

from rallypoint.errors import CallError


class Gap(NamedTuple):
    """Tasks that were refused though nothing was wrong with themselves."""

    #: The lowest of their orders.
    order: int
    #: That of what is not sent because of them.
    error: CallError
    #: In which round of the ledger they were refused.
    round: int
