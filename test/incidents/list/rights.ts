/** Rights and settings of the roles that work here. */
import { fileURLToPath } from 'node:url';
import type { Incident } from '../incident.js';

const revoked = (symptom: string, right: string, table: string): Incident => ({
  symptom,
  cause: `${right} ON ${table} was revoked from the workers`,
  async happens(site) {
    await site.sql(`REVOKE ${right} ON holdfast.${table} FROM holdfast_worker`);
    const [id] = await site.add('work', 3);
    return id;
  },
  doctor: { check: 'rights', says: new RegExp(`${right}\\b.* on holdfast.${table}\\b`) },
  fix: 'printed',
});

/** A process whose clock is five minutes ahead. */
const AHEAD = fileURLToPath(new URL('../ahead.cjs', import.meta.url));

export const RIGHTS: readonly Incident[] = [
  {
    symptom: 'times in lists and logs do not fit together',
    cause: 'the clock of a worker is wrong',
    happens: (site) => site.join({ args: ['--require', AHEAD] }),
    doctor: { check: 'clock', says: /ahead of the database|ahead/ },
    fix: {
      does: 'let NTP set it, and restart the worker',
      act: async (site) => site.fleet.at(-1)?.signal('SIGTERM'),
    },
  },
  revoked('nothing is claimed', 'UPDATE', 'inbox'),
  revoked('jobs run and never end', 'INSERT', 'inbox_archive'),
  revoked('vanished workers are not cleared away', 'DELETE', 'inbox_claims'),
  revoked('nothing is claimed, and all was well yesterday', 'SELECT', 'inbox'),
  {
    symptom: 'nothing is claimed since a change of security',
    cause: 'row level security was switched on',
    async happens(site) {
      await site.sql('ALTER TABLE holdfast.inbox ENABLE ROW LEVEL SECURITY');
      const [id] = await site.add('work', 3);
      return id;
    },
    doctor: { check: 'row level security', says: /holdfast.inbox/ },
    fix: 'printed',
  },
  {
    symptom: 'workers start and end at once',
    cause: 'their role may not log in any more',
    async happens(site) {
      await site.sql('ALTER ROLE app_worker NOLOGIN');
      await site.kill();
      await site.add('work', 3);
    },
    doctor: { check: 'workers', says: /No worker (is alive|sends heartbeats)/ },
    fix: {
      does: 'let it log in, and start workers',
      async act(site) {
        await site.sql('ALTER ROLE app_worker LOGIN');
        await site.join();
      },
    },
  },
  {
    symptom: 'long statements of handlers fail',
    cause: 'the role of the workers has a statement_timeout',
    happens: (site) =>
      site.sql(`ALTER ROLE app_worker SET statement_timeout = '100ms'`).then(() => undefined),
    doctor: { check: 'statement_timeout', says: /app_worker/ },
    fix: 'printed',
  },
];
