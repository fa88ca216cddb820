/**
 * Long lines: which buckets are filled by a few keys, and when to look for the jobs of other keys there.
 * Pure: the time comes as an argument.
 *
 * A key is known for a line when the claims of a bucket that always had more were mostly of it: a
 * majority vote, which costs one comparison for a job. From then on the worker passes along the line in
 * stretches, beside its ordinary claims, and takes what belongs to others. Most of these came after the
 * line, so it looks at its end first, back from there, and again now and then, for what is new since, while a
 * pass is under way. A pass begins where the ordinary claims stand, goes to the end of the bucket, and then
 * looks there for what is new; after a while it begins again, for what was put back. All of it takes a small
 * part of the time.
 */
import type { BesideProbe, ClaimedBeside } from './claim-beside.js';
import { PRIORITIES } from './probes.js';
import type { ClaimedJob } from './taking.js';

/** So many more jobs of one key than of all others make a line, or this part of a claim if that is more. */
const LONG = 32;
const LONG_SHARE = 1 / 2;
/** More keys than this are a crowd, and not a line. */
const MAX_KEYS = 16;
const MIN_REACH = 5_000;
const MAX_REACH = 20_000;
/** A stretch should take about so long. */
const STRETCH_MS = 10;
/** How far a look back from the end of a line goes, in jobs. */
const END_REACH = 2_000;
/** A line that is worked off in a moment needs no pass. */
const PATIENCE_MS = 500;
/** What the first pass along a line may take of a server's process: while claims bring others, and else. */
const BUSY_SHARE = 1 / 40;
const PASS_SHARE = 1 / 4;
/** What looking again may take of the time, at the end of a line and along all of it. */
const REST_SHARE = 1 / 30;
const MIN_REST_MS = 20;
/** Looks at the end that find nothing come ever more rarely, down to as often as those at other buckets. */
const MAX_REST_MS = 500;
/** At least so long from one whole pass to the next. */
const MIN_PASS_MS = 1_000;

interface Vote {
  key: string;
  count: number;
  at: string;
  position: number;
}

interface Line {
  readonly place: number;
  readonly keys: string[];
  at: string;
  position: number;
  begunAt: number;
  passMs: number;
  nextAt: number;
  /** When to look back from its end; never while it is passed along at its end. */
  endAt: number;
  endRestMs: number;
  /** Up to when looks at its end have seen what came there, and when one last went all the way back. */
  endSeen: string;
  wentBackAt: number;
  /** The last look was at its end. */
  atEnd: boolean;
  vote: Vote;
}

/** Has this bucket more jobs at this priority than were read, as far as is known? */
export type More = (bucket: number, priority: number) => boolean;

const placeOf = (bucket: number, priority: number) => bucket * PRIORITIES + priority - 1;
const bucketOf = (place: number) => Math.floor(place / PRIORITIES);
const priorityOf = (place: number) => (place % PRIORITIES) + 1;

export class LongLines {
  readonly #more: More;
  readonly #votes = new Map<number, Vote>();
  readonly #lines = new Map<number, Line>();
  #reach = 10_000;
  #taken: Line | null = null;
  /** Ordinary claims bring so many jobs of other buckets that a pass would be at their cost. */
  #busy = false;

  constructor(more: More) {
    this.#more = more;
  }

  get size(): number {
    return this.#lines.size;
  }

  has(bucket: number, priority: number): boolean {
    return this.#lines.has(placeOf(bucket, priority));
  }

