/** The ring of a queue for its picture: who comes first for each bucket and for a key, and what a change would move. */
import { bucketOf } from 'holdfast';
import type { WorkerRow } from 'holdfast/internal';
import { checkKey, membersOf, movedBuckets, positionOf, ringOwners } from 'holdfast/internal';

/** A name that no worker has. */
const NEWCOMER = 'a worker that joins';

export interface RingPicture {
  readonly queue: string;
  /** `none`: the queue is read by time, and has no ring. */
  readonly ordering: string;
  readonly workers: readonly {
    readonly id: string;
    readonly buckets: number;
    readonly leaving: number;
  }[];
  /** By bucket: the place of its owner in `workers`. */
  readonly owners: readonly number[];
  readonly key: {
    readonly key: string;
    readonly bucket: number;
    /** Where its bucket stands, of the circle's 2^32 places. */
    readonly position: number;
    readonly worker: string;
  } | null;
  readonly joining: number;
}

export function ringPicture(
  queue: string,
  ordering: string,
  all: readonly WorkerRow[],
  key: string | null,
): RingPicture {
  const members = membersOf(
    all.filter(({ status }) => status === 'alive'),
    queue,
  ).sort();
  const owners = ordering === 'none' ? [] : ringOwners(members);
  if (owners.length === 0)
    return { queue, ordering, workers: [], owners: [], key: null, joining: 0 };
  const without = (id: string) => ringOwners(members.filter((one) => one !== id));
  const places = new Map(members.map((id, place) => [id, place]));
  const workers = members.map((id) => ({
    id,
    buckets: owners.filter((owner) => owner === id).length,
    leaving: members.length > 1 ? movedBuckets(owners, without(id)) : owners.length,
  }));
  const bucket = key === null ? 0 : bucketOf(checkKey(key, 'key'));
  return {
    ...{ queue, ordering, workers },
    owners: owners.map((id) => places.get(id) as number),
    key:
      key === null
        ? null
        : { key, bucket, position: positionOf(bucket), worker: owners[bucket] as string },
    joining: movedBuckets(owners, ringOwners([...members, NEWCOMER])),
  };
}
