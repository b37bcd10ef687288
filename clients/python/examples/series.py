"""Ten tasks in five orders: those of one order together, the next when all of them are done.

python series.py [SCALE]      (0.1: a tenth of the time)
"""

import sys

from rallypoint import Scheduler

SCALE = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
SERIES = {100: [10.1] * 4, 200: [9.2] * 2, 300: [8.3], 400: [7.4] * 2, 500: [6.5]}

with Scheduler() as s, s.show_progress():
    for order, seconds in SERIES.items():
        s.map("select pg_sleep($1)", [SCALE * each for each in seconds], order=order)
    s.synchronize()
