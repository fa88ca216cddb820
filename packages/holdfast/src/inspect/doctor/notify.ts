/** Does a notification arrive at an idle listener? Behind a transaction pooler it does not: a listener owns no session there. */
import { randomBytes } from 'node:crypto';
import type pg from 'pg';

/** True when it was received before the signal was aborted. */
export async function receivesItself(
  listener: pg.ClientBase,
  speaker: pg.ClientBase,
  signal: AbortSignal,
): Promise<boolean> {
  const channel = `holdfast_doctor_${randomBytes(6).toString('hex')}`;
  let settle = (_: boolean) => {};
  const received = new Promise<boolean>((resolve) => {
    settle = resolve;
  });
  const onMessage = (message: pg.Notification) => {
    if (message.channel === channel) settle(true);
  };
  const onTimeout = () => settle(false);
  listener.on('notification', onMessage);
  signal.addEventListener('abort', onTimeout);
  try {
    await listener.query(`LISTEN ${channel}`);
    await speaker.query('SELECT pg_notify($1, $2)', [channel, 'hello']);
    return await received;
  } finally {
    listener.off('notification', onMessage);
    signal.removeEventListener('abort', onTimeout);
    await listener.query(`UNLISTEN ${channel}`);
  }
}
