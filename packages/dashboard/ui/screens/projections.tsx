/** Projections: how far behind its log each build is, and the keys that have stopped at an event. */
import { Button, Table } from '@holdfast/lab';
import { useState } from 'preact/hooks';
import { Confirm, Shown, Status, Title, When } from '../parts/bits';
import { count, firstLine, span } from '../parts/format';
import { send } from '../state/act';
import { useAsked } from '../state/api';
import { write } from '../state/live';
import type { ProjectionsAnswer, SeenBuild, SeenStop } from '../state/wire';

const PATH = 'api/projections/act';

const keysText = (keys: number) => `${count(keys)} ${keys === 1 ? 'key goes' : 'keys go'} on.`;

const STATES = {
  live: <Status of="open" name="live" />,
  building: <Status of="processing" name="building" />,
  old: <Status of="waiting" name="old" />,
} as const;

/** What stands still is said beside the state. */
const State = ({ of }: { of: SeenBuild }) => (
  <>
    {STATES[of.state as keyof typeof STATES]}
    {of.refused && (
      <>
        {' '}
        <Status of="unreadable" name="refused" />
      </>
    )}
    {of.stopped > 0 && (
      <>
        {' '}
        <Status of="dead_letter" name={`${count(of.stopped)} stopped`} />
      </>
    )}
  </>
);

interface Question {
  readonly verb: 'rebuild' | 'promote' | 'remove';
  readonly act: string;
  readonly title: string;
  readonly text: string;
  readonly said: string;
}

function questionsOf({ name, version, state, tables, refused }: SeenBuild, all: SeenBuild[]) {
  const live = all.find((one) => one.name === name && one.state === 'live');
  const which = `version ${version} of ${name}`;
  const questions: Question[] = [];
  if (state === 'live' && tables !== null && !refused)
    questions.push({
      ...{ verb: 'rebuild', act: 'Rebuild', title: `Build ${name} anew?` },
      text: 'All events of its log are applied once more, beside the live one. It takes the place of that once it has caught up.',
      said: `A second build of ${name} began.`,
    });
  // Of one version the live one would be found.
  if (state !== 'live' && live?.version !== version && !refused)
    questions.push({
      ...{ verb: 'promote', act: 'Promote', title: `Make ${which} the live one?` },
      text: 'Readers see its tables from then on. The one that is live now is kept as the old one.',
      said: `Version ${version} of ${name} is live.`,
    });
  if (state !== 'live')
    questions.push({
      ...{ verb: 'remove', act: 'Remove', title: `Remove ${which}?` },
      text: 'Its tables are dropped. The live one stays as it is.',
      said: `The build of ${which} is gone.`,
    });
  return questions;
}

function Acts({ of, all }: { of: SeenBuild; all: SeenBuild[] }) {
  const [asked, setAsked] = useState<Question | null>(null);
  const { name, version, stopped } = of;
  const resume = () =>
    void send<{ keys: number }>(PATH, { verb: 'resume', name }, ({ keys }) => keysText(keys));
  return (
    <>
      {stopped > 0 && (
        <Button onClick={resume} aria-label={`Retry all stopped keys of ${name}`}>
          Retry keys
        </Button>
      )}
      {questionsOf(of, all).map((question) => (
        <Button
          key={question.verb}
          onClick={() => setAsked(question)}
          aria-label={`${question.act} version ${version} of ${name}`}
        >
          {`${question.act}…`}
        </Button>
      ))}
      {asked && (
        <Confirm
          title={asked.title}
          keep="Leave it"
          act={asked.act}
          onAct={() =>
            void send(PATH, { verb: asked.verb, name, version: String(version) }, asked.said)
          }
          onClose={() => setAsked(null)}
        >
          {asked.text}
        </Confirm>
      )}
    </>
  );
}

