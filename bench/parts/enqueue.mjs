// Enqueue: one job per transaction on 1, 10 and 50 connections of one process, and bulk calls of
// 1,000. The bare INSERT writes the same row into a copy of the queue's table, with its indexes and
// without its triggers, through a prepared statement. No worker runs meanwhile.
import { startActor } from '../actors.mjs';
import { prepareBareInsert } from '../bare.mjs';
import { bars, bestPeer, rounds, share, times } from '../rounds.mjs';
import { measured, median, plain } from '../statistics.mjs';

const CONNECTIONS = [1, 10, 50];
const BULK = 1_000;

/**
 * How a peer is configured for work does not change how jobs are put in, but for pg-boss' notify.
 */
const producers = ({ ours, all, fastest }) => [
  ours,
  ...fastest,
  ...all.filter(
    ({ system, configuration }) => system.name === 'pg-boss' && configuration === 'default',
  ),
];

async function series(context, contestants, orders, count) {
  const { stage, say } = context;
  const actors = new Map();
  for (const entry of contestants) actors.set(entry, await startActor(entry));
  const found = new Map();
  for (const { name, order } of orders) {
    const bare = {
      label: 'bare INSERT',
      ours: true,
      actor: actors.get(contestants[0]),
      order: { ...order, mode: order.mode === 'many' ? 'bare-many' : 'bare' },
    };
    const takers =
      order.mode === 'transaction' ? contestants.filter(hasTransaction) : [...contestants, bare];
    const values = await rounds(takers, count, async (entry) => {
      if (entry === bare) await stage.admin.query('TRUNCATE bench.inbox');
      else await stage.empty(entry);
      await stage.admin.query('CHECKPOINT');
      const actor = entry.actor ?? actors.get(entry);
      const { perSecond } = await actor.ask('produce', entry.order ?? order);
      return perSecond;
    });
    for (const [label, all] of values) say(`${name}: ${label} ${measured(all)} jobs/s`);
    found.set(name, values);
  }
  for (const actor of actors.values()) await actor.kill();
  return found;
}

const hasTransaction = ({ system }) => system.package !== 'bullmq';

function tell(context, found, contestants, title) {
  const { table } = context;
  const names = [...found.keys()];
  const labels = [...contestants.map(({ label }) => label), 'bare INSERT'];
  table({
    title,
    columns: ['', ...names],
    rows: labels.map((label) => [
      label,
      ...names.map((name) => measured(found.get(name).get(label) ?? [])),
    ]),
  });
}

export async function enqueue(context) {
  const { stage, entries, quick, span, figure, chart, raw, say } = context;
  await prepareBareInsert(stage.admin);
  const contestants = producers(entries);
  const ms = span(2_000, 400);
  const single = CONNECTIONS.map((connections) => ({
    name: `${connections} connection${connections > 1 ? 's' : ''}`,
    order: { mode: 'one', connections, ms },
  }));
  const bulk = { name: `bulk of ${plain(BULK)}`, order: { mode: 'many', size: BULK, ms } };
  const own = {
    name: "in the caller's transaction, 10 connections",
    order: { mode: 'transaction', ms },
  };
  const orders = [...single, bulk, ...(quick ? [] : [own])];
  const found = await series(context, contestants, orders, quick ? 1 : 3);
  for (const [name, values] of found) raw(name, Object.fromEntries(values));

  const ours = (name) => median(found.get(name).get(entries.ours.label));
  const bare = (name) => median(found.get(name).get('bare INSERT'));
  const peer = (name) => bestPeer(found.get(name), contestants, { postgresOnly: true });
  for (const { name, order } of single) {
    const key = `enqueue.single_${order.connections}`;
    times(figure, `${key}_over_best_postgres_peer`, ours(name), peer(name), 2);
    share(figure, `${key}_share_of_bare_insert`, ours(name), bare(name), 0.7);
  }
  times(figure, 'enqueue.bulk_over_best_postgres_peer', ours(bulk.name), peer(bulk.name), 1.5);
  share(figure, 'enqueue.bulk_share_of_bare_insert', ours(bulk.name), bare(bulk.name), 0.7);
  tell(context, found, contestants, 'Enqueue, jobs per second');
  chart({
    file: 'enqueue',
    title: 'Enqueue, one job per transaction, 10 connections, jobs per second',
    bars: bars(found.get('10 connections'), contestants),
  });

  if (quick) return say('synchronous_commit = off and transactions: skipped in a quick run.');
  await stage.synchronousCommit(false);
  const off = await series(context, contestants, [single[1], bulk], 1);
  await stage.synchronousCommit(true);
  for (const [name, values] of off)
    raw(`synchronous_commit off, ${name}`, Object.fromEntries(values));
  tell(context, off, contestants, 'Enqueue with synchronous_commit = off, jobs per second');
}
