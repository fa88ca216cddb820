#!/usr/bin/env bash
# A worker for Holdfast with nothing but psql: a loop of four calls, and a second loop that keeps what it holds.
#
# Run it: DATABASE_URL=postgres://... examples/psql/worker.sh send_receipt ./handle.sh
#
# The handler is a program. It gets the payload on its standard input, and JOB, GENERATION, WORKER, TYPE and KEY in its
# environment. What it prints must be JSON, and is kept as the result. If it fails, the end of its error output is the
# reason, and the job is tried again later. One that has completed the job itself (worker_complete in a transaction of its
# own) says so with the exit code 42.
set -uo pipefail

type=${1:?the type of the jobs} handler=${2:?the program that handles them}
queue=${QUEUE:-inbox} lease=${LEASE:-90 seconds} ttl=${TTL:-30 seconds} beat=${BEAT:-10}
sql() { psql "$DATABASE_URL" -qAtX -v ON_ERROR_STOP=1 "$@"; }

errors=$(mktemp)
keeper=
register() {
  worker=$(sql -v type="$type" -v queue="$queue" -v ttl="$ttl" <<<"SELECT holdfast.worker_register(
    ARRAY[:'type'], ARRAY[:'queue'], name => 'psql', ttl => :'ttl')") || return
  [ -z "$keeper" ] || kill "$keeper" 2>/dev/null
  keep &
  keeper=$!
}

# Says that this worker lives, and renews what it holds: job and generation stand in a file while one runs.
held=$(mktemp)
keep() {
  while sleep "$beat"; do
    kill -0 $$ 2>/dev/null || exit
    read -r job generation < "$held" || job=
    sql -v worker="$worker" -v job="$job" -v generation="$generation" -v lease="$lease" >/dev/null 2>&1 <<'SQL'
SELECT holdfast.worker_heartbeat(:'worker');
SELECT holdfast.worker_renew(:'worker', ARRAY[:'job']::uuid[], ARRAY[:'generation']::bigint[], :'lease') WHERE :'job' <> '';
SQL
  done
}

# $1: the call. What it says comes in $said.
settle() {
  sql -v worker="$worker" -v job="$job" -v generation="$generation" -v said="$said" \
    <<<"SELECT holdfast.$1(:'worker', :'job', :generation, nullif(:'said', '')$2)" || echo 'not settled'
}

trap 'stopping=1' TERM INT
trap '[ -z "$keeper" ] || kill "$keeper" 2>/dev/null; rm -f "$held" "$errors"' EXIT
until register; do sleep 1; done
stopping=
while [ -z "$stopping" ]; do
  row=$(sql -F $'\t' -v worker="$worker" -v queue="$queue" -v lease="$lease" 2>"$errors" <<<"
    SELECT id, generation, partition_key, payload FROM holdfast.worker_claim(:'worker', :'queue', 1, :'lease')")
  case $? in
    0) ;;
    # Declared dead (HF008), or the database is away. A dead id never lives again.
    *) sleep 1; grep -q 'is dead or was never registered' "$errors" && register; continue ;;
  esac
  if [ -z "$row" ]; then sleep "${POLL:-1}"; continue; fi
  IFS=$'\t' read -r job generation key payload <<<"$row"
  echo "$job $generation" > "$held"
  said=$(JOB=$job GENERATION=$generation WORKER=$worker TYPE=$type KEY=$key "$handler" <<<"$payload" 2>"$errors")
  case $? in
    0) state=$(settle worker_complete '::jsonb') ;;
    42) state='settled by its handler' ;;
    *) said=$(tail -c 4000 "$errors"); state=$(settle worker_fail '') ;;
  esac
  : > "$held"
  echo "$job: $state"
done
sql -v worker="$worker" >/dev/null <<<"SELECT holdfast.worker_leave(:'worker')"
