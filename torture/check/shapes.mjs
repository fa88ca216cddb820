// The shapes: what was published arrived, at the sink in order per key and at each endpoint under its signature, and the read
// model is what the log says. Receivers dedupe by id, as the documentation tells them to.
import { groupBy } from './acceptance.mjs';

const SHOWN = 10;

export function checkShapes({ history, state }) {
  if (!state.publications) return { violations: [], counts: {} };
  const facts = factsOf(history, state);
  const parts = [accepted, atSink, jobs, atEndpoints, inLog, inModel, evidence];
  return {
    violations: parts.flatMap((part) => shortened([...part(facts)])),
    counts: { shapes: countsOf(facts) },
  };
}

/** A broken part is broken many times. */
const shortened = (all) =>
  all.length > SHOWN ? [...all.slice(0, SHOWN), `… and ${all.length - SHOWN} more of these`] : all;

function factsOf(history, state) {
  const published = history.filter(({ op }) => op === 'publish');
  const of = (phase) => new Set(published.flatMap((line) => (line.phase === phase ? line.of : [])));
  return {
    ...{ acknowledged: of('ok'), rolledBack: of('fail'), state },
    committed: new Map(state.publications.map((one) => [one.op, one])),
    /** All events, in the words of their producers. */
    events: state.publications.flatMap(({ events }) => events),
    requests: history.filter(({ op }) => op === 'sink'),
    hooks: history.filter(({ op }) => op === 'hook'),
  };
}

const nameOf = ({ op, i }) => `${op}#${i}`;

function* accepted({ acknowledged, rolledBack, committed }) {
  for (const op of acknowledged) if (!committed.has(op)) yield `${op} was acknowledged and is lost`;
  for (const op of rolledBack) if (committed.has(op)) yield `${op} was rolled back, and is there`;
}

/** The first copy of each message that a receiver took. */
function firstOf(requests) {
  const first = new Map();
  for (const request of requests)
    if (request.took && !first.has(request.id)) first.set(request.id, request);
  return [...first.values()];
}

function* atSink({ events, requests }) {
  const wanted = new Map(events.map((event) => [nameOf(event.data), event]));
  const taken = firstOf(requests);
  const copies = groupBy(taken, (one) => nameOf({ op: one.of, i: one.i }));
  for (const name of wanted.keys())
    if (!copies.has(name)) yield `event ${name} was published and did not arrive at the sink`;
  for (const [name, some] of copies) {
    if (!wanted.has(name)) yield `event ${name} is at the sink, and nobody published it`;
    if (some.length > 1) yield `event ${name} is at the sink under ${some.length} ids`;
  }
  yield* inOrder('the sink', taken);
}

/** Numbers of a key rise; of a publication of several events a webhook has the first. */
function* inOrder(where, taken) {
  for (const [key, some] of groupBy(taken, (one) => one.key)) {
    const at = some.findIndex(({ n }, i) => i > 0 && n <= some[i - 1].n);
    if (at > 0) yield `${where}: of ${key}, ${some[at].n} arrived after ${some[at - 1].n}`;
  }
}

/** An outage spends nothing, and nobody becomes a dead letter. */
function* jobs({ state: { shapeJobs } }) {
  for (const { id, queue, status, history } of shapeJobs) {
    if (status !== 'completed') yield `job ${id} of ${queue} is ${status} at the end`;
    const failed = (history ?? []).filter(({ outcome }) => outcome === 'failed').length;
    if (queue === 'outbox' && failed > 0)
      yield `event ${id} spent ${failed} attempts on an outage of the sink`;
  }
}

