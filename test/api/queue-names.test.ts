/** Names of queues that a project declares: the compiler checks them wherever a queue is named, in the types that are shipped. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** Each of them names the queue `oders`. */
const WRONG = [
  "job('a', { queue: 'oders' })",
  "workflow('a', { queue: 'oders' })",
  "outbox(hf, { queue: 'oders' })",
  "webhooks(hf, { queue: 'oders' })",
  "hf.worker({ queues: ['oders'] })",
  "hf.createQueue('oders')",
  "hf.configureQueue('oders', {})",
  "hf.dropQueue('oders')",
  "hf.pause('oders')",
  "hf.jobs({ queue: 'oders' })",
  "hf.job('id', { queue: 'oders' })",
  "hf.cancel(['id'], { queue: 'oders' })",
  "hf.wait('id', { queue: 'oders' })",
  "hf.runs({ queue: 'oders' })",
  "hf.steps('id', { queue: 'oders' })",
  "hf.audit({ queue: 'oders' })",
  "hf.limits.set({ queue: 'oders' }, null)",
  "hf.schedules.list({ queue: 'oders' })",
  "hf.deadLetters.list({ queue: 'oders' })",
  "hf.archive.replay('all', { queue: 'oders' })",
  "drain(hf, { worker, queue: 'oders' })",
  "expectEnqueued({ queue: 'oders' })",
];

/** What a view has can be passed on. */
const RIGHT = [
  "job('a', { queue: 'orders' })",
  "job('a', { queue: 'inbox' })",
  'hf.cancel([run.id], { queue: run.queue })',
  'hf.cancel([summary.id], { queue: summary.queue })',
  'hf.pause(message.queue)',
  "event.kind === 'claimed' && hf.pause(event.queue)",
  'entry.queue && hf.pause(entry.queue)',
  'worker.handle(sent, ({ queue }) => hf.pause(queue))',
  'hf.worker({ queues: hooks.queues })',
  'expectEnqueued({ queue: enqueued.queue })',
];

const CODE = `
import { type AuditEntry, type Holdfast, type JobSummary, job, type Run, type Worker, type WorkerEvent, workflow } from 'holdfast';
import { type Message, outbox } from 'holdfast/outbox';
import { type Webhooks, webhooks } from 'holdfast/webhooks';
import { drain, type EnqueuedJob, expectEnqueued } from '@holdfast/testing';
declare module 'holdfast' { interface Register { queues: 'orders' | 'mail' } }
declare const hf: Holdfast, worker: Worker, run: Run, summary: JobSummary, message: Message;
declare const event: WorkerEvent, entry: AuditEntry, hooks: Webhooks, enqueued: EnqueuedJob;
const sent = job('sent');
export const right = [${RIGHT.map((one) => `() => ${one},`).join('\n')}];
export const wrong = [
${WRONG.map((one) => `  // @ts-expect-error\n  () => ${one},`).join('\n')}
];
`;

test('a name that is not declared does not compile, and those of views do', () => {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-queues-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  mkdirSync(join(folder, 'node_modules'));
  for (const name of ['holdfast', '@holdfast', '@types'])
    symlinkSync(join(ROOT, 'node_modules', name), join(folder, 'node_modules', name));
  writeFileSync(join(folder, 'app.mts'), CODE);
  const tsc = join(ROOT, 'node_modules/typescript/bin/tsc');
  const options = ['--module', 'nodenext', '--target', 'es2023', '--strict', '--noEmit'];
  const args = [tsc, ...options, '--skipLibCheck', '--pretty', 'false', 'app.mts'];
  const { stdout, stderr } = spawnSync(process.execPath, args, { cwd: folder, encoding: 'utf8' });
  expect(`${stdout}${stderr}`).toBe('');
});
