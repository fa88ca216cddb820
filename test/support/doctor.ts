/** The doctor on a database: what it finds, within limits of the test's own. */
import { diagnose } from '../../packages/holdfast/src/cli/commands/setup/doctor.js';
import { Session } from '../../packages/holdfast/src/cli/session.js';
import {
  type Finding,
  LIMITS,
  type Limits,
} from '../../packages/holdfast/src/inspect/doctor/doctor.js';

export interface Examination {
  readonly limits?: Partial<Limits>;
  readonly folder?: string;
  /** Whether the schema is compared with what the migrations make, which is most of the work. Default: yes. */
  readonly compared?: boolean;
}

export async function examine(url: string, options: Examination = {}): Promise<Finding[]> {
  return examineWith(new Session(url, 'holdfast'), options);
}

/** The session is closed then. */
export async function examineWith(
  session: Session,
  { limits = {}, folder = '/nowhere', compared = true }: Examination = {},
): Promise<Finding[]> {
  if (!compared) refuse(session, /^CREATE SCHEMA holdfast_doctor_/);
  try {
    return await diagnose(session, { ...LIMITS, ...limits }, folder);
  } finally {
    await session.close();
  }
}

/** A check that fails is a finding of its own, and does not hide the others. */
function refuse({ pool }: Session, wanted: RegExp): void {
  pool.on('connect', (client) => {
    const query = client.query as (...args: unknown[]) => unknown;
    client.query = ((what: unknown, ...rest: unknown[]) =>
      typeof what === 'string' && wanted.test(what)
        ? Promise.reject(new Error('not in this test'))
        : query.call(client, what, ...rest)) as typeof client.query;
  });
}
