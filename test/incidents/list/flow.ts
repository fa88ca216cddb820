/** Order, limits and schedules that hold work back. */
import { until } from '../../support/until.js';
import type { Incident } from '../incident.js';
import type { Site } from '../site.js';

const strict = { queues: ['inbox', 'orders'] } as const;
const STRICT = `SELECT FROM holdfast.queues WHERE name = 'orders'`;

async function orders(site: Site, options: object): Promise<void> {
  if ((await site.sql(STRICT)).length === 0) await site.hf.createQueue('orders', options);
  await site.kill();
  await site.join(strict);
}

export const FLOW: readonly Incident[] = [
  {
    symptom: 'one customer waits for ever',
    cause: 'a dead letter holds its key in a strict queue',
    async happens(site) {
      await orders(site, { ordering: 'key', deadLetters: 'hold' });
      await site.add('refuse', 1, { queue: 'orders', partitionKey: 'customer:7', maxAttempts: 1 });
      await until('it is a dead letter', async () => {
        return (
          (await site.sql(`SELECT FROM holdfast.orders WHERE status = 'dead_letter'`)).length > 0
        );
      });
      const [id] = await site.add('work', 2, { queue: 'orders', partitionKey: 'customer:7' });
      return id;
    },
    doctor: { check: 'held keys', says: /customer:7/ },
    fix: {
      does: 'mend the cause and retry the dead letter, or `holdfast dead-letters discard --queue orders`',
      act: (site) => site.cli(['dead-letters', 'discard', '--queue', 'orders', '--yes']),
    },
  },
  {
    symptom: 'one type stands still, others run',
    cause: 'its only permit is held by a job that never ends',
    async happens(site) {
      await site.hf.limits.set({ type: 'hang' }, { concurrency: 1 });
      const [, id] = await site.add('hang', 3);
      return id;
    },
    doctor: { check: 'stopped', says: /hang/ },
    explain: ['limit_reached'],
    fix: {
      does: 'give up what hangs: `holdfast jobs cancel --type hang`',
      act: (site) => site.cli(['jobs', 'cancel', '--type', 'hang', '--yes']),
    },
  },
  {
    symptom: 'one type gets later and later',
    cause: 'its rate is far below what comes in',
    async happens(site) {
      await site.hf.limits.set({ type: 'work' }, { rate: { limit: 1, per: '1h', burst: 1 } });
      const [, , id] = await site.add('work', 200);
      return id;
    },
    doctor: { check: 'stopped', says: /work/ },
    explain: ['rate_limited'],
    fix: 'printed',
  },
  {
    symptom: 'the nightly report is not made',
    cause: 'a session holds the row of the schedule',
    async happens(site) {
      await site.hf.schedule('nightly', { job: site.of('work'), payload: {}, every: '1s' });
      const psql = await site.session('BEGIN', `SELECT FROM holdfast.schedules FOR UPDATE`);
      psql.once('end', () => undefined);
    },
    doctor: { check: 'schedules', says: /has been due/ },
    fix: {
      does: 'end the session that "locks" names',
      async act(site) {
        await site.sql(
          `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'psql'`,
        );
        await site.hf.schedules.delete('nightly');
      },
    },
  },
  {
    symptom: 'no job of a queue runs',
    cause: 'the queue has jobs, and no worker serves it',
    async happens(site) {
      await site.hf.createQueue('mail', {});
      const [id] = await site.add('work', 3, { queue: 'mail' });
      return id;
    },
    doctor: { check: 'unhandled', says: /mail/ },
    explain: ['no_handler'],
    fix: { does: 'start a worker that serves it', act: (site) => site.join({ queues: ['mail'] }) },
    works: (site) => site.works('work', { queue: 'mail' }),
  },
];
