#!/bin/sh
# A night of an ETL: three resources, each with its own limit, and as many participants as want to run.
set -eu

rallypoint resource create extract --capacity 3 >/dev/null       # three sources may be read at a time
rallypoint resource create load --capacity 2 >/dev/null          # two loads into the warehouse
rallypoint resource create customer-list --capacity 4 >/dev/null # four readers of a list, or one writer

# participant RESOURCE HOW [OPTION]: the work is half a second, and its times are noted.
participant() {
    rallypoint lock run "$1" ${3-} -- psql -X -q -v ON_ERROR_STOP=1 -v resource="$1" -v how="$2" -f participant.sql 2>/dev/null &
}

for _ in 1 2 3 4 5 6; do participant extract user --permits=1; done
for _ in 1 2 3 4; do participant load user --permits=1; done
for _ in 1 2 3; do participant customer-list reader --shared; done
participant customer-list writer
for _ in 1 2 3; do participant customer-list reader --shared; done
wait