const Build = ({ of, all }: { of: SeenBuild; all: SeenBuild[] }) => (
  <tr>
    <th scope="row" class="name">
      {of.name}
    </th>
    <td class="number">{of.version}</td>
    <td>
      <State of={of} />
    </td>
    <td class="number">{of.refused ? '–' : count(of.events)}</td>
    <td class="number">{of.refused || of.events === 0 ? '–' : span(of.lagMs)}</td>
    <td class="number">{count(of.applied)}</td>
    <td>{of.stream}</td>
    <td>{of.tables ?? <span class="dim">its program’s</span>}</td>
    {write.value && (
      <td class="row">
        <Acts of={of} all={all} />
      </td>
    )}
  </tr>
);

function Stop({ of }: { of: SeenStop }) {
  const [asks, setAsks] = useState(false);
  const { name, key, eventId: event } = of;
  const go = (body: object) =>
    void send<{ keys: number }>(PATH, { name, ...body }, ({ keys }) =>
      keys > 0 ? keysText(keys) : 'The key has gone on meanwhile.',
    );
  return (
    <tr>
      <th scope="row" class="name">
        {key}
      </th>
      <td>{`${name}, version ${of.version}`}</td>
      <td>
        {of.type}
        <div class="dim">{`${event} at ${count(of.position)}`}</div>
      </td>
      <td>
        {firstLine(of.error)}
        {of.error.includes('\n') && (
          <details>
            <summary>Stack</summary>
            <pre>{of.error}</pre>
          </details>
        )}
      </td>
      <td>
        <When at={of.since} />
      </td>
      <td class="number">{count(of.parked)}</td>
      {write.value && (
        <td class="row">
          {of.resume ? (
            <span class="dim">{of.skip ? 'is skipped' : 'is retried'}</span>
          ) : (
            <>
              <Button onClick={() => go({ verb: 'resume', key })} aria-label={`Retry ${key}`}>
                Retry
              </Button>
              <Button onClick={() => setAsks(true)} aria-label={`Skip the event of ${key}`}>
                Skip…
              </Button>
            </>
          )}
          {asks && (
            <Confirm
              title={`Pass over the event of ${key}?`}
              keep="Leave it"
              act="Skip it"
              onAct={() => go({ verb: 'skip', event })}
              onClose={() => setAsks(false)}
            >
              What waits behind it is applied. The read model will lack this event.
            </Confirm>
          )}
        </td>
      )}
    </tr>
  );
}

const BUILDS = [
  ...['Projection', 'Version', 'State', 'Events behind', 'Lag', 'Events read', 'Log', 'Tables'],
];
const STOPS = ['Key', 'Projection', 'Stopped at', 'Error', 'Since', 'Waiting'];
const NONE = 'There is no projection. Programs make them with project(worker, [projection(…)]).';

export function Projections() {
  const asked = useAsked<ProjectionsAnswer>('api/projections', 1);
  const withActs = (head: string[]) => (write.value ? [...head, 'Acts'] : head);
  return (
    <>
      <Title>Projections</Title>
      <Shown of={asked}>
        {({ builds, stops, moreStops }) => (
          <>
            {builds.some(({ refused }) => refused) && (
              <p class="failed">
                The cursors of what is refused were taken in another cluster of PostgreSQL. Stop its
                workers, then run <code>holdfast projections rebase NAME</code>.
              </p>
            )}
            <Table label="Builds" head={withActs(BUILDS)} numbers={[1, 3, 4, 5]} empty={NONE}>
              {builds.map((one) => (
                <Build key={one.id} of={one} all={builds} />
              ))}
            </Table>
            {builds.length > 0 && (
              <>
                <h2>Stopped keys</h2>
                <Table
                  label="Stopped keys"
                  head={withActs(STOPS)}
                  numbers={[5]}
                  empty="No key has stopped: each event could be applied."
                >
                  {stops.map((one) => (
                    <Stop key={`${one.projectionId} ${one.key}`} of={one} />
                  ))}
                </Table>
                {moreStops && <p class="dim">There are more: holdfast projections stops.</p>}
              </>
            )}
          </>
        )}
      </Shown>
    </>
  );
}
