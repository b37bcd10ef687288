"""How long `import rallypoint` takes, beside `import grpc, google.protobuf`, which it needs.

python benches/imports.py [RUNS]

The figures are CPU time within a process of its own for each import. Byte code is kept, as it is
of an installed package.
"""

import json
import os
import statistics
import subprocess
import sys

RUNS = int(sys.argv[1]) if len(sys.argv) > 1 else 15
CASES = {"grpc_protobuf_ms": "grpc, google.protobuf", "rallypoint_ms": "rallypoint"}
ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


def import_ms(modules: str) -> float:
    """CPU milliseconds."""
    code = f"import time; t = time.process_time(); import {modules}; print(time.process_time() - t)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, check=True, env=ENVIRONMENT, capture_output=True, text=True)
    return float(done.stdout) * 1000


for modules in CASES.values():  # writes the byte code
    import_ms(modules)
# Taken in turn, so that what else the machine does falls on both.
taken: dict[str, list[float]] = {name: [] for name in CASES}
for _ in range(RUNS):
    for name, modules in CASES.items():
        taken[name].append(import_ms(modules))
median = {name: round(statistics.median(times), 1) for name, times in taken.items()}
ratio = round(median["rallypoint_ms"] / median["grpc_protobuf_ms"], 3)
print(json.dumps({**median, "ratio": ratio}))
