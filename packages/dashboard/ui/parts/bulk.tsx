/**
 * Retry, discard or cancel all that a filter names: counted first, then confirmed, then done in steps with a bar that
 * shows how far it is. It can be stopped; what was done stays done, and a discard or a cancel can be taken back.
 */
import { Button, Field } from '@holdfast/lab';
import { useEffect, useRef, useState } from 'preact/hooks';
import { canUndo, jobsText, MAX_UNDO, NAMES, say, sayMoved, type Verb } from '../state/act';
import { get, post } from '../state/api';
import { acted } from '../state/live';
import { Dialog, Failed } from './bits';

export interface Which {
  readonly queue: string;
  /** Parts of the filter, in the words of the query. */
  readonly filter: Readonly<Record<string, string>>;
  /** In words. */
  readonly text: string;
  /** Of those, the group of this dead letter, so many as were seen, the oldest of which is `from`. */
  readonly group?: { readonly like: string; readonly from: string; readonly jobs: number };
  /** When what is seen was asked for, by `performance.now()`. */
  readonly seenAt?: number;
}

const WHAT: Readonly<Record<Verb, string>> = {
  retry: 'They run again, with all their attempts.',
  discard: 'They go to the archive as discarded and do not run.',
  cancel:
    'They go to the archive as cancelled. One that runs loses its lease; what its handler has done stays done.',
};

interface Step {
  readonly found: number;
  readonly moved: readonly string[];
  readonly next: string | null;
}

export function Bulk({ verb, which, onClose }: { verb: Verb; which: Which; onClose: () => void }) {
  const { group } = which;
  const [total, setTotal] = useState<{ count: number; more: boolean } | null>(
    group ? { count: group.jobs, more: false } : null,
  );
  const [error, setError] = useState<string | null>(null);
  const [done, setDone] = useState<number | null>(null);
  const [reason, setReason] = useState('');
  const stopped = useRef(false);
  const seenAt = useRef(which.seenAt ?? performance.now());
  const stop = () => {
    stopped.current = true;
  };
  useEffect(() => {
    if (group) return stop;
    const query = new URLSearchParams({ queue: which.queue, ...which.filter });
    // What is made while they are counted may not be among them.
    seenAt.current = performance.now();
    get<{ count: number; more: boolean }>(`api/jobs/count?${query}`).then(
      setTotal,
      (failed: Error) => setError(failed.message),
    );
    return stop;
  }, []);

  async function run(): Promise<void> {
    const moved: string[] = [];
    let [found, after] = [0, null as string | null];
    setDone(0);
    try {
      do {
        const seenMsAgo = Math.round(performance.now() - seenAt.current);
        const rest = { after, reason, seenMsAgo, like: group?.like, from: group?.from };
        const body = { verb, queue: which.queue, ...which.filter, ...rest };
        const step: Step = await post<Step>('api/jobs/bulk', body);
        found += step.found;
        moved.push(...step.moved);
        after = step.next;
        setDone(found);
      } while (after !== null && !stopped.current);
      sayMoved(verb, which.queue, moved, found);
    } catch (failed) {
      say((failed as Error).message, { bad: true });
      // What was done before stays done, and can be taken back.
      if (moved.length > 0) sayMoved(verb, which.queue, moved, moved.length);
    }
    acted.value += 1;
    onClose();
  }

  const undoable = total !== null && !total.more && total.count <= MAX_UNDO;
  const wayBack = !canUndo(which.queue)
    ? 'The archive of this queue is not kept for long: this cannot be undone.'
    : undoable
      ? 'It can be undone for half a minute.'
      : `More than ${MAX_UNDO.toLocaleString('en')} jobs: this cannot be undone from here.`;
  const many = total ? `${total.more ? 'more than ' : ''}${jobsText(total.count)}` : null;
  return (
    <Dialog title={`${NAMES[verb]} ${which.text}?`} onClose={onClose}>
      <Failed error={error} />
      <p>
        {many === null ? 'Counting…' : `This is about ${many} of ${which.queue}. ${WHAT[verb]}`}
      </p>
      {total !== null && verb !== 'retry' && <p class="dim">{wayBack}</p>}
      {done === null ? (
        <>
          <Field
            class="field"
            label="Why (kept in the audit)"
            value={reason}
            onInput={(event) => setReason(event.currentTarget.value)}
            maxLength={500}
          />
          <div class="row end">
            <Button onClick={onClose}>Keep them</Button>
            <Button
              class={verb === 'retry' ? 'primary' : 'danger'}
              disabled={!total || total.count === 0}
              onClick={() => void run()}
            >
              {many === null ? NAMES[verb] : `${NAMES[verb]} ${many}`}
            </Button>
          </div>
        </>
      ) : (
        <>
          <progress max={Math.max(1, total?.count ?? 1)} value={done} aria-label="How far it is" />
          <div class="row end">
            <span class="grow">{jobsText(done)}</span>
            <Button onClick={stop}>Stop</Button>
          </div>
        </>
      )}
    </Dialog>
  );
}
