/**
 * The fenced code blocks of the documentation, with the page and the line where each stands, and the
 * names that its TypeScript takes for granted.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

export interface Block {
  readonly page: string;
  /** The line of the opening fence, counted from 1. */
  readonly line: number;
  /** What stands behind the opening fence: `ts`, `sql run`, … */
  readonly info: string;
  /** The heading of the second level above it. */
  readonly section: string;
  readonly code: string;
}

export function documentationBlocks(root: string): Block[] {
  const docs = readdirSync(join(root, 'docs'), { recursive: true }).map(String);
  const readmes = readdirSync(join(root, 'packages'))
    .map((name) => join('packages', name, 'README.md'))
    .filter((page) => existsSync(join(root, page)));
  const pages = ['README.md', ...readmes, ...docs.map((name) => join('docs', name)).sort()];
  return pages
    .filter((page) => page.endsWith('.md'))
    .flatMap((page) => blocksOf(page, readFileSync(join(root, page), 'utf8')));
}

/** What an `@example` takes for granted, beside the names of the prelude. */
const IMPORTS = [
  "import { readFileSync, writeFileSync } from 'node:fs'; import { createServer } from 'node:http'; import { register } from 'prom-client';",
  "import { Cancel, DeadLetter, guardTable, holdfast, isStaleFence, job, RetryLater, shardedKey, shardedKeys, Snooze, StepFailed, workflow } from 'holdfast';",
  "import { collectMetrics, metricsFetch, metricsHandler, meterMetrics, registerMetrics } from 'holdfast/metrics';",
  "import { webhooks, type EndpointDisabled } from 'holdfast/webhooks';",
  "import { github, receive, Refused, slack, standardWebhooks, stripe, type Received, type Verifier } from 'holdfast/receive';",
  "import { defineConfig } from 'holdfast/config';",
  "import { headersOf, outbox, relay, Unavailable, type Message, type Sink } from 'holdfast/outbox';",
  "import { type EventLog, eventLog, type LoggedEvent, type NewEvent, project, projection, projections } from 'holdfast/projections';",
  "import { httpSink } from 'holdfast/outbox/http'; import { kafkaSink } from 'holdfast/outbox/kafka';",
  "import { natsSink } from 'holdfast/outbox/nats'; import { rabbitSink } from 'holdfast/outbox/rabbitmq';",
  "import { redisSink } from 'holdfast/outbox/redis';",
  "import { fromDrizzle, fromKnex, fromKysely, fromMikroOrm, fromPg, fromPostgresJs, fromPrisma, fromSequelize, fromSlonik, fromTypeOrm } from 'holdfast/adapters';",
  "import { advance, allEnqueued, clearJobs, cloneDatabase, drain, dropDatabase, expectEnqueued, expectNotEnqueued, makeJob, makeTemplate, startPglite } from '@holdfast/testing';",
  "import { replayHistory, survivesFaults, testJob, testWorkflow, useHoldfast } from '@holdfast/testing';",
  "import { dashboard, nodeHandler, serveDashboard } from '@holdfast/dashboard';",
  "import { HoldfastModule } from '@holdfast/nest';",
  "import { findEmbedded, startEmbedded } from '@holdfast/embedded';",
].join(' ');

/** The `@example` of every JSDoc comment in the sources of the packages. */
export function exampleBlocks(root: string): Block[] {
  const names = readdirSync(join(root, 'packages'), { recursive: true }).map(String);
  const sources = names.filter((name) => /^[^/]+\/src\/.*(?<!\.test)\.ts$/.test(name));
  return sources.flatMap((name) => {
    const text = readFileSync(join(root, 'packages', name), 'utf8');
    return [...text.matchAll(/^ *\* @example((?:(?!\*\/|\* @)[\s\S])*)/gm)].map((found) => {
      const code = (found[1] as string).replace(/\n *\* ?/g, '\n').trim();
      const line = text.slice(0, found.index).split('\n').length - 1;
      return { page: name, line, info: 'ts', section: '', code: `${IMPORTS}\n${code}` };
    });
  });
}

