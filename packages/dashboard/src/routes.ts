/** Every address of the API, its method and what answers it. */
import * as acts from './act/acts.js';
import { bulk } from './act/bulk.js';
import { projection } from './act/projections.js';
import * as runActs from './act/runs.js';
import * as webhookActs from './act/webhooks.js';
import { projections } from './read/projections.js';
import * as reads from './read/reads.js';
import * as runs from './read/runs.js';
import * as webhooks from './read/webhooks.js';

interface ReadRoute {
  readonly method: 'GET';
  readonly path: string;
  readonly read: reads.Read;
  /** The same answer serves for so long. */
  readonly keptMs: number;
}

interface ActRoute {
  readonly method: 'POST';
  readonly path: string;
  readonly act: acts.Act;
}

type Route = ReadRoute | ActRoute;

const get = (path: string, read: reads.Read, keptMs = 1_000): Route => {
  return { method: 'GET', path, read, keptMs };
};
const post = (path: string, act: acts.Act): Route => ({ method: 'POST', path, act });

export const ROUTES: readonly Route[] = [
  get('api/session', reads.session, 0),
  get('api/jobs', reads.jobs),
  get('api/jobs/count', reads.count),
  get('api/jobs/:id', reads.job, 500),
  get('api/runs', runs.runs),
  get('api/runs/waiting', runs.waiting, 2_000),
  get('api/runs/:id', runs.run, 500),
  get('api/runs/:id/value', runs.value),
  get('api/workers', reads.workers),
  get('api/ring', reads.ring),
  get('api/dead-letters', reads.deadLetterGroups),
  get('api/queues', reads.queues),
  get('api/schedules', reads.schedules),
  get('api/limits', reads.limits, 2_000),
  get('api/webhooks', webhooks.webhooks, 2_000),
  get('api/webhooks/:id', webhooks.webhook, 500),
  get('api/projections', projections, 1_000),
  get('api/lab', reads.lab, 500),
  get('api/health', reads.health, 5_000),
  get('api/audit', reads.audit),
  post('api/jobs/act', acts.act),
  post('api/jobs/bulk', bulk),
  post('api/jobs/replay', acts.replay),
  post('api/jobs/:id/run', acts.runJob),
  post('api/runs/:id/signal', runActs.signal),
  post('api/runs/:id/cancel', runActs.cancel),
  post('api/runs/:id/retry', runActs.retry),
  post('api/queues/:queue/pause', acts.pauseQueue),
  post('api/queues/:queue/resume', acts.resumeQueue),
  post('api/workers/drain', acts.drain),
  post('api/schedules/act', acts.schedule),
  post('api/limits/act', acts.limit),
  post('api/webhooks/:id/act', webhookActs.webhook),
  post('api/projections/act', projection),
  post('api/lab/act', acts.lab),
];

const patternOf = ({ path }: Route) => new RegExp(`^${path.replace(/:(\w+)/g, '(?<$1>[^/]+)')}$`);
const PATTERNS = ROUTES.map((route) => ({ route, pattern: patternOf(route) }));

/** All that the path fits, whatever their methods; a plain word comes before a `:name`. */
export function matching(path: string) {
  return PATTERNS.flatMap(({ route, pattern }) => {
    const found = pattern.exec(path);
    return found ? [{ route, params: { ...found.groups } }] : [];
  }).sort((a, b) => Object.keys(a.params).length - Object.keys(b.params).length);
}
