/**
 * The runbook walked through: each entry on an incident that was planted, with the commands that it prints. What is
 * said there must be seen, and every command of an entry must be among those that are tried for it.
 */
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import { clearAll, plantArchived, plantJob, plantWorker } from '../support/cli-plant.js';
import { call } from '../support/cli-run.js';
import { testDatabase } from '../support/database.js';

const db = testDatabase();
/** Who is on call: may look at everything, and not make the schema to compare with, which takes the doctor a second. */
let onCall = '';
const user = `holdfast_on_call_${process.pid}`;
beforeAll(async () => {
  await db.hf.createQueue('orders', { ordering: 'key' });
  await db.rows(`CREATE ROLE ${user} LOGIN PASSWORD 'secret' IN ROLE pg_read_all_stats;
    GRANT USAGE ON SCHEMA holdfast TO ${user}; GRANT SELECT ON ALL TABLES IN SCHEMA holdfast TO ${user}`);
  const url = new URL(db.url);
  [url.username, url.password] = [user, 'secret'];
  onCall = url.href;
});
afterAll(async () => void (await db.rows(`DROP OWNED BY ${user}; DROP ROLE ${user}`)));
beforeEach(async () => {
  await clearAll(db);
  await db.rows('DELETE FROM holdfast.schedules');
  await db.rows('UPDATE holdfast.queues SET maintained_at = now()');
});

/** A command of the page, with what stands for its words in capitals, and what must be seen. */
type Step = readonly [command: string, seen: RegExp, words?: Readonly<Record<string, string>>];

/** The exit code of a doctor that has found something. */
const FOUND = 3;

async function walk(steps: readonly Step[]): Promise<string[]> {
  const said: string[] = [];
  for (const [command, seen, words = {}] of steps) {
    const line = command.replace(/\b[A-Z][A-Z_]+\b/g, (word) => words[word] ?? word);
    // Where there is no terminal to ask, nothing is done without --yes; top goes on for ever.
    const more = [
      ...(/ (cancel|retry|discard|replay|delete)\b/.test(line) ? ['--yes'] : []),
      ...(/^holdfast top/.test(line) ? ['--once'] : []),
    ];
    const args = [...line.split(' ').slice(1), ...more];
    const asked = args[0] === 'doctor' ? onCall : db.url;
    const { code, out, err } = await call(args, { env: { DATABASE_URL: asked } });
    expect([0, FOUND], `${line}: ${err}`).toContain(code);
    expect(out + err, line).toMatch(seen);
    said.push(out);
  }
  return said;
}

/** The commands of an entry that were tried, by its heading. */
const tried = new Map<string, Set<string>>();

function entry(heading: string, plant: () => Promise<readonly Step[]>): void {
  test(heading, async () => {
    const steps = await plant();
    const known = tried.get(heading) ?? new Set();
    tried.set(heading, known);
    for (const [command] of steps) known.add(command);
    await walk(steps);
  });
}

const HOUR = 3_600_000;
const TYPE = 'send_receipt';

describe('the first five minutes', () => {
  entry('The first five minutes', async () => {
    await plantWorker(db, {
      id: 'w1',
      handles: { inbox: { fax: 1 }, orders: { send_receipt: 1 } },
    });
    const late = await plantJob(db, { dueInMs: -HOUR });
    const done = await plantArchived(db);
    return [
      ['holdfast status', /inbox[\s\S]*1 worker alive/],
      ['holdfast doctor', /PROBLEM +unhandled: .*no live worker handles/],
      ['holdfast top', /inbox/],
      ['holdfast jobs ls --type TYPE --oldest', new RegExp(late), { TYPE }],
      ['holdfast explain JOB_ID', /send_receipt[\s\S]*handle/, { JOB_ID: late }],
      ['holdfast explain JOB_ID', /completed/, { JOB_ID: done }],
      ['holdfast jobs show JOB_ID', /completed/, { JOB_ID: done }],
      ['holdfast ring --partition-key KEY', /w1/, { KEY: 'order:9182' }],
    ];
  });
});