function* atEndpoints({ state, hooks }) {
  for (const { endpoint, id, of, valid, age } of hooks) {
    if (!valid) yield `${endpoint}: ${of} has no valid signature`;
    if (id !== of) yield `${endpoint}: ${of} came under the id ${id}`;
    if (Math.abs(age) > 60) yield `${endpoint}: ${of} has a timestamp of ${age} s ago`;
  }
  for (const { name, tenant, ordered, events } of state.endpoints) {
    const mine = hooks.filter(({ endpoint }) => endpoint === name);
    const taken = firstOf(mine);
    const there = new Set(taken.map(({ of }) => of));
    const wanted = new Set(
      state.publications
        .filter((one) => one.tenant === tenant && (!events || events.includes(one.type)))
        .map(({ op }) => op),
    );
    for (const op of wanted) if (!there.has(op)) yield `${name} never got ${op}`;
    for (const op of there) if (!wanted.has(op)) yield `${name} got ${op}, which is not for it`;
    if (ordered) yield* inOrder(name, taken);
  }
}

function* inLog({ events, state: { log } }) {
  const wanted = new Set(events.map(({ data }) => nameOf(data)));
  for (const [name, { length }] of groupBy(log, ({ data }) => nameOf(data))) {
    if (!wanted.delete(name)) yield `event ${name} is in the log, and nobody published it`;
    if (length > 1) yield `event ${name} is ${length} times in the log`;
  }
  for (const name of wanted) yield `event ${name} was published and is not in the log`;
}

function* inModel({ state: { log, applied, totals, projections } }) {
  const times = groupBy(applied, ({ id }) => id);
  for (const { id, key, position } of log) {
    const n = times.get(id)?.length ?? 0;
    if (n !== 1) yield `event ${position} of ${key} was applied ${n} times`;
  }
  for (const [key, some] of groupBy(applied, (one) => one.key)) {
    const at = some.findIndex(({ position }, i) => i > 0 && position < some[i - 1].position);
    if (at > 0)
      yield `of ${key}, event ${some[at].position} was applied after ${some[at - 1].position}`;
  }
  const rows = new Map(totals.map((row) => [row.key, row]));
  for (const [key, some] of groupBy(log, (one) => one.key)) {
    const cents = some.reduce(
      (sum, { type, data }) => sum + (type === 'order.paid' ? data.cents : -data.cents),
      0,
    );
    const row = rows.get(key);
    rows.delete(key);
    if (row?.events !== some.length || row.cents !== cents)
      yield `the row of ${key} says ${row?.events} events and ${row?.cents} cents; the log has ${some.length} and ${cents}`;
  }
  for (const key of rows.keys()) yield `the read model has a row of ${key}, and the log has none`;
  if (projections.filter(({ state }) => state === 'live').length !== 1)
    yield 'there is not one live build of the projection';
  for (const { id, stops } of projections)
    if (stops > 0) yield `${stops} keys of build ${id} stopped at events that are in order`;
}

function* evidence({ acknowledged, state, requests, hooks }) {
  const amounts = {
    'no acknowledged publication': acknowledged.size,
    'no event at the sink': requests.filter(({ took }) => took).length,
    'no webhook at a receiver': hooks.filter(({ took }) => took).length,
    'no event in the read model': state.applied.length,
  };
  for (const [what, n] of Object.entries(amounts)) if (n === 0) yield `there was ${what}`;
}

function countsOf({ acknowledged, rolledBack, events, requests, hooks, state }) {
  const repeated = (all) => all.filter(({ took }) => took).length;
  const fences = new Map();
  let stale = 0;
  for (const { id, fence } of requests) {
    if (fence < (fences.get(id) ?? 0)) stale++;
    else fences.set(id, fence);
  }
  const once = new Set(hooks.filter(({ took }) => took).map((one) => `${one.endpoint}/${one.id}`));
  return {
    ...{ published: acknowledged.size, rolledBack: rolledBack.size, events: events.length },
    requestsOfSink: requests.length,
    copiesAtSink: repeated(requests) - firstOf(requests).length,
    /** Copies that came after one with a greater fence: consumers can tell. */
    staleFences: stale,
    requestsOfHooks: hooks.length,
    webhooks: once.size,
    copiesOfWebhooks: repeated(hooks) - once.size,
    builds: Math.max(...state.projections.map(({ id }) => id)),
    lagP50: state.lags[Math.floor(state.lags.length / 2)]?.ms,
    lagMax: state.lags.at(-1)?.ms,
  };
}
