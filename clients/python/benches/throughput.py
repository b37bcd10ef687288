"""How many no-ops a second one process submits with `map` and sees the end of.

python benches/throughput.py SERVER [TASKS] [RUNS]

Beside the figure stands the CPU time of this process for each task: its inverse is what this
process could do at most on one core, whatever the server does.
"""

import json
import statistics
import sys
import time

from rallypoint import Client, Scheduler, noop

SERVER = sys.argv[1]
TASKS = int(sys.argv[2]) if len(sys.argv) > 2 else 100_000
RUNS = int(sys.argv[3]) if len(sys.argv) > 3 else 3


def run(client: Client) -> tuple[float, float]:
    """Tasks per second, and CPU microseconds for each."""
    with Scheduler(client) as s:
        begun, cpu = time.perf_counter(), time.process_time()
        futures = s.map(noop(), range(TASKS))
        s.synchronize()
        took, cpu = time.perf_counter() - begun, time.process_time() - cpu
        assert all(future.done() and future.exception() is None for future in futures)
    return TASKS / took, cpu / TASKS * 1e6


with Client(SERVER) as client:
    runs = [run(client) for _ in range(RUNS)]
print(
    json.dumps(
        {
            "tasks": TASKS,
            "tasks_per_s": round(statistics.median(rate for rate, _ in runs)),
            "client_cpu_us_per_task": round(statistics.median(cpu for _, cpu in runs), 1),
        }
    )
)