  /** What an ordinary claim returned that had asked for so many. */
  saw(jobs: readonly ClaimedJob[], asked: number, now: number): void {
    const long = Math.max(LONG, Math.ceil(asked * LONG_SHARE));
    const touched = new Set<number>();
    for (const job of jobs) {
      const place = placeOf(job.partitionBucket, job.priority);
      touched.add(place);
      const vote = this.#votes.get(place) ?? newVote();
      this.#votes.set(place, vote);
      cast(vote, job, long);
    }
    for (const place of touched) {
      const vote = this.#votes.get(place) as Vote;
      if (!this.#more(bucketOf(place), priorityOf(place))) this.#votes.delete(place);
      else if (vote.count >= long) this.#open(place, vote, now);
    }
    const others = jobs.filter((job) => !this.has(job.partitionBucket, job.priority)).length;
    this.#busy = others >= Math.max(LONG, asked / 2);
  }

  #open(place: number, vote: Vote, now: number): void {
    const known = this.#lines.get(place);
    if (known) {
      // Not passed yet: what the claims have taken meanwhile need not be passed.
      if (known.passMs === 0 && known.nextAt > now)
        Object.assign(known, { at: vote.at, position: vote.position });
      return;
    }
    const { key, at, position } = vote;
    const nextAt = now + PATIENCE_MS;
    this.#lines.set(place, {
      ...{ place, keys: [key], at, position, begunAt: now, passMs: 0, nextAt, endAt: now },
      ...{ endRestMs: MIN_REST_MS, endSeen: NEVER, wentBackAt: now, atEnd: false },
      vote: newVote(),
    });
  }

  /** The next stretch, if it is time for one. */
  take(now: number): BesideProbe | null {
    this.#taken = null;
    for (const line of this.#lines.values()) {
      const [bucket, priority] = [bucketOf(line.place), priorityOf(line.place)];
      if (!this.#more(bucket, priority)) {
        this.#lines.delete(line.place);
        continue;
      }
      if (line.nextAt > now && line.endAt > now) continue;
      // Lines take turns: this one goes to the end.
      this.#lines.delete(line.place);
      this.#lines.set(line.place, line);
      this.#taken = line;
      // In turns: while there is always something at the end, the pass must go on all the same.
      const atEnd = line.endAt <= now && !(line.atEnd && line.nextAt <= now);
      line.atEnd = atEnd;
      // If this stretch fails, and nothing is learned of it.
      if (atEnd) line.endAt = now + MIN_PASS_MS;
      else line.nextAt = now + MIN_PASS_MS;
      const probe = { priority, bucket, without: line.keys, atEnd };
      // Now and then further: what was committed late or put back stands before what was seen.
      if (now - line.wentBackAt >= MIN_PASS_MS) line.endSeen = NEVER;
      if (atEnd && !seenBefore(line)) line.wentBackAt = now;
      if (atEnd && seenBefore(line))
        return { ...probe, afterAt: line.endSeen, afterPosition: 0, reach: END_REACH };
      const [afterAt, afterPosition] = [line.at, line.position];
      return { ...probe, afterAt, afterPosition, reach: atEnd ? END_REACH : this.#reach };
    }
    return null;
  }

  /** What the stretch of the last `take` gave. */
  learn(claim: ClaimedBeside, limit: number, now: number): void {
    const line = this.#taken;
    if (!line) return;
    const { tookMs } = claim;
    const share = this.#busy ? BUSY_SHARE : PASS_SHARE;
    const pauseMs = Math.min(tookMs * (1 / share - 1), MIN_PASS_MS);
    if (line.atEnd) {
      // Where there was one more will come; where there were enough there are more.
      const full = claim.jobs.length >= limit;
      const soonMs = full ? 0 : Math.min(pauseMs, MAX_REST_MS);
      const restMs = restAfter(line, claim);
      line.endAt = now + (claim.jobs.length > 0 ? soonMs : restMs);
      const whole = !claim.end && !seenBefore(line);
      // The look went over all of it: no need for a pass, unless one is under way.
      if (whole && line.passMs === 0) line.nextAt = Math.max(line.nextAt, now + MAX_REST_MS);
      if (!whole && !full) line.endSeen = claim.seenUntil;
      return;
    }
    this.#reach = clamp(
      (this.#reach * STRETCH_MS) / Math.max(tookMs, 0.1),
      Math.max(MIN_REACH, this.#reach / 2),
      Math.min(MAX_REACH, this.#reach * 2),
    );
    line.passMs += tookMs;
    for (const job of claim.jobs) cast(line.vote, job, LONG);
    if (line.vote.count >= LONG && line.keys.length < MAX_KEYS) {
      // Another key fills the bucket, too.
      line.keys.push(line.vote.key);
      line.vote = newVote();
    }
    const last = claim.jobs.at(-1);
    const nextAt = claim.jobs.length > 0 ? now : now + pauseMs;
    if (last && claim.jobs.length >= limit)
      this.#goOn(line, last.cursorAt, last.cursorPosition, now);
    else if (claim.end) this.#goOn(line, claim.end.at, claim.end.position, nextAt);
    else this.#rest(line, claim, now);
  }

  #goOn(line: Line, at: string, position: number, nextAt: number): void {
    Object.assign(line, { at, position, nextAt });
  }

  /** The end of the bucket: on from here, unless it is time to look at all of it again. */
  #rest(line: Line, claim: ClaimedBeside, now: number): void {
    const restMs = restAfter(line, claim);
    this.#goOn(line, claim.seenUntil, 0, now + restMs);
    line.endAt = Number.POSITIVE_INFINITY;
    const vote = this.#votes.get(line.place);
    if (!vote || now - line.begunAt < Math.max(MIN_PASS_MS, line.passMs / REST_SHARE)) return;
    // What was released in the meantime lies where the pass has been.
    this.#goOn(line, vote.at, vote.position, now + restMs);
    line.endAt = now + restMs;
    line.begunAt = now;
    line.passMs = 0;
  }
}

/** How long to rest after a look at the end of a line. */
function restAfter(line: Line, { jobs, tookMs }: ClaimedBeside): number {
  const found = jobs.length > 0;
  const restMs = Math.max(found ? MIN_REST_MS : line.endRestMs, tookMs / REST_SHARE);
  line.endRestMs = found ? MIN_REST_MS : Math.min(2 * line.endRestMs, MAX_REST_MS);
  return restMs;
}

const NEVER = '-infinity';

/** A look at the end of the line need not go back to where the claims stand. Postgres' timestamps sort as text. */
const seenBefore = ({ at, endSeen }: Line) => endSeen > at;

const newVote = (): Vote => ({ key: '', count: 0, at: NEVER, position: 0 });
const clamp = (value: number, low: number, high: number) =>
  Math.floor(Math.min(Math.max(value, low), high));

/** A key that has the majority ends with a count above zero, whatever the order of the jobs. */
function cast(vote: Vote, job: ClaimedJob, long: number): void {
  if (vote.count === 0) vote.key = job.partitionKey;
  // Bounded, so that a key that has left is soon outvoted.
  vote.count = Math.min(vote.count + (vote.key === job.partitionKey ? 1 : -1), 2 * long);
  vote.at = job.cursorAt;
  vote.position = job.cursorPosition;
}
