// Planted bugs: each is a textual change of the compiled product, with the faults that bring it to light and the part
// of the checker that must notice. A text that is not found ends the whole thing: a mutant that changes nothing
// would prove nothing.

/**
 * @typedef {object} Mutant
 * @property {string} name
 * @property {Record<string, [from: string, to: string][]>} patches by file of packages/holdfast/build
 * @property {string} profile
 * @property {string[]} [faults] of the profile; all by default
 * @property {RegExp} caughtBy a violation that must be among those found
 * @property {object} [producer] what its producers do more often
 * @property {number} [everyMs] from fault to fault
 * @property {number} [seconds] of faults
 * @property {number} [workers]
 * @property {number} [rate] of jobs a second
 * @property {number} [drainMs] what is left after so long counts as stuck; without it, what has not moved for a while
 * @property {boolean} [keepsCrashing] jobs that take their process along do so after the healing, too
 */

/** As the statements of the compiled product write it, and as it is with less in it. */
const fenceOf = (row) => `\${fenced('${row}.id', '${row}.generation')}`;
const ALL_FENCED = `\${ALL_FENCED}`;
const THEIR_IDS = 'i.id = ANY ($2::uuid[]) AND $3::bigint[] IS NOT NULL';
const THEIR_GENERATIONS = `i.id = ANY ($2::uuid[]) AND ((i.id, i.lease_generation) IN (
    SELECT f.id, f.generation FROM unnest($2::uuid[], $3::bigint[]) AS f(id, generation))) IS TRUE`;
const KEPT = `\${KEPT_AND_ALLOWED}`;
const ANYBODY = '$1::text IS NOT NULL';
const LIVE = `i.status = 'processing' AND i.lease_expires_at > statement_timestamp()`;
/** Handlers that are still at work when a frozen one wakes up. */
const SLOW_PAY = { payMs: 5_000, weights: { pay: 80 } };
/** One frozen worker at a time, or nobody is left to take over. */
const FREEZES = {
  profile: 'worker',
  faults: ['freeze'],
  everyMs: 4_500,
  seconds: 24,
  workers: 4,
  producer: SLOW_PAY,
};
/** Stops only, so that jobs of old workers are there when the new ones begin. */
const UPGRADE = { profile: 'upgrade', faults: ['stop'], everyMs: 9_000, seconds: 24, workers: 4 };
/** Most of what is enqueued are runs. */
const FLOWS = {
  profile: 'workflow',
  faults: ['terminate-backends', 'kill'],
  producer: { weights: { checkout: 120 } },
  rate: 10,
  // Runs wait for signals and parcels: most end after the load.
  drainMs: 20_000,
};
/** Each publication goes to the sink, to the read model and to endpoints; all of it ends, but for the bug. */
const SHAPES = { profile: 'shapes', seconds: 16, drainMs: 25_000, rate: 60 };
const KILLS = { profile: 'worker', faults: ['kill', 'kill-most'] };

