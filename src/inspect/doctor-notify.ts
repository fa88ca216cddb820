/**
 * Does a notification arrive? One connection listens and stays idle, as a sleeping worker does; another
 * one speaks. Behind a transaction pooler the listener hears nothing, because it owns no session.
 */
import { randomBytes } from 'node:crypto';
import type pg from 'pg';

/** True when it was heard before the signal was aborted. */
export async function hearsItself(
  listener: pg.ClientBase,
  speaker: pg.ClientBase,
  signal: AbortSignal,
): Promise<boolean> {
  const channel = `holdfast_doctor_${randomBytes(6).toString('hex')}`;
  let hear = (_: boolean) => {};
  const heard = new Promise<boolean>((resolve) => {
    hear = resolve;
  });
  const onMessage = (message: pg.Notification) => {
    if (message.channel === channel) hear(true);
  };
  const onTimeout = () => hear(false);
  listener.on('notification', onMessage);
  signal.addEventListener('abort', onTimeout);
  try {
    await listener.query(`LISTEN ${channel}`);
    await speaker.query('SELECT pg_notify($1, $2)', [channel, 'hello']);
    return await heard;
  } finally {
    listener.off('notification', onMessage);
    signal.removeEventListener('abort', onTimeout);
    await listener.query(`UNLISTEN ${channel}`);
  }
}
