/** The server: its version, whether it keeps what it has accepted, its clock, and its connections. */
import { quoteName } from '../../postgres/names.js';
import { bool, int4, int8, text } from '../../postgres/statement.js';
import { type Answer, asksOne } from '../reading/asks.js';
import { span } from '../reading/words.js';
import { type Holder, heldBy } from './cause/holders.js';
import { type Finding, type Limits, LOSES, lines, note, ok, problem } from './doctor.js';

const OLDEST_VERSION = 15;

export const readServer = asksOne({
  name: 'doctor_server',
  text: `
-- Of other users an ordinary one sees no type; what belongs to a database is a client or soon gone.
WITH client AS (
  SELECT a.datid, a.usesysid FROM pg_stat_activity AS a
  WHERE a.backend_type = 'client backend' OR (a.backend_type IS NULL AND a.datid IS NOT NULL)
)
SELECT current_setting('server_version') AS version,
  current_setting('server_version_num')::integer / 10000 AS major,
  pg_is_in_recovery() AS replica,
  current_setting('fsync') AS fsync,
  current_setting('full_page_writes') AS full_page_writes,
  current_setting('autovacuum') = 'on' AND current_setting('track_counts') = 'on' AS autovacuum,
  current_setting('max_connections')::integer
    - current_setting('superuser_reserved_connections')::integer
    - coalesce(current_setting('reserved_connections', true)::integer, 0) AS connection_limit,
  (SELECT count(*) FROM client)::integer AS connections,
  d.datname::text AS database,
  nullif(d.datconnlimit, -1) AS database_limit,
  (SELECT count(*) FROM client AS c WHERE c.datid = d.oid)::integer AS database_connections,
  fullest.role, fullest.role_limit, fullest.role_connections,
  has_database_privilege(current_database(), 'CREATE') AS may_create,
  pg_backend_pid() AS backend_pid,
  (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms
FROM pg_database AS d
-- Workers and producers may connect as other users than this one.
LEFT JOIN LATERAL (
  SELECT r.rolname::text AS role, r.rolconnlimit AS role_limit, count(*)::integer AS role_connections
  FROM client AS c JOIN pg_roles AS r ON r.oid = c.usesysid
  WHERE r.rolconnlimit > 0 AND NOT r.rolsuper
  GROUP BY r.rolname, r.rolconnlimit
  HAVING bool_or(c.datid = d.oid)
  ORDER BY count(*)::float8 / r.rolconnlimit DESC, r.rolname LIMIT 1
) AS fullest ON true
WHERE d.datname = current_database()`,
  columns: {
    version: text,
    major: int4,
    replica: bool,
    fsync: text,
    full_page_writes: text,
    autovacuum: bool,
    connection_limit: int4,
    connections: int4,
    database: text,
    database_limit: int4.orNull,
    database_connections: int4,
    role: text.orNull,
    role_limit: int4.orNull,
    role_connections: int4.orNull,
    may_create: bool,
    backend_pid: int4,
    now_ms: int8,
  },
});

export type Server = Answer<typeof readServer>;

/** `holders`: who has the connections, if few are left. */
/** Then it is asked who holds the connections. */
export function fewLeft(server: Server, { connectionShare }: Limits): boolean {
  const { connections, connectionLimit, databaseConnections, databaseLimit } = server;
  const { roleConnections, roleLimit } = server;
  return (
    connections >= connectionLimit * connectionShare ||
    (databaseLimit !== null && databaseConnections >= databaseLimit * connectionShare) ||
    (roleLimit !== null && (roleConnections ?? 0) >= roleLimit * connectionShare)
  );
}

export function judgeServer(
  server: Server,
  limits: Limits,
  holders: readonly Holder[] = [],
): Finding[] {
  return [
    server.major < OLDEST_VERSION
      ? problem(
          'server version',
          `The server is PostgreSQL ${server.version}.`,
          `Holdfast is made for and tested on PostgreSQL ${OLDEST_VERSION} and later.`,
          'Upgrade the server.',
        )
      : ok('server version', `PostgreSQL ${server.version}`),
    server.replica
      ? problem(
          'server role',
          'The server is a standby, which is read-only; only what can be read was looked at.',
          'Nothing can be enqueued, claimed or settled on it.',
          'Point --url or DATABASE_URL to the primary.',
        )
      : ok('server role', 'the primary'),
    ...durability(server),
    server.autovacuum
      ? ok('autovacuum', 'on')
      : problem(
          'autovacuum',
          'autovacuum or track_counts is off.',
          'Finished jobs leave dead rows behind; without vacuum every claim gets slower.',
          lines(
            'ALTER SYSTEM SET autovacuum = on;',
            'ALTER SYSTEM SET track_counts = on;',
            'SELECT pg_reload_conf();',
          ),
        ),
    ...connections(server, limits, holders),
  ];
}

function durability(server: Server): Finding[] {
  const settings = { fsync: server.fsync, full_page_writes: server.fullPageWrites };
  return Object.entries(settings).map(([name, value]) =>
    value === 'on'
      ? ok(name, 'on')
      : problem(
          name,
          `${name} is ${value}.`,
          `${LOSES} The whole database may be damaged.`,
          lines(`ALTER SYSTEM SET ${name} = on;`, 'SELECT pg_reload_conf();'),
        ),
  );
}

