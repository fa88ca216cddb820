/** Who paused a queue, a type, a key or a schedule, when and why, by the audit. Of its acts the latest are read. */
import { text } from '../../postgres/statement.js';
import { type Answer, asks } from '../reading/asks.js';
import { moment, parsed } from '../reading/columns.js';

const MAX_ACTS = 10_000;

export const pauseActs = asks({
  name: 'pause_acts',
  text: `
SELECT a.act, a.queue, a.filter, a.changes, a.at, a.role, a.actor, a.reason
FROM (SELECT * FROM holdfast.audit ORDER BY at DESC LIMIT ${MAX_ACTS}) AS a
WHERE a.act IN ('pause', 'pause_schedule')
ORDER BY a.at DESC`,
  columns: {
    ...{ act: text, queue: text.orNull, filter: parsed, changes: parsed, at: moment, role: text },
    ...{ actor: text.orNull, reason: text.orNull },
  },
});

export type PauseAct = Answer<typeof pauseActs>;
