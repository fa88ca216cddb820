/** How the server looks and sounds from here: what it says of itself, its settings, and the way there and back. */
import { receivesItself } from '../../inspect/doctor/notify.js';
import { type Line, readServer, type Server } from '../../inspect/doctor/server.js';
import { readSettings, type Setting } from '../../inspect/doctor/settings.js';
import { inTransaction, withClient } from '../../postgres/connect/pool.js';
import { engineExecutor } from '../../postgres/queryable.js';
import type { DoctorTarget, Round } from './doctor-round.js';

const RECEIVE_MS = 1_000;
const ROUND_TRIPS = 7;

export interface Meeting {
  readonly server: Server;
  readonly settings: readonly Setting[];
  readonly line: Line;
}

/** A limit that somebody has set for this user is a finding, and does not end the questions. Behind a pooler it leaves no trace. */
const UNLIMITED =
  'BEGIN READ ONLY; SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0';

async function roundTrips(ask: () => Promise<Server>) {
  const times: number[] = [];
  let [server, skewMs] = [await ask(), 0];
  for (let n = 0; n < ROUND_TRIPS; n++) {
    const [sent, from] = [Date.now(), performance.now()];
    server = await ask();
    const took = performance.now() - from;
    if (took <= Math.min(...times)) skewMs = server.nowMs - sent - took / 2;
    times.push(took);
  }
  return { server, times, skewMs };
}

/** Without a first connection there is nothing to say; whatever keeps it away is thrown. */
export function meet({ pool, schema }: DoctorTarget, round: Round): Promise<Meeting> {
  return withClient(pool, async (client) => {
    const db = engineExecutor(client, { prepare: false });
    const settings = (await round.attempt('settings', () => readSettings(db, schema))) ?? [];
    const { server, times, skewMs } = await inTransaction(
      client,
      () => roundTrips(() => readServer(db, schema)),
      UNLIMITED,
    );
    const announcedPid = (client as unknown as { processID: number }).processID;
    const { backendPid, replica } = server;
    const untried = announcedPid !== backendPid || replica;
    const received = untried
      ? null
      : await round.attempt('notifications', () =>
          withClient(pool, (other) =>
            receivesItself(client, other, AbortSignal.timeout(RECEIVE_MS)),
          ),
        );
    const roundTripMs = times.sort((a, b) => a - b)[ROUND_TRIPS >> 1] as number;
    return { server, settings, line: { announcedPid, backendPid, roundTripMs, skewMs, received } };
  });
}
