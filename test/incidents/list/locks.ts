/** Sessions that hold what others need. */
import type { Incident } from '../incident.js';

export const LOCKS: readonly Incident[] = [
  {
    symptom: 'everything stands still at once',
    cause: 'a session holds a lock on the table of the queue',
    async happens(site) {
      await site.session('BEGIN', 'LOCK TABLE holdfast.inbox IN ACCESS EXCLUSIVE MODE');
    },
    doctor: { check: 'locks', says: /psql/ },
    fix: 'printed',
  },
  {
    symptom: 'one job does not start, others do',
    cause: 'a session holds the lock of its row',
    async happens(site) {
      await site.hf.pause('inbox', { type: 'work' });
      const [id] = await site.add('work', 1);
      await site.session('BEGIN', 'SELECT FROM holdfast.inbox FOR UPDATE');
      await site.hf.resume('inbox', { type: 'work' });
      return id;
    },
    doctor: { check: 'stopped', says: /lock/ },
    explain: ['row_locked'],
    fix: 'printed',
  },
  {
    symptom: 'vanished workers are not declared dead',
    cause: 'a session holds the rows of the queues',
    async happens(site) {
      await site.session('BEGIN', `SELECT FROM holdfast.queues FOR UPDATE`);
    },
    doctor: { check: 'maintenance lock', says: /psql/ },
    fix: 'printed',
  },
  {
    symptom: 'statements get slower by the hour',
    cause: 'a transaction that was left open holds back vacuum',
    async happens(site) {
      await site.session(
        'BEGIN ISOLATION LEVEL REPEATABLE READ',
        'SELECT count(*) FROM holdfast.inbox',
      );
      await site.add('work', 20);
    },
    doctor: { check: 'vacuum horizon', says: /psql/ },
    fix: 'printed',
  },
  {
    symptom: 'statements get slower by the hour, and no session is to blame',
    cause: 'a prepared transaction was forgotten',
    async happens(site) {
      const psql = await site.session(
        'BEGIN',
        'CREATE TABLE public.forgotten (n integer)',
        `PREPARE TRANSACTION 'forgotten'`,
      );
      await psql.end();
      await site.add('work', 20);
    },
    doctor: { check: 'vacuum horizon', says: /prepared/ },
    fix: 'printed',
  },
];
