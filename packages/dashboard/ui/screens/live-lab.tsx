/** The live lab: acts on the real worker processes of the demo, and a count of what was accepted, done, lost, doubled. */
import { Button, Field, Table, Tiles } from '@holdfast/lab';
import type { LabAct, LabState, LabWorker } from '../../src/pages/live-lab.js';
import { Failed, Status, Title, textsOf, Waiting, When } from '../parts/bits';
import { count, rate } from '../parts/format';
import { send } from '../state/act';
import { useAsked } from '../state/api';
import { write } from '../state/live';

const act = (given: LabAct) =>
  void send<{ text: string }>(
    'api/lab/act',
    given,
    ({ text }) => text && `${text[0]?.toUpperCase()}${text.slice(1)}.`,
  );

type WorkerAct = Extract<LabAct, { worker: number }>['act'];
const NAMES: Readonly<Record<WorkerAct, string>> = {
  kill: 'Kill -9',
  freeze: 'Freeze',
  cut: 'Cut off',
  continue: 'Continue',
  drain: 'Drain',
};
/** What can be done to a worker in this condition. */
const POSSIBLE: Readonly<Record<LabWorker['condition'], readonly WorkerAct[]>> = {
  starting: [],
  runs: ['kill', 'freeze', 'cut', 'drain'],
  frozen: ['continue', 'kill'],
  'cut off': ['continue', 'kill'],
  draining: ['kill'],
};
const STATES: Readonly<Record<LabWorker['condition'], string>> = {
  starting: 'pending',
  runs: 'alive',
  frozen: 'paused',
  'cut off': 'vanished',
  draining: 'draining',
};

type FleetAct = Exclude<LabAct, { worker: number } | { key: string }>['act'];
const FLEET: readonly [FleetAct, string, string][] = [
  ['add', 'Add a worker', 'A process more, which takes its share of the keys.'],
  ['burst', 'Burst', 'A thousand orders at once.'],
  [
    'hot-key',
    'Hot key',
    'One order with a hundred parcels, one after the other. No other order waits.',
  ],
  ['shards', 'Hot key in 8 shards', 'As many parcels under eight keys, beside each other.'],
  [
    'poison',
    'Poison job',
    'A job that kills each worker that runs it, until it runs alone and is a dead letter.',
  ],
];

const Enqueue = () => (
  <form class="filter" onSubmit={(event) => act({ act: 'enqueue', key: textsOf(event)('key') })}>
    <Field label="Key" name="key" required maxLength={512} defaultValue="order:mine" />
    <button type="submit">Enqueue an order</button>
  </form>
);

const Counts = ({ state }: { state: LabState }) => (
  <Tiles
    label="The proof"
    of={[
      ['Accepted', count(state.accepted)],
      ['Done', count(state.done)],
      ['Waiting', count(state.waiting)],
      ['Dead letters', count(state.deadLetters)],
      ['Lost', count(state.lost), state.lost > 0],
      ['Doubled', count(state.doubled), state.doubled > 0],
      ['Out of order', count(state.outOfOrder), state.outOfOrder > 0],
      ['Done a second', rate(state.perSecond)],
    ]}
  />
);

const Row = ({ worker }: { worker: LabWorker }) => (
  <tr>
    <th scope="row">{`Worker ${worker.number}`}</th>
    <td>
      <Status of={STATES[worker.condition]} name={worker.condition} />
    </td>
    <td class="number">{count(worker.held)}</td>
    {write.value && (
      <td class="row">
        {POSSIBLE[worker.condition].map((what) => (
          <Button
            key={what}
            class={what === 'kill' ? 'danger' : undefined}
            aria-label={`${NAMES[what]} worker ${worker.number}`}
            onClick={() => act({ act: what, worker: worker.number })}
          >
            {NAMES[what]}
          </Button>
        ))}
      </td>
    )}
    <td class="key">{worker.id ?? '–'}</td>
  </tr>
);

export function LiveLab() {
  const { data, error } = useAsked<LabState>('api/lab', 1);
  if (!data) return error ? <Failed error={error} /> : <Waiting />;
  // The acts before the id: they must be in reach on a telephone.
  const head = ['Worker', 'State', 'Holds', ...(write.value ? ['Acts'] : []), 'Registered as'];
  return (
    <>
      <Title>Live lab</Title>
      <Failed error={error} />
      <p>
        Real processes work for a small shop. Do to them what happens to processes, and see that
        nothing is lost and nothing is done twice. A frozen worker, or one that is cut off, comes
        back after 15 s.
      </p>
      <Counts state={data} />
      {write.value && (
        <div class="row acts" role="toolbar" aria-label="The fleet and its work">
          {FLEET.map(([what, name, title]) => (
            <Button key={what} title={title} onClick={() => act({ act: what })}>
              {name}
            </Button>
          ))}
        </div>
      )}
      {write.value && <Enqueue />}
      <Table
        label="Workers"
        head={head}
        numbers={[2]}
        empty="No worker is left. Add one: what waits is there."
      >
        {data.workers.map((worker) => (
          <Row key={worker.number} worker={worker} />
        ))}
      </Table>
      <section class="part">
        <h2>What happened</h2>
        <ol class="events">
          {data.events.toReversed().map(({ at, text }) => (
            <li key={`${at} ${text}`}>
              <span class="grow">{text}</span>
              <span class="dim">
                <When at={at} />
              </span>
            </li>
          ))}
        </ol>
      </section>
    </>
  );
}