describe('alerts', () => {
  test('HoldfastDatabaseDown', async () => {
    tried.set('HoldfastDatabaseDown', new Set(['holdfast doctor']));
    const nowhere = await call(['doctor', '--url', 'postgres://postgres:x@127.0.0.1:1/postgres']);
    expect(nowhere).toMatchObject({ code: 1, err: expect.stringContaining('ECONNREFUSED') });
    const refused = new URL(db.url);
    refused.password = 'wrong';
    const login = await call(['doctor', '--url', refused.href]);
    expect(login).toMatchObject({ code: 1, err: expect.stringContaining('28P01') });
  });

  test('HoldfastGrantMissing', async () => {
    tried.set('HoldfastGrantMissing', new Set(['holdfast doctor']));
    await db.rows(`REVOKE SELECT ON holdfast.orders FROM ${user}`);
    const grant = `GRANT SELECT ON holdfast.orders TO ${user};`;
    const [said] = await walk([['holdfast doctor', /lacks SELECT on holdfast.orders/]]);
    expect(said).toContain(grant);
    await db.rows(grant);
    await walk([['holdfast doctor', /may look, and change nothing/]]);
  });

  entry('HoldfastNotScraped', async () => [['holdfast status', /inbox/]]);

  entry('HoldfastNoWorkers', async () => {
    await plantWorker(db, { id: 'gone', status: 'dead', silentMs: HOUR });
    await plantWorker(db, { id: 'home', status: 'dead', silentMs: HOUR });
    await db.rows(`UPDATE holdfast.workers SET left_at = last_seen_at WHERE id = 'home'`);
    return [
      ['holdfast workers ls --all', /gone +vanished[\s\S]*home +left/],
      ['holdfast migrate', /up to date|nothing|already/i],
    ];
  });

  entry('HoldfastUnhandledJobs', async () => {
    await plantWorker(db, { id: 'w1', handles: { inbox: { fax: 1 } } });
    const id = await plantJob(db, { dueInMs: -HOUR });
    return [
      ['holdfast jobs ls --type TYPE --oldest', new RegExp(id), { TYPE }],
      ['holdfast explain JOB_ID', /handle/, { JOB_ID: id }],
      ['holdfast workers ls', /w1 +alive/],
      ['holdfast jobs cancel --type TYPE', /1 cancelled/, { TYPE }],
    ];
  });

  entry('HoldfastQueueStopped', async () => {
    const inbox = {
      running: 1,
      held: 1,
      handlers: 1,
      fullMs: HOUR,
      started: { [TYPE]: [0, HOUR] },
    };
    const load = { running: 1, held: 1, queues: { inbox } };
    await plantWorker(db, { id: 'w1', metadata: { concurrency: 1, load } });
    const hung = await plantJob(db, { status: 'processing' });
    await db.rows(`UPDATE holdfast.inbox SET claimed_at = now() - interval '1 hour'`);
    const id = await plantJob(db, { dueInMs: -120_000 });
    return [
      [
        'holdfast status',
        /STOPPED for 2 min[\s\S]*1 due job of "inbox" \(send_receipt\) does not start/,
      ],
      [
        'holdfast doctor',
        new RegExp(`PROBLEM +stopped: .*no free handler[\\s\\S]*jobs cancel ${hung}`),
      ],
      ['holdfast explain JOB_ID', /no free handler/, { JOB_ID: id }],
      ['holdfast workers drain WORKER_ID', /w1/, { WORKER_ID: 'w1' }],
      ['holdfast jobs cancel JOB_ID', /cancelled/, { JOB_ID: hung }],
    ];
  });

  entry('HoldfastOldestPending', async () => {
    await plantWorker(db, { id: 'w1' });
    const id = await plantJob(db, { dueInMs: -HOUR });
    await db.hf.pause('inbox');
    return [
      ['holdfast jobs ls --status pending --oldest', new RegExp(id)],
      ['holdfast explain JOB_ID', /paused[\s\S]*holdfast queues resume inbox/, { JOB_ID: id }],
      ['holdfast top', /paused/],
      ['holdfast queues resume QUEUE', /open/, { QUEUE: 'inbox' }],
      [
        'holdfast queues resume QUEUE --type TYPE',
        /open already/,
        { QUEUE: 'inbox', TYPE: 'mail' },
      ],
      ['holdfast queues set QUEUE --age-after 1m', /was 10 min/, { QUEUE: 'inbox' }],
      ['holdfast explain JOB_ID', /next|free/, { JOB_ID: id }],
      ['holdfast doctor', /has waited/],
      ['holdfast jobs show JOB_ID', /pending/, { JOB_ID: id }],
      ['holdfast jobs cancel JOB_ID', /cancelled/, { JOB_ID: id }],
    ];
  });

  entry('HoldfastBacklogGrowing', async () => {
    await plantWorker(db, { id: 'w1' });
    await plantJob(db);
    return [['holdfast top', /inbox[\s\S]*w1/]];
  });

  entry('HoldfastSlowStart', async () => {
    await plantWorker(db, { id: 'w1' });
    await plantJob(db, { dueInMs: -60_000 });
    return [
      ['holdfast status', /1 min|60 s/],
      ['holdfast top', /BUSY/i],
      ['holdfast doctor', /notifications/],
    ];
  });

  entry('HoldfastQueuePaused', async () => {
    await db.hf.pause('orders');
    return [
      ['holdfast queues ls', /orders.*paused/],
      ['holdfast queues resume QUEUE', /open/, { QUEUE: 'orders' }],
    ];
  });

  entry('HoldfastScheduleOverdue', async () => {
    await db.hf.schedule('nightly', { every: '1h', job: job('report'), payload: {} });
    await db.rows(`UPDATE holdfast.schedules SET next_at = now() - interval '5 minutes'`);
    await plantWorker(db, { id: 'w1', handles: { orders: { step: 1 } } });
    return [
      ['holdfast schedules ls', /nightly +inbox .*overdue/],
      ['holdfast workers ls', /w1/],
      ['holdfast doctor', /PROBLEM +schedules: .*"inbox" has been due for 5 min/],
      ['holdfast schedules pause NAME', /paused/, { NAME: 'nightly' }],
    ];
  });

  entry('HoldfastScheduleMissed', async () => {
    const nightly = { every: '1h', job: job('report'), payload: {}, catchUp: 'none' } as const;
    await db.hf.schedule('nightly', nightly);
    await db.rows('UPDATE holdfast.schedules SET missed = 7');
    return [
      ['holdfast schedules ls', /nightly/],
      ['holdfast schedules show NAME', /catch up +none[\s\S]*missed +7/, { NAME: 'nightly' }],
      ['holdfast workers ls --all', /./],
      ['holdfast schedules run NAME', /[0-9a-f-]{36}/, { NAME: 'nightly' }],
    ];
  });

  entry('HoldfastDeadLetters', async () => {
    const error = 'Error: no such mailbox';
    const id = await plantJob(db, { status: 'dead_letter', parked: true, error });
    await plantJob(db, { status: 'dead_letter', parked: true, type: 'fax' });
    return [
      ['holdfast dead-letters groups', new RegExp(`1 .*${id}.*no such mailbox`)],
      ['holdfast dead-letters ls', new RegExp(`${id}.*no such mailbox`)],
      ['holdfast jobs show JOB_ID', /no such mailbox/, { JOB_ID: id }],
      ['holdfast dead-letters retry --type TYPE', /1 retried/, { TYPE }],
      ['holdfast dead-letters discard --type TYPE', /1 discarded/, { TYPE: 'fax' }],
    ];
  });

  entry('HoldfastNewDeadLetters', async () => {
    for (let n = 0; n < 3; n++) await plantJob(db, { status: 'dead_letter', error: 'Error: no' });
    return [
      ['holdfast dead-letters groups --type TYPE', /^ *3 .*Error: no$/m, { TYPE }],
      ['holdfast dead-letters ls --type TYPE', /(Error: no[\s\S]*){3}/, { TYPE }],
      ['holdfast queues pause QUEUE', /paused/, { QUEUE: 'inbox' }],
    ];
  });

  entry('HoldfastFailing', async () => {
    const recent = { ms: 60_000, queues: { inbox: { failed: 90, completed: 10 } } };
    await plantWorker(db, { metadata: { load: { recent } } });
    await plantJob(db, { attempts: 2, error: 'Error: 429 too many requests' });
    return [
      ['holdfast doctor', /failing attempts: 90 of 100 attempts on "inbox" failed/],
      ['holdfast top', /FAIL\/S[\s\S]*1\.5 +open/],
      ['holdfast jobs ls --type TYPE --status pending', /429 too many requests/, { TYPE }],
    ];
  });

  entry('HoldfastExpiredLeases', async () => {
    await plantWorker(db, { id: 'w2', status: 'dead', silentMs: HOUR });
    const id = await plantJob(db, { status: 'processing', worker: 'w2', leaseInMs: -HOUR });
    return [
      ['holdfast jobs ls --status processing --oldest', new RegExp(id)],
      ['holdfast explain JOB_ID', /lease expired 1 h ago; worker w2 \(dead/, { JOB_ID: id }],
      ['holdfast workers ls', /No worker is registered/],
    ];
  });

  entry('HoldfastLeasesLost', async () => {
    const entries = [{ attempt: 1, at: new Date(), worker: 'w1', outcome: 'vanished' }];
    const id = await plantJob(db, { attempts: 1, history: entries });
    return [['holdfast jobs show JOB_ID', /w1[\s\S]*vanished|vanished[\s\S]*w1/, { JOB_ID: id }]];
  });

  entry('HoldfastRecoveries', async () => {
    await plantWorker(db, { id: 'w2', status: 'dead', silentMs: HOUR });
    const error = 'The worker w2 vanished while it held this job.';
    const id = await plantJob(db, { status: 'dead_letter', error, crashes: 3 });
    const other = await plantJob(db, { crashes: 2 });
    return [
      ['holdfast workers ls --all', /w2 +vanished/],
      ['holdfast jobs ls --status dead_letter --error vanished', new RegExp(id)],
      ['holdfast jobs show JOB_ID', /crashes +2/, { JOB_ID: other }],
      ['holdfast jobs cancel JOB_ID', /cancelled/, { JOB_ID: other }],
    ];
  });

  entry('HoldfastWorkerReregistered', async () => {
    await plantWorker(db, { id: 'w1' });
    return [['holdfast workers ls', /w1 +alive/]];
  });

  entry('HoldfastSilentWorker', async () => {
    await plantWorker(db, { id: 'w1', silentMs: 120_000 });
    await db.rows(`UPDATE holdfast.queues SET maintained_at = now() - interval '10 minutes'`);
    return [
      ['holdfast workers ls', /w1 .*2 min/],
      [
        'holdfast doctor',
        /^PROBLEM +workers: No worker sends heartbeats: w1 \(2 min.*\) registered as alive/,
      ],
    ];
  });

  entry('HoldfastMaintenanceStopped', async () => {
    await plantWorker(db, { id: 'w1' });
    await db.rows(`UPDATE holdfast.queues SET maintained_at = now() - interval '10 minutes'`);
    return [
      ['holdfast workers ls', /w1/],
      [
        'holdfast doctor',
        /PROBLEM +maintenance: .*"inbox" began 10 min (\d+ s )?ago[\s\S]*maintenance lock|maintenance lock[\s\S]*PROBLEM +maintenance: .*"inbox" began 10 min (\d+ s )?ago/,
      ],
    ];
  });
});

describe('usual tasks', () => {
  entry('Usual tasks', async () => {
    await plantWorker(db, { id: 'w1', handles: { orders: { step: 1 } } });
    const id = await plantJob(db, { key: 'order:1' });
    await plantJob(db, { status: 'dead_letter', parked: true });
    return [
      ['holdfast migrate', /./],
      ['holdfast queues pause QUEUE', /paused/, { QUEUE: 'inbox' }],
      ['holdfast dead-letters ls', /dead_letter|send_receipt/],
      ['holdfast dead-letters retry --type TYPE', /1 retried/, { TYPE }],
      ['holdfast jobs cancel JOB_ID', /cancelled/, { JOB_ID: id }],
      ['holdfast archive ls', new RegExp(id)],
      ['holdfast archive replay JOB_ID', /replayed/, { JOB_ID: id }],
      ['holdfast audit ls --newer 1d', /replay[\s\S]*cancel[\s\S]*retry[\s\S]*pause/],
      ['holdfast ring --partition-key order:9182', /w1/],
      ['holdfast workers drain WORKER_ID', /w1/, { WORKER_ID: 'w1' }],
    ];
  });

  entry('After a failover or a restore', async () => [['holdfast status', /inbox/]]);
});

test('what the doctor says of a system that is well, where an entry asks it', async () => {
  const [said = ''] = await walk([['holdfast doctor', /0 problem/]]);
  const asked = {
    HoldfastHeartbeatLate: ['round trip'],
    HoldfastSlowStatements: ['locks', 'vacuum horizon', 'dead rows', 'round trip', 'connections'],
    HoldfastWorkerErrors: ['rights', 'connections'],
    'A hot key': ['bucket owners'],
  };
  for (const [heading, checks] of Object.entries(asked)) {
    tried.set(heading, new Set(['holdfast doctor']));
    for (const check of checks) expect(said).toMatch(new RegExp(`^(ok|note) +${check}: `, 'm'));
  }
});

/** By heading; what is only named in passing has no option and no argument. */
function printed(): Map<string, string[]> {
  const page = readFileSync(new URL('../../docs/runbook.md', import.meta.url), 'utf8');
  const found = new Map<string, string[]>();
  for (const part of page.split(/^#{2,3} /m).slice(1)) {
    const heading = part.slice(0, part.indexOf('\n'));
    const commands = [...part.matchAll(/`(holdfast [a-z][^`]*)`/g)].map(
      ([, line]) => line as string,
    );
    if (commands.length > 0) found.set(heading, commands);
  }
  return found;
}

test('every command of every entry was tried', () => {
  // The checklists say again what the entries say.
  const again = ['What must be there', 'The list to walk through'];
  const left = [...printed()].flatMap(([heading, commands]) =>
    commands
      .filter((line) => ![...(tried.get(heading) ?? [])].some((done) => done.startsWith(line)))
      .map((line) => `${heading}: ${line}`),
  );
  expect(left.filter((line) => !again.some((heading) => line.startsWith(heading)))).toEqual([
    // Tried with real locks in test/claim/locks.test.ts.
    'HoldfastQueueUnreadable: holdfast doctor',
    ...['doctor', 'status', 'explain', 'doctor'].map((verb) => `A locked table: holdfast ${verb}`),
  ]);
});

test('every line of a log that it quotes is one that is written', () => {
  const page = readFileSync(new URL('../../docs/runbook.md', import.meta.url), 'utf8');
  const QUOTED = {
    'the lease of a job was lost': 'worker/settle/in-flight.ts',
    'this worker was declared dead': 'worker/services/registration.ts',
    'the main thread made no progress': 'worker/lease/keeper-work.ts',
    'worker error': 'worker/worker.ts',
    'maintenance of': 'worker/services/service-loop.ts',
    'the keeper thread failed': 'worker/lease/keeper.ts',
    'grants are missing, so metrics are incomplete': 'api/look/gauges.ts',
    'the gauges of the queues could not be read for a scrape': 'api/look/gauges.ts',
  };
  for (const [words, file] of Object.entries(QUOTED)) {
    expect(page).toContain(`\`${words}`);
    const source = readFileSync(
      new URL(`../../packages/holdfast/src/${file}`, import.meta.url),
      'utf8',
    );
    expect(source).toContain(words);
  }
});
