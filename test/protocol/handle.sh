#!/usr/bin/env bash
# A handler of examples/psql/worker.sh: what it writes commits with the completion, or not at all.
read -r payload
(( RANDOM % 10 )) || { echo 'no luck' >&2; exit 1; }
psql "$DATABASE_URL" -qAtX -v ON_ERROR_STOP=1 -v job="$JOB" -v key="$KEY" -v payload="$payload" \
  -v worker="$WORKER" -v generation="$GENERATION" <<'SQL' || exit 1
BEGIN;
INSERT INTO public.effects (job, key, n, worker)
VALUES (:'job', :'key', (:'payload'::jsonb ->> 'n')::integer, :'worker');
SELECT holdfast.worker_complete(:'worker', :'job', :generation) = 'completed' AS mine \gset
\if :mine
COMMIT;
\else
ROLLBACK;
\endif
SQL
exit 42
