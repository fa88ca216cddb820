/**
 * Shares: what one worker reads of a queue, when not all workers can run all of its jobs.
 *
 * A job of type t and version r can be run by the members that handle t at version r or newer. During a
 * deploy these are not the same for every job, and a bucket of jobs must never belong to a worker that
 * cannot run them. So the versions of a type are cut into classes, (above, version], at the versions at
 * which members differ, and each class has a ring of exactly the members that can run it. Classes with the
 * same members have the same ring and are read together: one share in all, unless members differ. Together
 * the shares of all members cover every job that anybody can run exactly once. Pure; the list is a view.
 */
import { ringOwners } from './ring.js';

/** A live worker of one queue, with the newest version that it handles by type. Ids are unique. */
export interface Member {
  readonly id: string;
  readonly handles: Readonly<Record<string, number>>;
}

/** These buckets of the jobs whose version is above `above[type]` and at most `versions[type]`. */
export interface Share {
  readonly versions: Readonly<Record<string, number>>;
  readonly above: Readonly<Record<string, number>>;
  readonly buckets: readonly number[];
}

/** A worker that is not in the list, because it just joined or was declared dead, has no shares. */
export function sharesOf(me: string, members: readonly Member[]): Share[] {
  const mine = classesOf(members).filter(({ ids }) => ids.includes(me));
  return groupByMembers(mine).flatMap(({ ids, classes }) => {
    const buckets: number[] = [];
    for (const [bucket, owner] of ringOwners(ids).entries()) if (owner === me) buckets.push(bucket);
    // With more members than buckets some own none.
    if (buckets.length === 0) return [];
    return {
      versions: Object.fromEntries(classes.map(({ type, version }) => [type, version])),
      above: Object.fromEntries(classes.map(({ type, above }) => [type, above])),
      buckets,
    };
  });
}

export interface PublishedOwners {
  readonly types: readonly string[];
  /** The owner of each bucket. */
  readonly owners: readonly string[];
}

/**
 * Whom a producer may have to wake for a new job. It knows the type but asks for no versions, so the owners
 * are those of the lowest class: all members that handle the type. That is right for every version that
 * all of them run, which is what producers write until a deploy is through. The ring of the newest class
 * would send every wake-up to the canary of a deploy, for jobs that mostly are not its own. While
 * producers are ahead of some members a wake-up can miss, and the job waits for its owner's poll.
 */
export function publishedOwners(members: readonly Member[]): PublishedOwners[] {
  const lowest = classesOf(members).filter(({ above }) => above === 0);
  return groupByMembers(lowest).map(({ ids, classes }) => ({
    types: classes.map(({ type }) => type),
    owners: ringOwners(ids),
  }));
}

/** Versions of a type that the same members can run. */
interface VersionClass {
  readonly type: string;
  readonly above: number;
  readonly version: number;
  readonly ids: readonly string[];
}

/** By type, then version, whatever the order of the members: the same view gives the same list. */
function classesOf(members: readonly Member[]): VersionClass[] {
  const handlers = new Map<string, { id: string; version: number }[]>();
  for (const { id, handles } of members) {
    for (const [type, version] of Object.entries(handles)) {
      const list = handlers.get(type) ?? [];
      handlers.set(type, list);
      list.push({ id, version });
    }
  }
  return [...handlers.keys()].sort().flatMap((type) => {
    const list = handlers.get(type)!;
    const versions = [...new Set(list.map(({ version }) => version))].sort((a, b) => a - b);
    return versions.map((version, n) => ({
      type,
      above: versions[n - 1] ?? 0,
      version,
      ids: list.filter((handler) => handler.version >= version).map(({ id }) => id),
    }));
  });
}

interface Group {
  readonly ids: readonly string[];
  /** At most one of a type: of two classes of a type the newer one has fewer members. */
  readonly classes: VersionClass[];
}

function groupByMembers(classes: readonly VersionClass[]): Group[] {
  const groups = new Map<string, Group>();
  for (const one of classes) {
    const key = JSON.stringify([...one.ids].sort());
    const group = groups.get(key);
    if (group) group.classes.push(one);
    else groups.set(key, { ids: one.ids, classes: [one] });
  }
  return [...groups.values()];
}
