/** Every address of the API, its method and what answers it. */
import * as acts from './act/acts.js';
import { bulk } from './act/bulk.js';
import * as reads from './read/reads.js';

interface ReadRoute {
  readonly method: 'GET';
  readonly path: string;
  /** The same answer serves for so long. Default a second. */
  readonly keptMs?: number;
  readonly read: reads.Read;
}

interface ActRoute {
  readonly method: 'POST';
  readonly path: string;
  readonly act: acts.Act;
}

export type Route = ReadRoute | ActRoute;

const get = (path: string, read: reads.Read, keptMs = 1_000): Route => ({
  method: 'GET',
  path,
  read,
  keptMs,
});
const post = (path: string, act: acts.Act): Route => ({ method: 'POST', path, act });

export const ROUTES: readonly Route[] = [
  get('api/session', reads.session, 0),
  get('api/jobs', reads.jobs),
  get('api/jobs/count', reads.count),
  get('api/jobs/:id', reads.job, 500),
  get('api/workers', reads.workers),
  get('api/ring', reads.ring),
  get('api/dead-letters', reads.deadLetterGroups),
  get('api/queues', reads.queues),
  get('api/schedules', reads.schedules),
  get('api/limits', reads.limits, 2_000),
  get('api/lab', reads.lab, 500),
  get('api/health', reads.health, 5_000),
  get('api/audit', reads.audit),
  post('api/jobs/act', acts.act),
  post('api/jobs/bulk', bulk),
  post('api/jobs/replay', acts.replay),
  post('api/jobs/:id/run', acts.runJob),
  post('api/queues/:queue/pause', acts.pauseQueue),
  post('api/queues/:queue/resume', acts.resumeQueue),
  post('api/workers/drain', acts.drain),
  post('api/schedules/act', acts.schedule),
  post('api/limits/act', acts.limit),
  post('api/lab/act', acts.lab),
];

function paramsOf(pattern: string, path: string): Record<string, string> | null {
  const [wanted, given] = [pattern.split('/'), path.split('/')];
  if (wanted.length !== given.length) return null;
  const params: Record<string, string> = {};
  for (const [place, part] of wanted.entries()) {
    const text = given[place] as string;
    if (!part.startsWith(':')) {
      if (part !== text) return null;
    } else if (text === '') return null;
    else params[part.slice(1)] = text;
  }
  return params;
}

export interface Matched {
  readonly route: Route;
  readonly params: Readonly<Record<string, string>>;
}

/** All that the path fits, whatever their methods; a plain word comes before a `:name`. */
export function matching(path: string): Matched[] {
  return ROUTES.flatMap((route) => {
    const params = paramsOf(route.path, path);
    return params ? [{ route, params }] : [];
  }).sort((a, b) => Object.keys(a.params).length - Object.keys(b.params).length);
}
