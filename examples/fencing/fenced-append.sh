#!/bin/sh
# A resource that checks fencing tokens: appends one line to FILE, unless a holder with a larger
# token has written before. Usage, inside `lockd exec OBJECT -- sh -c '…'`:
#   fenced-append.sh FILE LINE        (the token comes from LOCKD_TOKEN)
# Exit code: 0 written, 9 refused because the token is old, 64 wrong usage.
set -eu
if [ $# -ne 2 ] || [ -z "${LOCKD_TOKEN:-}" ]; then
  echo "usage: LOCKD_TOKEN=N $0 FILE LINE" >&2
  exit 64
fi
file=$1
line=$2

# The check and the write are one step: flock keeps other writers of this machine out meanwhile.
exec 9>>"$file.fence"
flock 9
highest=$(tail -n 1 "$file.fence")
if [ "$LOCKD_TOKEN" -lt "${highest:-0}" ]; then
  echo "refused: token $LOCKD_TOKEN is older than $highest" >&2
  exit 9
fi
printf '%s\n' "$LOCKD_TOKEN" >&9
printf '%s\n' "$line" >>"$file"
