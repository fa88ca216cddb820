/** The verbs of an owner and of maintenance, as functions that the protocol calls. */
import { notifyQueue } from '../../../fleet/wake.js';
import { isolateJob, markStartedJob } from '../../../lease/marks.js';
import { renewLeases } from '../../../lease/renew.js';
import {
  clearBlameless,
  forgetDeadClaims,
  recoverJobs,
  takePages,
} from '../../../maintenance/recover.js';
import { forgetWorkers, sweepWorkers } from '../../../maintenance/sweep.js';
import { cancelOwnJobs } from '../../../settle/cancel.js';
import { completeJobs } from '../../../settle/complete.js';
import { deadLetterJobs } from '../../../settle/dead-letter.js';
import { failJobs } from '../../../settle/fail.js';
import { releaseJobs, snoozeJobs } from '../../../settle/release.js';
import type { FunctionFile } from '../../function-file.js';
import { verbatim } from './verbatim.js';

const FENCE = ['the_worker text', 'the_ids uuid[]', 'the_generations bigint[]'] as const;
const FACTS = 'the_facts text';
const ERRORS = 'the_errors text';
const ONE = ['the_worker text', 'the_id uuid', 'the_generation bigint'] as const;

export const ownerVerbs: FunctionFile = {
  name: 'protocol-owner-verbs',
  of: 'queue',
  text: [
    verbatim(completeJobs, ...FENCE, 'the_results text'),
    verbatim(failJobs, ...FENCE, FACTS, ERRORS),
    verbatim(deadLetterJobs, ...FENCE, FACTS, ERRORS),
    verbatim(releaseJobs, ...FENCE),
    verbatim(snoozeJobs, ...FENCE, FACTS),
    verbatim(cancelOwnJobs, ...FENCE, FACTS),
    verbatim(renewLeases, ...FENCE, 'the_lease_ms integer'),
    verbatim(markStartedJob, ...ONE),
    verbatim(isolateJob, ...ONE, 'is_alone boolean'),
  ].join(''),
};

export const maintenanceVerbs: FunctionFile = {
  name: 'protocol-maintenance-verbs',
  of: 'queue',
  text: [
    verbatim(sweepWorkers, 'the_ttl_ms integer', 'the_sweeper text'),
    verbatim(takePages, 'the_pages bigint'),
    verbatim(
      recoverJobs,
      ...['the_most integer', 'the_recoverer text', 'the_space integer'],
      ...['the_first_page text', 'the_page_behind text', 'the_left_types text[]'],
    ),
    verbatim(clearBlameless, 'the_most integer', 'the_quiet_ms integer'),
    verbatim(forgetDeadClaims),
    verbatim(forgetWorkers),
    verbatim(notifyQueue, 'the_since text', 'the_places text', 'the_setting text'),
  ].join(''),
};
