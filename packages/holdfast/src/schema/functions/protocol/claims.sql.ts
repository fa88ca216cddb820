/** The claims of a worker, as functions that the protocol calls. By time there is one already: `inbox_claim`. */
import { claimKeyedJobs } from '../../../claim/key/claim.js';
import { claimSuspectJobs } from '../../../claim/suspects.js';
import { claimRated } from '../../../claim/time/rated.js';
import { claimTurnsJobs } from '../../../claim/turns/claim.js';
import type { FunctionFile } from '../../function-file.js';
import { verbatim } from './verbatim.js';

const TERMS = [
  ...['the_worker text', 'the_lease_ms integer', 'the_number bigint', 'the_finished bigint[]'],
  ...['the_most integer', 'the_held jsonb'],
] as const;
const HANDLED = ['the_types text[]', 'the_versions jsonb'] as const;
const STRETCHES = ['the_buckets integer[]', 'the_after text[]', 'the_until integer[]'] as const;

export const claimVerbs: FunctionFile = {
  name: 'protocol-claim-verbs',
  of: 'queue',
  text: [
    verbatim(
      claimKeyedJobs,
      ...[...TERMS, ...HANDLED, ...STRETCHES, 'the_until_keys text[]', 'the_run integer'],
      ...['the_most_rows integer', 'is_asked boolean', 'the_soon_ms integer'],
    ),
    verbatim(
      claimTurnsJobs,
      ...[...TERMS, ...HANDLED, ...STRETCHES, 'is_again boolean', 'the_soon_ms integer'],
      ...['the_most_keys integer', 'is_asked boolean'],
    ),
    verbatim(
      claimRated,
      ...[...TERMS, 'the_types text[]', 'the_versions integer[]', 'the_after text[]'],
      'the_most_keys integer',
    ),
    verbatim(claimSuspectJobs, ...TERMS, ...HANDLED, 'the_lock integer'),
  ].join(''),
};