/** @type {Mutant[]} */
export const MUTANTS = [
  {
    name: 'completion without owner and generation',
    patches: {
      'settle/complete.js': [
        [fenceOf('done'), `i.id = done.id AND ${ANYBODY} AND ${LIVE}`],
        [ALL_FENCED, `${THEIR_IDS} AND ${ANYBODY} AND ${LIVE}`],
      ],
    },
    ...FREEZES,
    caughtBy: /^ownership: .* gone, .* by a session of somebody else/,
  },
  {
    name: 'completion without owner: a failover issues generations twice',
    patches: {
      'settle/complete.js': [
        [
          fenceOf('done'),
          `i.id = done.id AND i.lease_generation = done.generation AND ${ANYBODY} AND ${LIVE}`,
        ],
        [ALL_FENCED, `${THEIR_GENERATIONS} AND ${ANYBODY} AND ${LIVE}`],
      ],
    },
    profile: 'failover-async',
    faults: ['failover-of-a-lagging-standby'],
    everyMs: 7_000,
    seconds: 40,
    producer: { weights: { long: 60 } },
    caughtBy: /^ownership: .* gone, .* by a session of somebody else/,
  },
  {
    name: 'lease not checked in the statement that completes',
    patches: {
      'settle/complete.js': [
        [
          fenceOf('done'),
          `i.id = done.id AND i.lease_generation = done.generation AND i.claimed_by = $1::text
    AND i.status = 'processing'`,
        ],
        [
          ALL_FENCED,
          `${THEIR_GENERATIONS} AND i.claimed_by = $1::text AND i.status = 'processing'`,
        ],
      ],
    },
    ...FREEZES,
    faults: ['freeze-everybody'],
    caughtBy: /^ownership: .* after its lease was over/,
  },
  {
    name: 'failure without owner and generation',
    patches: {
      'settle/fail.js': [[ALL_FENCED, `${THEIR_IDS} AND ${ANYBODY}`]],
      // It also asks before it settles: without that, only the statement stands in the way.
      'worker/settle/settlements.js': [["=== 'unknown' && !abandoned.aborted", "=== 'never'"]],
    },
    ...FREEZES,
    producer: { flakyMs: 5_000, weights: { flaky: 20 } },
    caughtBy: /^ownership: .* (pending|dead_letter), .* by a session of somebody else/,
  },
  {
    name: 'claim ignores live leases',
    patches: {
      'postgres/taken.js': [
        ["(i.status = 'processing' AND i.lease_expires_at <= now())", "(i.status = 'processing')"],
      ],
    },
    ...KILLS,
    caughtBy: /^ownership: .* under the live lease/,
  },
  {
    name: 'generation not raised after a failure',
    patches: {
      'postgres/taken.js': [
        [
          'lease_generation = i.lease_generation + 1',
          'lease_generation = greatest(1, i.lease_generation)',
        ],
      ],
    },
    ...KILLS,
    caughtBy: /^ownership: generation \d+ of job .* again/,
  },
  {
    name: 'ring treated as a lock: keys are claimed without row locks',
    patches: {
      'claim/key/walk.js': [
        ['WHERE i.ctid = p.place FOR UPDATE SKIP LOCKED', 'WHERE i.ctid = p.place'],
      ],
      // A row that somebody has changed meanwhile is at another place: without that, only the lock stands in the way.
      'claim/key/claim.js': [
        [
          `WHERE i.ctid = ANY (ARRAY(${KEPT}))`,
          `WHERE i.id = ANY (ARRAY(SELECT o.id FROM holdfast.inbox AS o WHERE o.ctid = ANY (ARRAY(${KEPT}))))`,
        ],
      ],
    },
    profile: 'network',
    faults: ['delay', 'lost-notifications', 'reset-everybody'],
    producer: { weights: { step: 200, guarded: 100 }, keys: 3 },
    caughtBy: /^(order|ownership): /,
  },
  {
    name: 'cursor never rewound',
    patches: {
      'claim/time/lines.js': [
        ['this.#set(line, FRONT, true);', 'this.#set(line, null, true);'],
        ['...(isBefore(back, line) ? back : {}), wanted: true', 'wanted: true'],
      ],
    },
    profile: 'network',
    faults: ['slow-commits'],
    caughtBy: /^(bystanders: .* stuck|acceptance: .* after the drain)/,
  },
  {
    name: 'acknowledged before commit',
    patches: {
      'postgres/connect/pool.js': [
        ["await client.query('COMMIT');", "client.query('COMMIT').catch(() => {});"],
      ],
    },
    profile: 'network',
    faults: ['cut-request-of-commit', 'reset', 'reset-everybody'],
    caughtBy: /^acceptance: .* (is lost|not there together)|^effects: /,
  },
  {
    name: 'recovery without re-check of the owner',
    patches: {
      'maintenance/recover.js': [
        ['i.id = h.id AND i.claimed_by = h.worker_id AND', 'i.id = h.id AND'],
      ],
    },
    ...KILLS,
    producer: SLOW_PAY,
    caughtBy: /^ownership: .* recovered from/,
  },
  {
    name: 'recovery of the living',
    patches: {
      'maintenance/recover.js': [
        [
          "i.status = 'processing'\n      AND (i.lease_expires_at <= now() OR h.dead)",
          "i.status = 'processing'",
        ],
      ],
    },
    ...KILLS,
    caughtBy: /^ownership: .* recovered from/,
  },
  {
    name: 'recovery never happens',
    patches: {
      'maintenance/recover.js': [['(i.lease_expires_at <= now() OR h.dead)', 'false']],
      'postgres/taken.js': [
        ["(i.status = 'processing' AND i.lease_expires_at <= now())", '(false)'],
      ],
      'claim/key/walk.js': [[`\${runs('i')} THEN 0`, "i.status = 'processing' THEN 0"]],
    },
    ...KILLS,
    caughtBy: /^bystanders: .* stuck/,
  },
  {
    name: 'leases are never renewed',
    patches: {
      'lease/renew.js': [
        [
          'SET lease_expires_at = now() + $4::integer',
          'SET lease_expires_at = lease_expires_at + 0 * $4::integer',
        ],
      ],
    },
    ...KILLS,
    producer: { longMs: 9_500, weights: { long: 8 } },
    caughtBy: /^bystanders: .* (is stuck|became a dead letter)/,
  },
  {
    name: 'order guard ignores retries',
    patches: {
      'claim/key/walk.js': [
        ['WHERE NOT i.parked\n', 'WHERE NOT i.parked AND i.available_at <= now()\n'],
      ],
    },
    ...KILLS,
    producer: { weights: { step: 100, guarded: 60 }, keys: 3 },
    caughtBy: /^order: /,
  },
  {
    name: 'jobs of a key start together',
    patches: {
      'worker/run/runs.js': [
        ['!(await this.#runOne(held, before))', '(void this.#runOne(held, before), false)'],
      ],
    },
    ...KILLS,
    producer: { weights: { step: 100, guarded: 60 }, keys: 3 },
    caughtBy: /^order: /,
  },
  {
    name: 'marker written before the effect',
    patches: {
      'effects/run-once.js': [
        [
          'const value = await effect();',
          `await recordEffect(db, names, owner, name, '{}');
    const value = await effect();`,
        ],
      ],
    },
    ...KILLS,
    producer: { mailMs: 800, weights: { mail: 120 } },
    caughtBy: /^effects: .* never happened/,
  },
  {
    name: 'batch settle that trusts its row count',
    patches: {
      'settle/complete.js': [['rows[0]?.moved === jobs.length', 'rows[0] !== undefined']],
    },
    ...FREEZES,
    caughtBy: /^ownership: .* (reported job|completed generation) /,
  },
  {
    name: 'suspects that block the fleet',
    patches: {
      'claim/time/claim.js': [
        [
          "q.ordering = 'none'",
          "q.ordering = 'none' AND NOT EXISTS (SELECT FROM holdfast.inbox AS s WHERE s.crashes > 1)",
        ],
      ],
    },
    profile: 'worker',
    faults: ['kill'],
    producer: { crashes: ['exit'], crashShare: 0.05, forever: 0.5 },
    keepsCrashing: true,
    caughtBy: /^bystanders: .* stuck/,
  },
  {
    name: 'idempotency key found and ignored',
    patches: { 'enqueue/insert.js': [['WHERE NOT v.deduplicated', 'WHERE true']] },
    profile: 'network',
    faults: ['cut-answer-of-commit', 'reset'],
    caughtBy: /^acceptance: .* stands for several jobs/,
  },
  {
    name: 'children outside of the transaction',
    patches: {
      'worker/settle/outcome.js': [
        ['writeChildren(db, children', 'writeChildren(executor(ownPool), children'],
      ],
    },
    profile: 'network',
    faults: ['cut-request-of-complete', 'cut-request-of-commit'],
    producer: { weights: { parent: 150 } },
    caughtBy: /^effects: .* children/,
  },
  {
    name: 'bystanders pay for a crash',
    patches: {
      'maintenance/recover.js': [
        ['(i.isolated AND i.started AND i.claimed_by <> $2::text', '(i.claimed_by <> $2::text'],
      ],
    },
    ...KILLS,
    producer: SLOW_PAY,
    caughtBy: /^bystanders: .* paid/,
  },
  {
    name: 'broken connections are not given back',
    patches: {
      'postgres/connect/pool.js': [
        ['client.release(error);', 'if (!error)\n            client.release(error);'],
      ],
    },
    profile: 'network',
    faults: ['reset', 'reset-everybody', 'cut-answer-of-commit', 'cut-request-of-commit'],
    // A pool has ten connections: so many must break in one process.
    everyMs: 500,
    seconds: 24,
    // Handlers whose pool is used up fail again and again, for minutes.
    drainMs: 45_000,
    caughtBy: /^(bystanders: .* stuck|acceptance: .* after the drain)/,
  },
  {
    name: 'renewal without owner and generation',
    patches: {
      'lease/renew.js': [[ALL_FENCED, `${THEIR_IDS} AND ${ANYBODY} AND ${LIVE}`]],
      // It also learns first that it was declared dead: without that, only the statement stands in the way.
      'worker/lease/keeper-work.js': [['[check, renew]', '[renew, check]']],
    },
    ...FREEZES,
    caughtBy: /^ownership: .* renewed, .* by a session of somebody else/,
  },
  {
    name: 'rows locked in no order',
    patches: {
      'schema/functions/enqueue/take-key.sql.js': [
        ['SELECT DISTINCT ON (w.key) w.key', 'SELECT w.key'],
        ['ORDER BY w.key, w.nth', 'ORDER BY random()'],
      ],
    },
    profile: 'network',
    faults: ['delay', 'reset'],
    rate: 300,
    // A business row in the same transaction would let the second of two wait for the first.
    producer: { duels: 1, most: 10, transactions: 0, weights: { pay: 300 } },
    caughtBy: /^liveness: .* deadlock/,
  },
  {
    name: 'completed without having run, now and then',
    patches: {
      'worker/run/one-job.js': [
        [
          'const run = () => runJob(',
          "const run = () => Math.random() < 0.01 ? { kind: 'completed', children: [], result: null } : runJob(",
        ],
      ],
    },
    ...KILLS,
    caughtBy: /^ownership: .* is completed, and its handler never ran/,
  },
  {
    name: 'errors of idle connections are not caught',
    patches: {
      'postgres/connect/pool.js': [
        ["pool.on('error', (error) => {", "pool.on('mishap', (error) => {"],
      ],
    },
    profile: 'database',
    faults: ['terminate-backends'],
    caughtBy: /^liveness: .*(unhandled|by itself)/,
  },
  {
    name: 'limits are declared too large',
    patches: {
      'operate/limits.js': [
        [
          '[act, type, concurrency, ...numbers',
          '[act, type, concurrency && concurrency * 3, ...numbers',
        ],
      ],
    },
    profile: 'limits',
    faults: ['kill', 'stop'],
    producer: { weights: { capped: 200 } },
    caughtBy: /^limits: \d+ jobs of the type capped ran at once/,
  },
  {
    name: 'permits of other workers are not counted',
    patches: {
      'schema/functions/limits/allow.sql.js': [
        [
          "WHERE w.status <> 'dead' AND w.id IS DISTINCT FROM but_for",
          'WHERE w.id IS NOT DISTINCT FROM but_for',
        ],
      ],
    },
    profile: 'limits',
    faults: ['kill', 'stop'],
    producer: { weights: { capped: 200 } },
    caughtBy: /^limits: \d+ jobs of the type capped ran at once/,
  },
  {
    name: 'jobs that workers of the old release hold are not counted',
    patches: {
      'schema/functions/limits/allow.sql.js': [
        [
          "(p.held IS NOT NULL OR of_type IS NULL AND w.handles ? 'inbox' OR w.handles -> 'inbox' ? of_type)",
          'p.held IS NOT NULL',
        ],
      ],
    },
    ...UPGRADE,
    producer: { weights: { capped: 60 }, cappedLong: 0.9, cappedMs: 40_000 },
    caughtBy: /^limits: \d+ jobs of the type capped ran at once/,
  },
  {
    name: 'indexes are dropped under workers of the old release',
    patches: {
      'schema/plan.js': [
        ['oldestWorker >= unlessOlderThan', 'unlessOlderThan <= oldestWorker + 2'],
      ],
    },
    ...UPGRADE,
    caughtBy: /^upgrade: the first migration dropped indexes/,
  },
  {
    name: 'indexes that nobody reads any more are kept',
    patches: { 'schema/plan.js': [['oldestWorker >= unlessOlderThan', 'unlessOlderThan === 0']] },
    ...UPGRADE,
    caughtBy: /^upgrade: nobody needs them/,
  },
  {
    // The registry says dead, so that only what the workers wrote down themselves can tell.
    name: 'living workers are declared dead',
    patches: {
      'fleet/liveness.js': [
        [
          'WHERE pg_try_advisory_xact_lock($2::integer, w.lock_key)',
          'WHERE $2::integer IS NOT NULL',
        ],
        [
          'WHERE pg_try_advisory_xact_lock($2::integer, s.lock_key)',
          'WHERE $2::integer IS NOT NULL AND random() < 0.03',
        ],
      ],
    },
    // Only producers are slow: whoever is declared dead has nothing to blame.
    profile: 'network',
    faults: ['slow-commits'],
    seconds: 24,
    producer: SLOW_PAY,
    caughtBy: /^ownership: .* recovered from .*, which is alive/,
  },
  {
    name: 'a lost wake-up: who brings a signal does not lock the run',
    patches: {
      'schema/functions/workflow/wake-run.sql.js': [['i.id = %L FOR UPDATE', 'i.id = %L']],
      // A slow server: between the look and the end of the transaction.
      'schema/functions/workflow/suspend.sql.js': [
        ["IF state = 'asleep' THEN", "IF state = 'asleep' THEN\n      PERFORM pg_sleep(0.1);"],
      ],
    },
    ...FLOWS,
    drainMs: undefined,
    caughtBy: /^bystanders: job .* \(checkout, .* is stuck/,
  },
  {
    name: 'a double take: a signal that was taken is taken again',
    patches: {
      'schema/functions/workflow/suspend.sql.js': [
        ['f.name = n.name AND f.taken_by IS NULL', 'f.name = n.name'],
      ],
    },
    ...FLOWS,
    caughtBy: /^workflows: run .* heard of the signals 1 and 1/,
  },
  {
    name: 'a marker outside the fence: who has lost a run commits its step',
    patches: {
      'workflow/rows/record.js': [
        [
          `i.lease_generation = $3::text::bigint AND i.claimed_by = $1::text
    AND i.status = 'processing' AND i.lease_expires_at > statement_timestamp()`,
          '$3::text IS NOT NULL AND $1::text IS NOT NULL',
        ],
      ],
      // Nor does it ask what stands.
      'worker/workflow/transact.js': [['if (done.stands)', 'if (done === undefined)']],
    },
    ...FREEZES,
    ...{ profile: 'workflow', rate: 30 },
    producer: { packMs: 5_000, weights: { checkout: 120 } },
    caughtBy: /^workflows: run .* did "pack" \d times/,
  },
  {
    name: 'undo order: what was done first is undone first',
    patches: { 'workflow/turn/undo.js': [['b.ask.nth - a.ask.nth', 'a.ask.nth - b.ask.nth']] },
    ...FLOWS,
    caughtBy: /^workflows: run .* which it had done in the order/,
  },
  {
    name: 'a child counted twice',
    patches: {
      'schema/functions/workflow/wake-run.sql.js': [
        ['SET remaining = s.remaining - %s', 'SET remaining = greatest(0, s.remaining - 2 * %s)'],
      ],
    },
    ...FLOWS,
    caughtBy: /^workflows: run .* parcels, and heard of/,
  },
  {
    name: 'version mix: runs of every version get the newest body',
    patches: {
      'worker/workflow/turn-of.js': [
        ['bodies.get(version)', 'bodies.get(Math.max(...bodies.keys()))'],
      ],
    },
    ...FLOWS,
    caughtBy: /^workflows: run .* of version 1 did .* in version 2/,
  },
  {
    name: 'outbox: another id for each copy',
    patches: { 'shapes/outbox/message.js': [['id: first ?? id,', 'id: crypto.randomUUID(),']] },
    ...SHAPES,
    faults: ['lost-answers-of-the-sink'],
    caughtBy: /^shapes: event .* is at the sink under \d+ ids/,
  },
  {
    name: 'outbox: the relay does not wait for the answer of the sink',
    patches: {
      'shapes/outbox/relay.js': [
        [
          'await deadline.answer(this.#sink.publish(message, deadline))',
          'void this.#sink.publish(message, deadline).catch(() => {})',
        ],
      ],
    },
    ...SHAPES,
    faults: ['sink-away'],
    caughtBy: /^shapes: event .* was published and did not arrive at the sink/,
  },
  {
    name: 'projections: a high-water mark, and not windows between snapshots',
    patches: {
      'schema/functions/events/event-page.sql.js': [
        ['l.xid = x.xid AND', 'l.xid = x.xid AND false AND'],
        ['l.xid <= mark AND', 'l.xid <= mark AND false AND'],
      ],
    },
    ...SHAPES,
    faults: ['slow-commits'],
    caughtBy: /^shapes: event .* was applied 0 times/,
  },
  {
    name: 'projections: a page is written without the fence of the cursor',
    patches: {
      'shapes/projections/rows/cursor.js': [
        [
          `c.generation = $5::bigint
  AND c.applied = $11::bigint AND \${HELD}`,
          `$5::bigint IS NOT NULL AND $11::bigint IS NOT NULL AND ${ANYBODY} AND $2::bigint IS NOT NULL`,
        ],
      ],
    },
    ...SHAPES,
    faults: ['freeze-projector'],
    workers: 4,
    seconds: 30,
    caughtBy: /^shapes: event .* was applied [2-9] times/,
  },
  {
    name: 'outbox: events of a key are sent at once',
    patches: {
      'shapes/outbox/outbox.js': [
        ["{ ordering: 'key', deadLetters: refused }", "{ ordering: 'none' }"],
      ],
    },
    ...SHAPES,
    faults: ['sink-away', 'lost-answers-of-the-sink'],
    caughtBy: /^shapes: the sink: of .* arrived after/,
  },
  {
    name: 'webhooks: what was held stays held',
    patches: {
      'shapes/webhooks/rows/deliveries.js': [
        ['SET available_at = now(), wait_until', 'SET available_at = i.available_at, wait_until'],
      ],
    },
    ...SHAPES,
    faults: ['disabled-endpoint'],
    caughtBy: /^shapes: .* never got/,
  },
];
