/** The commands about webhooks. */
import { type Command, command, flag, type Options, text, texts } from './command.js';
import { LIST, REASON, YES } from './parse/filters.js';

const endpoints = () => import('./commands/webhooks/endpoints.js');
const deliveries = () => import('./commands/webhooks/deliveries.js');

const OF: Options = { queue: text('NAME', 'the queue of webhooks(); default webhooks') };
const ACT: Options = { ...OF, ...REASON };
const { limit, after } = LIST;
const PAGE: Options = { limit: limit as never, after: after as never };

export const WEBHOOK_COMMANDS: readonly Command[] = [
  command('webhooks ls', 'list endpoints of webhooks and how they fare', {
    options: {
      tenant: text('NAME', 'of this tenant'),
      state: text('STATE', 'active or disabled'),
      ...OF,
      ...PAGE,
    },
    load: async () => (await endpoints()).runList,
  }),
  command('webhooks show ID', 'all that is known of one endpoint, but its secrets', {
    options: OF,
    load: async () => (await endpoints()).runShow,
  }),
  command('webhooks add TENANT URL', 'make an endpoint, and print its secret once', {
    detail:
      'Workers check where a URL leads each time they call it; webhooks test ID says at once.',
    options: {
      event: texts('PATTERN', 'order.paid, order.* or *; may be repeated; default *'),
      ordered: flag('one at a time, in the order in which they were sent'),
      concurrency: text('N', 'so many requests at once; default 5'),
      rate: text('N/TIME', 'so many requests in a time, such as 100/1m'),
      headers: text('JSON', 'headers of its requests; - for stdin'),
      ...ACT,
    },
    load: async () => (await endpoints()).runAdd,
  }),
  command('webhooks set ID', 'change an endpoint; what is not given stays', {
    detail:
      'Another origin (scheme, host or port) drops the headers of the old one, unless --headers is given too. ' +
      'Order cannot be changed.',
    options: {
      to: text('URL', 'where its webhooks go; those that wait go there too'),
      event: texts('PATTERN', 'order.paid, order.* or *; may be repeated; all that it wants'),
      headers: text('JSON', 'all of its headers, {} for none; - for stdin'),
      concurrency: text('N', 'so many requests at once'),
      rate: text('N/TIME', 'so many requests in a time, such as 100/1m, or none'),
      ...ACT,
    },
    load: async () => (await endpoints()).runSet,
  }),
  command('webhooks disable ID', 'hold its deliveries until it is enabled', {
    options: ACT,
    load: async () => (await endpoints()).runDisable,
  }),
  command('webhooks enable ID', 'send what was held, and what had spent its attempts', {
    options: ACT,
    load: async () => (await endpoints()).runEnable,
  }),
  command('webhooks rotate ID', 'give it a new secret, and print it once', {
    options: {
      overlap: text('TIME', 'how long the old one signs beside it; default 1d'),
      ...ACT,
    },
    load: async () => (await endpoints()).runRotate,
  }),
  command('webhooks rm ID', 'remove it; its deliveries are cancelled', {
    options: { ...YES, ...ACT },
    load: async () => (await endpoints()).runRemove,
  }),
  command(
    'webhooks test ID',
    'send a test, and say what came of it; exit code 1 unless it was taken',
    {
      options: { timeout: text('TIME', 'how long to wait for a worker; default 30s'), ...OF },
      load: async () => (await deliveries()).runTest,
    },
  ),
  command('webhooks deliveries [ID]', 'list attempts, the latest first; of one endpoint', {
    options: {
      message: text('ID', 'of this message'),
      failed: flag('only those that failed'),
      answer: flag('the first kilobyte of what was answered as well'),
      ...OF,
      ...PAGE,
    },
    load: async () => (await deliveries()).runList,
  }),
  command('webhooks resend ID...', 'send deliveries again, by the ids that deliveries lists', {
    options: { ...YES, ...ACT },
    load: async () => (await deliveries()).runResend,
  }),
];
