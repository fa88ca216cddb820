/** `--key 'order:{customer.id}'`: the partition key of a job, made of its payload, and the jobs that get none. */
import { Failure, UsageError } from '../../failures.js';
import { convert, type KeyOf, Stays, type Target } from './convert.js';
import type { Source } from './sources/source.js';

export function keyTemplate(text: string | undefined): KeyOf | null {
  if (text === undefined) return null;
  if (!/\{[^{}]+\}/.test(text))
    throw new UsageError(
      `--key takes a text with fields of the payload, such as 'order:{orderId}'. Nothing was moved.`,
    );
  return (payload) => {
    let lacks = '';
    const key = text.replace(/\{([^{}]+)\}/g, (_, path: string) => {
      let value = payload;
      for (const name of path.split('.')) value = (value as Record<string, unknown> | null)?.[name];
      if (typeof value === 'string' || typeof value === 'number') return `${value}`;
      lacks ||= `no ${value === undefined ? '' : 'text or number in the '}field ${path}`;
      return '';
    });
    return { key: lacks === '' ? key : null, lacks };
  };
}

export class Keyless {
  readonly #lacking = new Map<string, number>();
  #jobs = 0;
  #keyed = 0;

  /** `lacks` is empty for a job that has its key. */
  add(lacks: string): void {
    this.#jobs++;
    if (lacks === '') this.#keyed++;
    else this.#lacking.set(lacks, (this.#lacking.get(lacks) ?? 0) + 1);
  }

  get everyJob(): boolean {
    return this.#jobs > 0 && this.#keyed === 0;
  }

  /** Such as `9 of 9 jobs have no field orderID, so they get no key`. */
  lines(): string[] {
    const of = `of ${this.#jobs} ${this.#jobs === 1 ? 'job' : 'jobs'}`;
    return [...this.#lacking].map(
      ([lacks, times]) =>
        `${times} ${of} ${times === 1 ? 'has' : 'have'} ${lacks}, so ${times === 1 ? 'it gets' : 'they get'} no key`,
    );
  }
}

/** A mistyped field loses the order per key for good, so a first pass looks for one job that has it. */
export async function refuseKeyless(
  source: Source,
  target: Target,
  signal: AbortSignal,
): Promise<void> {
  const keyless = new Keyless();
  await source.each(async ({ jobs }) => {
    for (const job of jobs) {
      try {
        keyless.add(convert(job, target).lacks);
      } catch (error) {
        if (!(error instanceof Stays)) throw error;
      }
    }
    return () => (jobs.length === 0 || keyless.everyJob) && !signal.aborted;
  });
  if (keyless.everyJob && !signal.aborted)
    throw new Failure(
      `${keyless.lines().join('; ')}. Nothing was moved: correct the fields of --key, or leave it out.`,
    );
}
