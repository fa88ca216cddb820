/** Webhooks: the endpoints of all queues, one endpoint, and what was sent to it. No secret is among it. */
import { HoldfastError } from 'holdfast';
import {
  checkId,
  webhookAttempts,
  webhookCount,
  webhookEndpoint,
  webhookEndpoints,
  webhookQueues,
} from 'holdfast/internal';
import type { Context } from '../context.js';
import type { Read } from './reads.js';

const PAGE = 100;
const ATTEMPTS = 50;
/** No more deliveries are counted. */
const COUNTED = 10_000;
const INBOX = 'inbox';

export const webhooks: Read = async ({ read, access }, { query }) => {
  const queues = await read((db) => webhookQueues(db, access.names(INBOX)));
  const queue = query.get('queue') || queues[0];
  if (queue === undefined) return { queues, queue: null, endpoints: [], next: null };
  const found = await read((db) =>
    webhookEndpoints(db, access.names(queue), {
      ...{ tenant: query.get('tenant') || null, state: query.get('state') || null },
      ...{ after: query.get('after') ? checkId(query.get('after')) : null, limit: PAGE + 1 },
    }),
  );
  const endpoints = found.slice(0, PAGE);
  return {
    ...{ queues, queue, endpoints },
    next: found.length > PAGE ? (endpoints.at(-1)?.id ?? null) : null,
  };
};

/** In which of the queues it is. */
export async function queueOfEndpoint({ read, access }: Context, id: string): Promise<string> {
  checkId(id);
  for (const queue of await read((db) => webhookQueues(db, access.names(INBOX))))
    if (await read((db) => webhookEndpoint(db, access.names(queue), id))) return queue;
  throw new HoldfastError('ENDPOINT_UNKNOWN', `There is no webhook endpoint ${id}.`);
}

export const webhook: Read = async (context, { params, query }) => {
  const { read, access, redactor } = context;
  const id = params.id as string;
  const queue = await queueOfEndpoint(context, id);
  return read(async (db) => {
    const names = access.names(queue);
    const endpoint = await webhookEndpoint(db, names, id);
    if (!endpoint)
      throw new HoldfastError('ENDPOINT_UNKNOWN', `There is no webhook endpoint ${id}.`);
    const where = endpoint.ordered ? access.names(`${queue}_ordered`) : names;
    const counts = await webhookCount(db, where, id, COUNTED);
    const before = /^\d{1,18}$/.exec(query.get('after') ?? '')?.[0] ?? null;
    const of = { endpoint: id, message: null, delivered: null, before, limit: ATTEMPTS + 1 };
    const found = await webhookAttempts(db, names, of);
    const attempts = found.slice(0, ATTEMPTS).map((one) => ({
      ...one,
      // What a receiver answers may repeat what it was sent.
      answer: one.answer && redactor.part(one.answer, { field: 'result', queue, type: one.type }),
    }));
    const next = found.length > ATTEMPTS ? (attempts.at(-1)?.id ?? null) : null;
    return { queue, endpoint, counts, attempts, next };
  });
};
