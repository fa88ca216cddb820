import type { Finding } from '../../packages/holdfast/src/inspect/doctor/doctor.js';
import type { Site, SiteOptions } from './site.js';

/** One way in which a fleet breaks, what the tools say of it, and what mends it. */
export interface Incident {
  /** What somebody notices. */
  readonly symptom: string;
  /** How it came about, in words. */
  readonly cause: string;
  readonly site?: SiteOptions;
  /** Returns the id of a job that waits for it, for `explain`. */
  readonly happens: (site: Site) => Promise<unknown>;
  /** The check of the doctor that names it, and words of its text. */
  readonly doctor: {
    readonly check: string;
    readonly says: RegExp;
    readonly level?: Finding['level'];
  };
  readonly explain?: readonly string[];
  /** Whether the schema must be compared for it. */
  readonly compared?: boolean;
  /** `printed`: what the doctor prints is pasted. Else what a person does, and how. */
  readonly fix:
    | 'printed'
    | { readonly does: string; readonly act: (site: Site) => Promise<unknown> };
  /** Something else than a new job that shows that it works again. */
  readonly works?: (site: Site) => Promise<unknown>;
}
