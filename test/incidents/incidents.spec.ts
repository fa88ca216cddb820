/**
 * A real fleet, broken in each way that is known: the doctor names the cause, `explain` agrees, and the fix that it prints,
 * pasted as it stands, mends it. Of a healthy fleet nothing is said.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { until } from '../support/until.js';
import { INCIDENTS } from './list/index.js';
import { type Said, writePage } from './page.js';
import { Site } from './site.js';

const PAGE = new URL('../../docs/incidents.md', import.meta.url);
const said: Said[] = [];
const WAIT = { timeoutMs: 15_000, everyMs: 300 };
/** What waited for a rate is done within a minute. */
const MENDED = { timeoutMs: 100_000, everyMs: 500 };

test.each(INCIDENTS)(
  '$symptom: $cause',
  async (incident) => {
    const site = await Site.open(incident.site);
    await site.works();
    expect(await site.problems(incident.compared)).toEqual([]);
    const waits = await incident.happens(site);
    const { check, says, level = 'problem' } = incident.doctor;
    let last: unknown;
    const found = await until(
      `the doctor says "${check}"`,
      async () => {
        const all = await site.findings(incident.compared);
        last = all.filter((one) => one.level !== 'ok');
        return all.find((one) => one.check === check && one.level === level && says.test(one.text));
      },
      WAIT,
    ).catch((error) => {
      throw new Error(`${error.message}; it says ${JSON.stringify(last, null, 1)}`);
    });
    if (typeof waits === 'string' && incident.explain)
      expect(incident.explain).toContain(await site.explains(waits));
    said.push({ incident, found });
    if (incident.fix === 'printed')
      expect(await site.paste(found.fix as string)).toBeGreaterThan(0);
    else await incident.fix.act(site);
    await until(
      `the doctor is well again`,
      async () => {
        const problems = await site.problems(incident.compared);
        last = problems;
        return problems.length === 0;
      },
      MENDED,
    ).catch((error) => {
      throw new Error(`${error.message}; it says ${JSON.stringify(last, null, 1)}`);
    });
    await (incident.works ?? ((one: Site) => one.works()))(site);
  },
  240_000,
);

test('of a healthy fleet the doctor says nothing, fifty times', async () => {
  const site = await Site.open({ workers: 3 });
  const found: unknown[] = [];
  for (let n = 0; n < 50; n++) {
    await site.add('work', 20);
    if (n % 5 === 0) await site.add('work', 5, { delay: '10s' });
    found.push(...(await site.problems(n % 10 === 0)));
  }
  expect(found).toEqual([]);
}, 300_000);

test('docs/incidents.md is made from this list', () => {
  if (process.env.UPDATE_DOCS && said.length === INCIDENTS.length)
    writeFileSync(PAGE, writePage(said));
  const page = readFileSync(PAGE, 'utf8');
  for (const { symptom, cause } of INCIDENTS) expect(page).toContain(`| ${symptom} | ${cause} |`);
});
