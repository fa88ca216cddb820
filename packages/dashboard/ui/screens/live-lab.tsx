/** The live lab: acts on the real worker processes of the demo, and a count of what was accepted, done, lost, doubled. */
import type { LabAct, LabState, LabWorker } from '../../src/pages/live-lab.js';
import { Empty, Failed, Status, Table, Title, Waiting, When } from '../parts/bits';
import { count, rate } from '../parts/format';
import { doing } from '../state/act';
import { post, useAsked } from '../state/api';
import { session } from '../state/live';

const act = (given: LabAct) =>
  void doing(async () => {
    const { text } = await post<{ text: string }>('api/lab/act', given);
    return text && `${text[0]?.toUpperCase()}${text.slice(1)}.`;
  });

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

function Enqueue() {
  return (
    <form
      class="filter"
      onSubmit={(event) => {
        event.preventDefault();
        act({ act: 'enqueue', key: String(new FormData(event.currentTarget).get('key')).trim() });
      }}
    >
      <label>
        Key
        <input name="key" required maxLength={512} defaultValue="order:mine" />
      </label>
      <button type="submit">Enqueue an order</button>
    </form>
  );
}

function Counts({ state }: { state: LabState }) {
  const figures: [string, number, boolean][] = [
    ['Accepted', state.accepted, false],
    ['Done', state.done, false],
    ['Waiting', state.waiting, false],
    ['Dead letters', state.deadLetters, false],
    ['Lost', state.lost, state.lost > 0],
    ['Doubled', state.doubled, state.doubled > 0],
    ['Out of order', state.outOfOrder, state.outOfOrder > 0],
  ];
  return (
    <ul class="tiles figures" aria-label="The proof">
      {figures.map(([name, value, worry]) => (
        <li key={name} class={worry ? 'worry' : undefined}>
          <span>{name}</span>
          <b>{count(value)}</b>
        </li>
      ))}
      <li>
        <span>Done a second</span>
        <b>{rate(state.perSecond)}</b>
      </li>
    </ul>
  );
}

const Row = ({ worker, write }: { worker: LabWorker; write: boolean }) => (
  <tr>
    <th scope="row">{`Worker ${worker.number}`}</th>
    <td>
      <Status of={STATES[worker.condition]} name={worker.condition} />
    </td>
    <td class="number">{count(worker.held)}</td>
    {write && (
      <td class="row">
        {POSSIBLE[worker.condition].map((what) => (
          <button
            type="button"
            key={what}
            class={what === 'kill' ? 'danger' : undefined}
            aria-label={`${NAMES[what]} worker ${worker.number}`}
            onClick={() => act({ act: what, worker: worker.number })}
          >
            {NAMES[what]}
          </button>
        ))}
      </td>
    )}
    <td class="key">{worker.id ?? '–'}</td>
  </tr>
);

export function LiveLab() {
  const { data, error } = useAsked<LabState>('api/lab', 1);
  const write = session.value?.write === true;
  if (!data) return error ? <Failed error={error} /> : <Waiting />;
  // The acts before the id: they must be in reach on a telephone.
  const head = ['Worker', 'State', 'Holds', ...(write ? ['Acts'] : []), 'Registered as'];
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
      {write && (
        <div class="row acts" role="toolbar" aria-label="The fleet and its work">
          {FLEET.map(([what, name, title]) => (
            <button type="button" key={what} title={title} onClick={() => act({ act: what })}>
              {name}
            </button>
          ))}
        </div>
      )}
      {write && <Enqueue />}
      {data.workers.length === 0 ? (
        <Empty>No worker is left. Add one: what waits is there.</Empty>
      ) : (
        <Table label="Workers" head={head} numbers={[2]}>
          {data.workers.map((worker) => (
            <Row key={worker.number} worker={worker} write={write} />
          ))}
        </Table>
      )}
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
