/** Workers: who is alive, when each was last seen, how busy it is and what it holds. */
import { Button, Check, Table } from '@holdfast/lab';
import { useState } from 'preact/hooks';
import { Confirm, Failed, Status, Title, Waiting, When } from '../parts/bits';
import { count, span } from '../parts/format';
import { send } from '../state/act';
import { useAsked } from '../state/api';
import { beats, LANE_MS, serverNow, snapshot, write } from '../state/live';
import { go, query, withQuery } from '../state/route';
import type { LiveWorker, Ring } from '../state/wire';

const LANE = 120;

/** A lane of the last minute: a tick for each heartbeat, and the silence since the last one against its TTL. */
function Heartbeat({ worker }: { worker: LiveWorker }) {
  const now = serverNow();
  const silent = Math.max(0, now - Date.parse(worker.lastSeenAt));
  const part = silent / worker.ttlMs;
  const level = part > 0.9 ? 'bad' : part > 0.5 ? 'worry' : 'good';
  const width = (ms: number) => (LANE * Math.min(ms, LANE_MS)) / LANE_MS;
  const seen = (beats.value.get(worker.id) ?? []).filter((at) => now - at < LANE_MS);
  return (
    <span class="heartbeat inline">
      <svg class="beats" viewBox={`0 0 ${LANE} 14`} aria-hidden="true">
        <rect class="lane" width={LANE} y="2" height="10" rx="2" />
        <rect class={level} x={LANE - width(silent)} y="5" width={width(silent)} height="4" />
        {seen.map((at) => (
          <rect class="tick" x={LANE - width(now - at) - 1} width="2" height="14" />
        ))}
      </svg>
      {span(silent)}
    </span>
  );
}

function Row(props: { worker: LiveWorker; ring: Ring | null; onDrain: () => void }) {
  const { worker, ring, onDrain } = props;
  const { busy } = worker;
  const share = ring?.workers.find(({ id }) => id === worker.id)?.buckets;
  const gone = worker.status === 'dead';
  const handles = Object.entries(worker.handles).map(
    ([queue, types]) => `${queue}: ${Object.keys(types).join(', ')}`,
  );
  return (
    <tr>
      <th scope="row">{worker.id}</th>
      <td>
        <Status of={worker.state} />
      </td>
      <td>{gone ? <When at={worker.lastSeenAt} /> : <Heartbeat worker={worker} />}</td>
      <td class="number">{busy ? `${busy.running} / ${busy.handlers}` : '–'}</td>
      <td class="number">{worker.held === null ? '?' : count(worker.held)}</td>
      <td class="number">{share === undefined ? '–' : `${((share / 1024) * 100).toFixed(1)} %`}</td>
      <td>{worker.version ?? '–'}</td>
      <td>{worker.host ? `${worker.host}:${worker.pid ?? ''}` : '–'}</td>
      <td>{gone ? '–' : span(worker.upMs)}</td>
      <td class="error narrow" title={handles.join('\n')}>
        {handles.join('; ')}
      </td>
      {write.value && (
        <td class="row">
          {worker.status === 'alive' && (
            <Button onClick={onDrain} aria-label={`Drain ${worker.id}`}>
              Drain…
            </Button>
          )}
        </td>
      )}
    </tr>
  );
}

const HEAD = [
  ...['Worker', 'State', 'Last seen', 'Busy', 'Holds', 'Buckets', 'Version', 'Host'],
  ...['Up', 'Handles'],
];

export function Workers() {
  const seen = snapshot.value;
  const all = query.value.get('all') === '1';
  const dead = useAsked<{ workers: readonly LiveWorker[] }>(all ? 'api/workers?all=1' : '', 3);
  const keyed = seen?.queues.find(({ ordering }) => ordering !== 'none')?.queue;
  const ring = useAsked<Ring>(keyed ? `api/ring?queue=${encodeURIComponent(keyed)}` : '', 5);
  const [asked, setAsked] = useState<string | null>(null);
  if (!seen) return <Waiting />;
  const workers = all ? (dead.data?.workers ?? seen.workers) : seen.workers;
  const drain = (id: string) =>
    void send(
      'api/workers/drain',
      { id },
      `${id} was asked to drain: it learns it with its next heartbeat.`,
    );
  return (
    <>
      <Title
        aside={
          <Check
            checked={all}
            onChange={(on) => go(withQuery({ all: on ? '1' : null }), 'replace')}
          >
            with those that are gone
          </Check>
        }
      >
        Workers
      </Title>
      <Failed error={dead.error} />
      <Table
        label="Workers"
        head={write.value ? [...HEAD, 'Acts'] : HEAD}
        numbers={[3, 4, 5]}
        empty="No worker is registered. Start one with npx holdfast work."
      >
        {workers.map((worker) => (
          <Row
            key={worker.id}
            worker={worker}
            ring={ring.data}
            onDrain={() => setAsked(worker.id)}
          />
        ))}
      </Table>
      {seen.moreWorkers > 0 && !all && <p class="dim">{`and ${count(seen.moreWorkers)} more`}</p>}
      {asked && (
        <Confirm
          title={`Drain ${asked}?`}
          keep="Leave it"
          act="Drain"
          onAct={() => drain(asked)}
          onClose={() => setAsked(null)}
        >
          It claims nothing more, finishes what it holds and ends with exit code 0. Nothing starts
          it again.
        </Confirm>
      )}
    </>
  );
}
