/** What must hold of a run whatever happened to it, read from its rows. */
import type { TestGround } from '../../support/database.js';

export interface Sent {
  readonly n: number;
  readonly name: string;
  /** It committed, or it may have. */
  there: boolean;
  /** When it was sent, and since when it surely was there, as the schedule counts. */
  readonly from: number;
  to: number;
}

export interface Facts {
  readonly children: number;
  readonly sent: Sent[];
  readonly endedAs: Map<number, string>;
  wasCancelled: boolean;
}

interface Rows {
  readonly status: string;
  readonly result: { heard: [string, Heard | null][]; ended: string[] } | null;
  readonly asleep: boolean;
  readonly undo_asked: string | null;
  readonly undoing: boolean;
  readonly did: string[];
  readonly open: {
    name: string;
    kind: string;
    signals: string[] | null;
    remaining: number | null;
  }[];
  readonly free: { name: string; n: number }[];
  readonly taken: { n: number; name: string; by: string; place: number }[];
}

interface Heard {
  readonly name: string;
  readonly value: number;
}

const STATE = `
SELECT coalesce(i.status::text, a.status::text) AS status, a.result, i.undo_asked,
  (i.status = 'pending' AND i.wait_until = i.available_at AND i.wait_until > clock_timestamp()) IS TRUE AS asleep,
  EXISTS (SELECT FROM holdfast.inbox_steps AS s WHERE s.run_id = $1 AND s.name = '!') AS undoing,
  ARRAY(SELECT d.what FROM did AS d WHERE d.run = $1 ORDER BY d.what) AS did,
  coalesce((SELECT jsonb_agg(jsonb_build_object('name', s.name, 'kind', s.kind, 'remaining', s.remaining,
    'signals', CASE WHEN s.kind = 'w' THEN s.value END)) FROM holdfast.inbox_steps AS s WHERE s.run_id = $1 AND s.place IS NULL), '[]') AS open,
  coalesce((SELECT jsonb_agg(jsonb_build_object('name', g.name, 'n', g.value)) FROM holdfast.inbox_signals AS g
    WHERE g.run_id = $1 AND g.taken_by IS NULL), '[]') AS free,
  coalesce((SELECT jsonb_agg(jsonb_build_object('name', g.name, 'n', g.value, 'by', g.taken_by, 'place', s.place) ORDER BY s.place)
    FROM holdfast.inbox_signals AS g LEFT JOIN holdfast.inbox_steps AS s ON s.run_id = $1 AND s.name = g.taken_by
    WHERE g.run_id = $1 AND g.taken_by IS NOT NULL), '[]') AS taken
FROM (VALUES ($1::uuid)) AS r(id)
LEFT JOIN holdfast.inbox AS i USING (id) LEFT JOIN holdfast.inbox_archive AS a USING (id)`;

export async function violationsOf(
  db: TestGround,
  id: string,
  facts: Facts,
  when: 'at rest' | 'in the end',
): Promise<string[]> {
  const [row] = await db.rows<Rows>(STATE, [id]);
  const all = [...lost(row as Rows), ...taken(row as Rows, facts), ...effects(row as Rows, facts)];
  if (when === 'in the end') all.push(...ended(row as Rows, facts));
  return all.map((text) => `${when}: ${text}`);
}

/** A run that sleeps has nothing to do. */
function* lost({ asleep, open, free, undo_asked, undoing }: Rows) {
  for (const { name, kind, remaining } of open)
    if (kind === 'c' && (remaining ?? 0) < 0) yield `"${name}" counted ${remaining} children`;
  if (!asleep) return;
  if (undo_asked !== null && !undoing) yield 'it sleeps, and is to be undone';
  for (const { name, kind, signals, remaining } of undoing ? [] : open) {
    if (kind === 'c' && remaining === 0)
      yield `it sleeps, and the last child of "${name}" has ended`;
    const there = free.find((one) => signals?.includes(one.name));
    if (there) yield `it sleeps in "${name}", and the signal ${there.n} is there`;
  }
}

/** Each signal is taken by one wait, and each wait takes one, the oldest first. */
function* taken({ taken }: Rows, { sent }: Facts) {
  const waits = new Set<string>();
  for (const { by, n, place } of taken) {
    if (waits.has(by)) yield `"${by}" took two signals`;
    waits.add(by);
    if (place === null) yield `"${by}" took the signal ${n} and goes on waiting`;
  }
  for (const { n, name, place } of taken)
    for (const before of sent) {
      if (before.name !== name || before.to >= (sent[n]?.from ?? 0)) continue;
      const earlier = taken.find((one) => one.n === before.n);
      if (!earlier || (earlier.place ?? 0) > (place ?? 0))
        yield `the signal ${n} of "${name}" was taken before ${before.n}`;
    }
}

/** Transactional steps once, and undone once, the last first. */
function* effects({ did, status }: Rows, { wasCancelled }: Facts) {
  const count = (what: string) => did.filter((one) => one === what).length;
  for (const name of ['reserve', 'ship']) {
    const [done, undone] = [count(name), count(`un${name}`)];
    if (done > 1) yield `"${name}" was done ${done} times`;
    if (undone > done) yield `"${name}" was undone ${undone} times and done ${done} times`;
    if (status === 'completed' && (done !== 1 || undone !== 0))
      yield `completed, with "${name}" done ${done} times and undone ${undone} times`;
    if (status === 'cancelled' && undone !== done) yield `cancelled, and "${name}" is not undone`;
  }
  if (status === 'dead_letter') yield 'a dead letter';
  if (status === 'cancelled' && !wasCancelled) yield 'cancelled, and nobody asked for it';
}

function* ended({ status, result, taken }: Rows, { children, endedAs, sent }: Facts) {
  if (status !== 'completed' && status !== 'cancelled') yield `stuck: it is ${status}`;
  if (status !== 'completed' || !result) return;
  const kids = Array.from({ length: children }, (_, n) => endedAs.get(n));
  if (String(result.ended) !== String(kids))
    yield `its children ended as ${kids}, and it heard of ${result.ended}`;
  for (const [name, heard] of result.heard) {
    const row = taken.find(({ by }) => by === name);
    if (heard?.value !== row?.n) yield `"${name}" heard ${heard?.value} and took ${row?.n}`;
    if (heard && !sent[heard.value]?.there)
      yield `"${name}" heard ${heard.value}, which was rolled back`;
  }
}