function blocksOf(page: string, text: string): Block[] {
  const blocks: Block[] = [];
  let section = '';
  let open: { line: number; info: string; code: string[] } | null = null;
  for (const [index, line] of text.split('\n').entries()) {
    const fence = /^\s*```(.*)$/.exec(line);
    if (!fence) {
      if (open) open.code.push(line);
      else section = /^## (.*)/.exec(line)?.[1] ?? section;
    } else if (open) {
      blocks.push({ page, section, ...open, code: open.code.join('\n') });
      open = null;
    } else {
      open = { line: index + 1, info: (fence[1] as string).trim(), code: [] };
    }
  }
  if (open) throw new Error(`${page}:${open.line}: the block is not closed`);
  return blocks;
}

/** Declared for every block; a block may also declare or import a name of its own in their place. */
export const PRELUDE = `
export {};
type Adapters = typeof import('holdfast/adapters');
type TransactionOf<Name extends keyof Adapters> = Parameters<Adapters[Name]>[0];
interface Transactional<Name extends keyof Adapters> {
  transaction<Value>(work: (tx: TransactionOf<Name>) => Promise<Value>): Promise<Value>;
}
declare global {
  const hf: import('holdfast').Holdfast;
  const worker: import('holdfast').Worker;
  const sendReceipt: import('holdfast').JobDefinition<{ orderId: number }, { orderId: number }>;
  const hooks: import('holdfast/webhooks').Webhooks;
  const acme: import('holdfast/webhooks').Endpoint;
  const orders: import('holdfast/projections').EventLog<{ 'order.paid': { cents: number } }>;
  const orderTotals: import('holdfast/projections').Projection;
  const pool: import('pg').Pool;
  const client: import('pg').PoolClient;
  const mail: {
    send(orderId: number, options?: { idempotencyKey?: string; signal?: AbortSignal }): Promise<string>;
    /** Those that were refused, and why. */
    sendAll(orderIds: number[], options?: { signal?: AbortSignal }): Promise<Map<number, string>>;
  };
  interface Order { id: number; sku: string; total: number }
  interface Receipt { messageId: string }
  const order: Order;
  const run: import('@holdfast/testing').TestRun<{ approved: { by: string } }> & { readonly id: string };
  const body: import('holdfast').WorkflowBody<Order, { approved: { by: string }; refused: string }>;
  const checkout: import('holdfast').WorkflowDefinition<Order, { approved: { by: string }; refused: string }>;
  const flow: import('holdfast').Flow<{ approved: { by: string }; refused: string }, Order>;
  const bank: {
    readonly charges: readonly string[];
    charge(of: { id: number | string; total: number }, options: { key: string; signal?: AbortSignal }): Promise<{ id: string }>;
    refund(chargeId: string, options: { key: string }): Promise<void>;
    refundByOrder(orderId: number, options: { key: string }): Promise<void>;
  };
  const print: { label(orderId: number): Promise<string>; slip(orderId: number): Promise<string> };
  const reports: {
    start(month: string, options: { key: string }): Promise<string>;
    urlOf(id: string): Promise<string | null>;
  };
  const Sentry: {
    captureException(
      error: unknown,
      context: { tags: Record<string, string>; extra: Record<string, unknown>; fingerprint: string[] },
    ): string;
  };
  const events: import('holdfast/outbox').Outbox<{ 'order.paid': { total: number } }>;
  const sink: import('holdfast/outbox').Sink;
  const broker: { send(data: unknown, headers: Record<string, string>): Promise<void> };
  const nats: {
    connection: import('holdfast/outbox/nats').NatsConnectionLike;
    headers: () => import('holdfast/outbox/nats').NatsHeadersLike;
  };
  const redis: import('holdfast/outbox/redis').RedisLike;
  const rabbit: import('holdfast/outbox/rabbitmq').RabbitConnectionLike;
  const producer: import('holdfast/outbox/kafka').KafkaProducerLike;
  const kysely: import('kysely').Kysely<{ orders: { id: number }; receipts: { order_id: number } }>;
  const drizzle: import('drizzle-orm/node-postgres').NodePgDatabase;
  const knex: import('knex').Knex;
  const typeorm: Transactional<'fromTypeOrm'>;
  const sequelize: Transactional<'fromSequelize'>;
  const slonik: Transactional<'fromSlonik'>;
  const mikro: { transactional<Value>(work: (em: TransactionOf<'fromMikroOrm'>) => Promise<Value>): Promise<Value> };
  const sql: import('postgres').Sql;
  interface PrismaTransaction {
    order: { create(args: { data: { id: number } }): Promise<unknown> };
    receipt: { create(args: { data: { orderId: number } }): Promise<unknown> };
    $queryRawUnsafe(text: string, ...values: unknown[]): Promise<unknown>;
  }
  const prisma: {
    $transaction<Value>(work: (tx: PrismaTransaction) => Promise<Value>): Promise<Value>;
  };
}
`;

/**
 * The block as a module whose line numbers are those of the page. Its imports stay at the top; what
 * follows them becomes the body of an async function, so that `await` and `return` may be used. A block that
 * exports something is a module already.
 */
export function asModule(block: Block): string {
  if (/^export\b/m.test(block.code)) return `${'\n'.repeat(block.line)}${block.code}\n`;
  const lines = block.code.split('\n');
  const last = lines.findLastIndex((line) => /^import\b.*|^\} from '/.test(line));
  const begin = 'export async function block(): Promise<unknown> {';
  if (last < 0) lines[0] = `${begin} ${lines[0]}`;
  else lines[last] += ` ${begin}`;
  return `${'\n'.repeat(block.line)}${lines.join('\n')}\nreturn; }\n`;
}
