import type { Finding } from '../../packages/holdfast/src/inspect/doctor/doctor.js';
import type { Incident } from './incident.js';

export interface Said {
  readonly incident: Incident;
  readonly found: Finding;
}

/** Of one run: ids, times and numbers of processes are of that run only. */
const plain = (text: string) =>
  text
    .replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, 'ID')
    .replaceAll(/\b[a-z]+-\d+-[0-9a-f]{6}\b/g, 'WORKER')
    .replaceAll(/\b\d+(\.\d+)? (ms|s|min|h)\b/g, 'N $2')
    .replaceAll(/\bprocess \d+/g, 'process PID')
    .replaceAll(/pg_(terminate|cancel)_backend\(\d+\)/g, 'pg_$1_backend(PID)')
    .replaceAll('|', '\\|')
    .replaceAll('\n', '<br>');

const fixOf = ({ incident: { fix }, found }: Said) =>
  fix === 'printed' ? plain(found.fix ?? '') : fix.does;

/** What `UPDATE_DOCS=1 npm run test:incidents` writes. */
export const writePage = (all: readonly Said[]): string => `# Incidents

Each line is a way in which a fleet was broken in \`npm run test:incidents\`, with real processes on a real server: what is noticed, why, what
\`holdfast doctor\` says of it, and what mended it. Where the fix is a command or a statement, the test pasted it as the doctor printed it. The
[runbook](runbook.md) says what to look at first.

| Noticed | Why | The doctor says | Fix |
|---|---|---|---|
${all
  .map(
    (one) =>
      `| ${one.incident.symptom} | ${one.incident.cause} | **${one.found.check}** ${plain(one.found.text)} | ${fixOf(one)} |`,
  )
  .join('\n')}
`;
