/**
 * The alert rules as Prometheus evaluates them. promtool runs the incidents of incidents.yml and the ordinary day of
 * quiet.yml; and what a worker really counts in its first minutes goes through the same rules.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { parse } from 'yaml';
import { collectMetrics } from '../../packages/holdfast/src/metrics/index.js';
import { readScrape, type Sample } from '../support/prometheus.js';

const HERE = fileURLToPath(new URL('.', import.meta.url));
const RULES = fileURLToPath(new URL('../../docs/alerts.yml', import.meta.url));
const present = spawnSync('promtool', ['--version']).status === 0;

function promtool(...args: string[]): { status: number | null; said: string } {
  const { status, stdout, stderr } = spawnSync('promtool', args, { cwd: HERE, encoding: 'utf8' });
  return { status, said: `${stdout}${stderr}` };
}

const well = { status: 0, said: expect.stringContaining('SUCCESS') };

interface Incident {
  alert_rule_test?: { alertname: string; exp_alerts: unknown[] }[];
}

test('every alert has an incident that fires it', () => {
  const rules = parse(readFileSync(RULES, 'utf8')).groups.flatMap(
    ({ rules }: { rules: { alert: string }[] }) => rules.map(({ alert }) => alert),
  );
  const incidents: Incident[] = parse(readFileSync(join(HERE, 'incidents.yml'), 'utf8')).tests;
  const fired = incidents
    .flatMap((one) => one.alert_rule_test ?? [])
    .filter(({ exp_alerts }) => exp_alerts.length > 0)
    .map(({ alertname }) => alertname);
  expect(rules.filter((name: string) => !fired.includes(name))).toEqual([]);
});

describe.skipIf(!present)('promtool', () => {
  test('reads the rules', () => expect(promtool('check', 'rules', RULES)).toMatchObject(well));

  test.each(['incidents.yml', 'quiet.yml'])('finds %s as it is written', (file) =>
    expect(promtool('test', 'rules', file)).toEqual(well),
  );

  /** A worker starts, is scraped every 15 s, and 40 of its jobs become dead letters before the scrape `at`. */
  async function burst(at: number): Promise<Sample[][]> {
    vi.useFakeTimers({ toFake: ['Date'], now: 300_000 });
    onTestFinished(() => void vi.useRealTimers());
    const source = { onEvent: () => () => undefined, gauges: () => Promise.reject(new Error()) };
    const metrics = collectMetrics(source, { database: false });
    metrics.record({ kind: 'started', workerId: 'w1', handles: { inbox: ['mail', 'fax'] } });
    const scrapes: Sample[][] = [];
    for (let n = 0; n < 8; n++) {
      const one = { queue: 'inbox', type: 'mail', id: 'x', generation: 1 };
      if (n === at) for (let i = 0; i < 40; i++) metrics.record({ kind: 'dead_letter', ...one });
      scrapes.push([...readScrape(await metrics.text()).samples]);
    }
    return scrapes;
  }

  /** In promtool's words; the first scrape is at 5 m 15 s. */
  function seriesOf(scrapes: readonly Sample[][]) {
    const WANTED = ['holdfast_start_time_seconds', 'holdfast_jobs_dead_lettered_total'];
    const keyOf = ({ name, labels }: Sample) =>
      `${name}${JSON.stringify({ job: 'shop', instance: 'new', ...labels }).replaceAll(/"(\w+)":/g, '$1=')}`;
    const keys = new Set(
      scrapes
        .flat()
        .filter(({ name }) => WANTED.includes(name))
        .map(keyOf),
    );
    return [...keys].map((series) => {
      const values = scrapes.map((all) => all.find((one) => keyOf(one) === series)?.value ?? '_');
      return { series, values: `_x21 ${values.join(' ')}` };
    });
  }

  test.each([
    ['before its first scrape', 0, '5m15s'],
    ['after its first scrape', 1, '5m30s'],
    ['later', 4, '6m15s'],
  ])('40 dead letters of a new worker, %s, are an alert at the next', async (_, at, eval_time) => {
    const summary = expect.stringMatching(/mail in inbox: 4\d(\.\d+)? new dead letters/);
    const series = seriesOf(await burst(at));
    expect(series.map((one) => one.series)).toContain(
      'holdfast_jobs_dead_lettered_total{job="shop",instance="new",queue="inbox",type="fax"}',
    );
    const folder = mkdtempSync(join(tmpdir(), 'holdfast-alerts-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const file = join(folder, 'burst.yml');
    // What it expects is empty, so that what came is what promtool complains of.
    const alert_rule_test = [{ eval_time, alertname: 'HoldfastNewDeadLetters', exp_alerts: [] }];
    const tests = [{ interval: '15s', input_series: series, alert_rule_test }];
    const suite = { rule_files: [RULES], evaluation_interval: '15s', tests };
    writeFileSync(file, JSON.stringify(suite));
    const { status, said } = promtool('test', 'rules', file);
    expect([status, said]).toEqual([1, summary]);
    expect(said.match(/HoldfastNewDeadLetters", queue/g)).toHaveLength(1);
  });
});
