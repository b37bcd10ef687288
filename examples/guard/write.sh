#!/bin/sh
# Runs a file in one transaction, with the token of the hold.
#
#     sh write.sh WHO FILE.sql
psql -X -q -o /dev/null -v ON_ERROR_STOP=1 -v token="$RALLYPOINT_TOKEN" -v who="$1" --single-transaction -f "$2" 2>&1 &&
    echo "$1 has written"
true
