#!/bin/sh
# A has the lock and is suspended; its lease runs out, B gets the lock and writes; A goes on and writes.
#
#     sh pause.sh guarded.sql
set -eu
write=${1:?"name a file with the statement that writes, such as guarded.sql"}
test -r "$write" || { echo "$write cannot be read" >&2; exit 1; }
folder=$(mktemp -d)

rallypoint lock run orders --owner A --lease 3s -- sh -c '
    echo "A holds orders with token $RALLYPOINT_TOKEN"
    echo $$ > "$2/begun"
    until test -e "$2/go"; do sleep 0.1; done
    sh write.sh A "$1"
    touch "$2/ended"' sh "$write" "$folder" 2>/dev/null &
lock=$!
trap 'kill -s CONT "$lock" 2>/dev/null || true; rm -r "$folder"' EXIT
until test -s "$folder/begun"; do sleep 0.1; done
group=$(cat "$folder/begun")

# As a virtual machine that is moved, or one that swaps: all of A stands still, and cannot know it.
kill -s STOP -- "$lock" "-$group"
echo "A is suspended"
rallypoint lock run orders --owner B -- sh -c '
    echo "B holds orders with token $RALLYPOINT_TOKEN"
    sh write.sh B "$1"' sh "$write" 2>/dev/null

# Nothing says which of the two goes on first. Here it is the command, which does not ask anybody.
touch "$folder/go"
echo "A goes on"
kill -s CONT -- "-$group"
until test -e "$folder/ended"; do sleep 0.1; done
kill -s CONT "$lock"
wait "$lock" || true
