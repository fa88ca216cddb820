/** Whether the server's own log gets the payloads of jobs: it writes statements with their parameters. */
import { bool, int8, text } from '../../../postgres/statement.js';
import { type Answer, asksOne } from '../../reading/asks.js';
import { span } from '../../reading/words.js';
import { type Finding, lines, note, ok, problem } from '../doctor.js';

export const readLogging = asksOne({
  name: 'doctor_logging',
  text: `
SELECT current_setting('log_statement') AS statements,
  (SELECT s.setting::bigint FROM pg_settings AS s WHERE s.name = 'log_min_duration_statement') AS slow_ms,
  (SELECT s.setting::bigint FROM pg_settings AS s WHERE s.name = 'log_min_duration_sample') AS sample_ms,
  (SELECT s.setting::bigint FROM pg_settings AS s WHERE s.name = 'log_parameter_max_length') AS parameters,
  (SELECT s.setting::bigint FROM pg_settings AS s WHERE s.name = 'log_parameter_max_length_on_error') AS on_error,
  current_setting('log_transaction_sample_rate')::float8 > 0 AS sampled`,
  columns: {
    ...{ statements: text, slow_ms: int8, sample_ms: int8, parameters: int8, on_error: int8 },
    sampled: bool,
  },
});

export type Logging = Answer<typeof readLogging>;

const WHY =
  'Enqueues carry payloads as parameters, so the log, and whatever collects it, holds the data of your jobs.';

const set = (name: string) => lines(`ALTER SYSTEM SET ${name} = 0;`, 'SELECT pg_reload_conf();');

/** All statements are logged: a problem. Slow ones only: a note. */
export function judgeLogging(logging: Logging): Finding[] {
  const check = 'payloads in logs';
  const { statements, slowMs, sampleMs, parameters, onError, sampled } = logging;
  const findings: Finding[] = [];
  const all = [
    ...(['mod', 'all'].includes(statements) ? [`log_statement is ${statements}`] : []),
    ...(slowMs === 0 ? ['log_min_duration_statement is 0'] : []),
  ];
  const some = [
    ...(slowMs > 0 ? [`log_min_duration_statement is ${span(slowMs)}`] : []),
    ...(sampleMs >= 0 ? [`log_min_duration_sample is ${span(sampleMs)}`] : []),
    ...(sampled ? ['log_transaction_sample_rate is above 0'] : []),
  ];
  if (parameters !== 0 && all.length + some.length > 0) {
    const text = `${[...all, ...some].join(' and ')}, and log_parameter_max_length is ${parameters}: the server writes the payloads of ${all.length > 0 ? 'all enqueues' : 'such enqueues'} to its log.`;
    findings.push(
      (all.length > 0 ? problem : note)(check, text, WHY, set('log_parameter_max_length')),
    );
  }
  if (onError !== 0) {
    const text = `log_parameter_max_length_on_error is ${onError}: the server writes the payloads of enqueues that fail to its log.`;
    findings.push(note(check, text, WHY, set('log_parameter_max_length_on_error')));
  }
  return findings.length > 0
    ? findings
    : [ok(check, 'the server logs no parameters of statements')];
}