/** The server's own limit, and those of the database and of a role, which refuse clients while the server has room. */
function connections(server: Server, limits: Limits, holders: readonly Holder[]): Finding[] {
  const judge = (
    used: number,
    limit: number | null,
    of: string,
    who: readonly Holder[],
    ...raise: readonly string[]
  ) => {
    if (limit === null) return [];
    const text = `${used} of ${limit} connections${of} are in use`;
    if (used < limit * limits.connectionShare) return [ok('connections', text)];
    const why =
      'A worker that finds no connection cannot claim, renew or settle; its leases expire.';
    const [how, ...statements] = raise;
    const fix = `Close what is idle, put a pooler in front of producers, or raise ${how}`;
    return [problem('connections', `${text}.${heldBy(who)}`, why, lines(fix, ...statements))];
  };
  const unlimited = (what: string, name: string | null) =>
    `ALTER ${what} ${quoteName(name ?? '')} CONNECTION LIMIT -1;`;
  const { database, role, connections, databaseConnections: ofDatabase } = server;
  return [
    ...judge(connections, server.connectionLimit, '', holders, 'max_connections.'),
    ...judge(
      ...([ofDatabase, server.databaseLimit, ` of the database "${database}"`] as const),
      holders,
      ...['the limit:', unlimited('DATABASE', database)],
    ),
    ...judge(
      ...([server.roleConnections ?? 0, server.roleLimit, ` of the role "${role}"`] as const),
      holders.filter((one) => one.role === role),
      ...['the limit:', unlimited('ROLE', role)],
    ),
  ];
}

export interface Line {
  /** The process id that the server, or a pooler in its name, gave at connect. */
  readonly announcedPid: number;
  readonly backendPid: number;
  readonly roundTripMs: number;
  /** The database's clock minus this machine's. */
  readonly skewMs: number;
  /** A notification to oneself arrived; null: not tried, behind a pooler (it leaves traces) or on a replica (it is refused). */
  readonly received: boolean | null;
}

export function judgeLine(
  { announcedPid, backendPid, received, roundTripMs, skewMs }: Line,
  limits: Limits,
  leaseMs: number,
  heartbeatMs: number,
): Finding[] {
  const pooled = announcedPid !== backendPid;
  return [
    pooled
      ? note(
          'pooling',
          'There is a transaction pooler between this client and the server.',
          'Session locks, LISTEN and start-up options do not work through it: a killed worker is noticed by its heartbeat only, and idle workers find jobs by polling.',
          'Give workers a direct connection, or set listenUrl to one (the page "Poolers" of the docs).',
        )
      : ok('pooling', 'a direct connection'),
    ...notifications(received, pooled),
    roundTrip(roundTripMs, limits, leaseMs, heartbeatMs),
    skew(skewMs, limits),
  ];
}

function notifications(received: boolean | null, pooled: boolean): Finding[] {
  const check = 'notifications';
  if (received) return [ok(check, 'received at once')];
  if (received === null && !pooled) return [];
  const why = 'Idle workers are not woken and find new jobs at their next poll only.';
  const [text, fix] = pooled
    ? [
        'Notifications do not reach a client behind a transaction pooler.',
        'Set listenUrl to a direct connection.',
      ]
    : [
        'A notification to oneself did not arrive within a second.',
        'Look for a proxy between here and the server that drops messages; jobs are found by polling meanwhile.',
      ];
  return [(pooled ? note : problem)(check, text, why, fix)];
}

function roundTrip(ms: number, limits: Limits, leaseMs: number, heartbeatMs: number): Finding {
  const text = `a round trip takes ${ms.toFixed(1)} ms`;
  // A renewal is due every third of a lease and must be through before the next one.
  const dangerMs = Math.min(leaseMs / 30, heartbeatMs / 10);
  if (ms > dangerMs) {
    return problem(
      'round trip',
      `${text}; leases last ${span(leaseMs)} and heartbeats come every ${span(heartbeatMs)}.`,
      'Renewals and heartbeats come too late when a few round trips are slow, and healthy workers lose their jobs.',
      'Run workers near the database, or raise lease, heartbeat and ttl.',
    );
  }
  if (ms <= limits.roundTripMs) return ok('round trip', text);
  return note(
    'round trip',
    `${text}.`,
    'Every claim and every settle waits for one; throughput per worker suffers.',
    'Run workers near the database, or raise batchSize and prefetch.',
  );
}

function skew(ms: number, limits: Limits): Finding {
  const far = Math.abs(ms);
  if (far <= limits.skewMs) return ok('clock', `within ${span(far)} of the database`);
  const text = `This machine's clock is ${span(far)} ${ms > 0 ? 'behind' : 'ahead of'} the database's.`;
  return (far > 60_000 ? problem : note)(
    'clock',
    text,
    'The database decides about leases, so no job is lost; but ids carry the time of the machine that made them, and lists, times in logs and delays by date are off.',
    'Let NTP set both clocks (timedatectl set-ntp true).',
  );
}
