/** Due work that no worker takes, or none can end. */
import { until } from '../../support/until.js';
import type { Incident } from '../incident.js';

/** Both workers say that all of their handlers run. */
const FULL = `SELECT FROM holdfast.workers WHERE (metadata -> 'load' ->> 'running')::integer = 4 OFFSET 1`;

export const WORK: readonly Incident[] = [
  {
    symptom: 'nothing runs any more',
    cause: 'every worker was killed',
    async happens(site) {
      await site.kill();
      const [id] = await site.add('work', 3);
      return id;
    },
    doctor: { check: 'workers', says: /No worker (is alive|sends heartbeats)/ },
    explain: ['no_worker', 'workers_silent'],
    fix: { does: 'start workers', act: (site) => site.join() },
  },
  {
    symptom: 'one kind of work stands still',
    cause: 'a deploy forgot the handler of its type',
    site: { types: ['work'] },
    async happens(site) {
      const [id] = await site.add('refund', 3);
      return id;
    },
    doctor: { check: 'unhandled', says: /refund version 1/ },
    explain: ['no_handler'],
    fix: {
      does: 'give up the jobs, or start workers that handle them: `holdfast jobs cancel --type refund`',
      act: (site) => site.cli(['jobs', 'cancel', '--type', 'refund', '--yes']),
    },
  },
  {
    symptom: 'new orders stand still, old ones run',
    cause: 'producers send a payload version that no worker knows yet',
    async happens(site) {
      const job = site.of('work', { version: 2, schema: undefined });
      const { id } = await site.hf.enqueue(job, {});
      return id;
    },
    doctor: { check: 'unhandled', says: /work version 2/ },
    explain: ['version_too_new'],
    fix: {
      does: 'finish the deploy; here the jobs are given up: `holdfast jobs cancel --type work`',
      act: (site) => site.cli(['jobs', 'cancel', '--type', 'work', '--yes']),
    },
  },
  {
    symptom: 'everything waits, and the workers are alive',
    cause: 'a service that never answers holds every handler',
    async happens(site) {
      await site.add('hang', 8);
      await until('all handlers hang', async () => (await site.sql(FULL)).length > 0);
      const [id] = await site.add('work', 3);
      return id;
    },
    doctor: { check: 'stopped', says: /hang/ },
    explain: ['handlers_busy'],
    fix: {
      does: 'give up what hangs: `holdfast jobs cancel --type hang`, and give the call a time limit',
      act: (site) => site.cli(['jobs', 'cancel', '--type', 'hang', '--yes']),
    },
  },
  {
    symptom: 'memory grows, and jobs time out again and again',
    cause: 'handlers go on although their jobs have left',
    async happens(site) {
      await site.add('leak', 3, { maxAttempts: 1 });
    },
    doctor: { check: 'leaked handlers', says: /leak/, level: 'problem' },
    fix: {
      does: 'drain the workers that have them, and start others',
      async act(site) {
        await site.kill();
        await site.join();
        await site.cli(['dead-letters', 'discard', '--type', 'leak', '--yes']);
      },
    },
  },
  {
    symptom: 'after a deploy everything fails',
    cause: 'the release throws in every handler',
    async happens(site) {
      await site.kill();
      await site.join({ broken: true });
      await site.add('work', 30, { maxAttempts: 20 });
    },
    doctor: {
      check: 'failing attempts',
      says: /Most often, work: TypeError|Cannot read properties/,
    },
    fix: {
      does: 'roll the release back',
      async act(site) {
        await site.kill();
        await site.join();
        await site.cli(['jobs', 'cancel', '--type', 'work', '--yes']);
      },
    },
  },
  {
    symptom: 'workers restart all the time',
    cause: 'one job ends the process that runs it',
    site: { workers: 1 },
    async happens(site) {
      const [id] = await site.add('boom', 1, { maxAttempts: 9 });
      for (let death = 0; death < 3; death++) {
        await site.fleet.at(-1)?.exited;
        await site.join();
      }
      return id;
    },
    doctor: { check: 'vanished workers', says: /boom|3 workers|again and again/ },
    fix: {
      does: 'give up the job: `holdfast jobs cancel --type boom`',
      async act(site) {
        await site.cli(['jobs', 'cancel', '--type', 'boom', '--yes']);
        await site.sql(`DELETE FROM holdfast.workers WHERE status = 'dead'`);
        if (site.fleet.at(-1)?.exit) await site.join();
      },
    },
  },
  {
    symptom: 'jobs of one worker are late',
    cause: 'its process is frozen',
    async happens(site) {
      site.fleet[0]?.signal('SIGSTOP');
    },
    doctor: { check: 'workers', says: /silent|heartbeat|not seen|frozen/ },
    fix: 'printed',
  },
  {
    symptom: 'a report of a customer is missing',
    cause: 'many jobs are dead letters',
    async happens(site) {
      await site.add('refuse', 60, { maxAttempts: 1 });
      await site.add('work', 600);
    },
    doctor: { check: 'dead letters', says: /dead letters? in "inbox"/ },
    fix: {
      does: 'mend the cause, then `holdfast dead-letters retry`; here they are given up',
      act: (site) => site.cli(['dead-letters', 'discard', '--type', 'refuse', '--yes']),
    },
  },
  {
    symptom: 'enqueues are refused',
    cause: 'the queue is full',
    async happens(site) {
      await site.cli(['queues', 'set', 'inbox', '--max-pending', '50']);
      await site.hf.pause('inbox');
      await site.add('work', 50);
    },
    doctor: { check: 'full', says: /50/ },
    fix: {
      does: 'let it run: `holdfast queues resume inbox`',
      act: (site) => site.cli(['queues', 'resume', 'inbox']),
    },
  },
  {
    symptom: 'accepted jobs do not start',
    cause: 'somebody paused the queue and went home',
    async happens(site) {
      await site.cli(['queues', 'pause', 'inbox', '--reason', 'the bank is down']);
      const [id] = await site.add('work', 3);
      return id;
    },
    doctor: { check: 'paused', says: /"inbox" is paused/, level: 'note' },
    explain: ['queue_paused'],
    fix: 'printed',
  },
  {
    symptom: 'accepted jobs of one type do not start',
    cause: 'somebody paused the type',
    async happens(site) {
      await site.cli(['queues', 'pause', 'inbox', '--type', 'work', '--reason', 'wrong prices']);
      const [id] = await site.add('work', 3);
      return id;
    },
    doctor: { check: 'paused', says: /type work|work/, level: 'note' },
    explain: ['type_paused'],
    fix: 'printed',
  },
  {
    symptom: 'one customer waits',
    cause: 'somebody paused the key',
    async happens(site) {
      await site.cli(['queues', 'pause', 'inbox', '--partition-key', 'customer:7']);
      const [id] = await site.add('work', 3, { partitionKey: 'customer:7' });
      return id;
    },
    doctor: { check: 'paused', says: /customer:7/, level: 'note' },
    explain: ['key_paused'],
    fix: 'printed',
  },
];
