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
  readonly title: string;
  readonly text: string;
  readonly act: string;
  readonly body: object;
  readonly said: string | ((answer: { keys: number }) => string);
}

type Ask = (question: Question) => void;

function questionsOf({ name, version, state, tables, refused }: SeenBuild, all: SeenBuild[]) {
  const live = all.find((one) => one.name === name && one.state === 'live');
  const which = `version ${version} of ${name}`;
  const body = (verb: string) => ({ verb, name, version: String(version) });
  const questions: Question[] = [];
  if (state === 'live' && tables !== null && !refused)
    questions.push({
      ...{ act: 'Rebuild', title: `Build ${name} anew?`, body: body('rebuild') },
      text: 'All events of its log are applied once more, beside the live one. It takes the place of that once it has caught up.',
      said: `A second build of ${name} began.`,
    });
  // Of one version the live one would be found.
  if (state !== 'live' && live?.version !== version && !refused)
    questions.push({
      ...{ act: 'Promote', title: `Make ${which} the live one?`, body: body('promote') },
      text: 'Readers see its tables from then on. The one that is live now is kept as the old one.',
      said: `Version ${version} of ${name} is live.`,
    });
  if (state !== 'live')
    questions.push({
      ...{ act: 'Remove', title: `Remove ${which}?`, body: body('remove') },
      text: 'Its tables are dropped. The live one stays as it is.',
      said: `The build of ${which} is gone.`,
    });
  return questions;
}

function Acts({ of, all, ask }: { of: SeenBuild; all: SeenBuild[]; ask: Ask }) {
  const { name, version, stopped } = of;
  const resume = () =>
    void send<{ keys: number }>(PATH, { verb: 'resume', name }, ({ keys }) => keysText(keys));
  return (
    <>
      {stopped > 0 && (
        <Button onClick={resume} aria-label={`Retry keys of ${name}`}>
          Retry keys
        </Button>
      )}
      {questionsOf(of, all).map((question) => (
        <Button
          key={question.act}
          onClick={() => ask(question)}
          aria-label={`${question.act} version ${version} of ${name}`}
        >
          {`${question.act}…`}
        </Button>
      ))}
    </>
  );
}

const Build = ({ of, all, ask }: { of: SeenBuild; all: SeenBuild[]; ask: Ask }) => (
  <tr>
    <th scope="row" class="name">
      {of.name}
    </th>
    <td>
      <State of={of} />
    </td>
    <td class="number">{of.version}</td>
    <td class="number">{of.refused ? '–' : count(of.events)}</td>
    <td class="number">{of.refused || of.events === 0 ? '–' : span(of.lagMs)}</td>
    <td class="number">{count(of.applied)}</td>
    <td>{of.stream}</td>
    <td>{of.tables ?? <span class="dim">its program’s</span>}</td>
    {write.value && (
      <td class="row">
        <Acts of={of} all={all} ask={ask} />
      </td>
    )}
  </tr>
);

function Stop({ of, ask }: { of: SeenStop; ask: Ask }) {
  const { name, key, eventId: event } = of;
  const said = ({ keys }: { keys: number }) =>
    keys > 0 ? keysText(keys) : 'The key has gone on meanwhile.';
  const retry = () => void send(PATH, { verb: 'resume', name, key }, said);
  const skip = () =>
    ask({
      ...{ title: `Pass over the event of ${key}?`, act: 'Skip it', said },
      body: { verb: 'skip', name, event },
      text: 'What waits behind it is applied. The read model will lack this event.',
    });
  return (
    <tr>
      <th scope="row" class="name">
        {key}
      </th>
      <td>
        {firstLine(of.error)}
        <details>
          <summary>Event</summary>
          <pre>{`${event}\n${of.error}`}</pre>
        </details>
      </td>
      <td>{of.type}</td>
      <td class="number">{count(of.position)}</td>
      <td>{`${name}, version ${of.version}`}</td>
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
              <Button onClick={retry} aria-label={`Retry ${key}`}>
                Retry
              </Button>
              <Button onClick={skip} aria-label={`Skip the event of ${key}`}>
                Skip…
              </Button>
            </>
          )}
        </td>
      )}
    </tr>
  );
}

const BUILDS = [
  ...['Projection', 'State', 'Version', 'Events behind', 'Lag', 'Events read', 'Log', 'Tables'],
];
const STOPS = ['Key', 'Error', 'Stopped at', 'Position', 'Projection', 'Since', 'Waiting'];
const NONE = 'There is no projection. Programs make them with project(worker, [projection(…)]).';

const withActs = (head: string[]) => (write.value ? [...head, 'Acts'] : head);

const Stops = ({ stops, moreStops, ask }: ProjectionsAnswer & { ask: Ask }) => (
  <section class="part">
    <h2>Stopped keys</h2>
    <Table
      label="Stopped keys"
      head={withActs(STOPS)}
      numbers={[3, 6]}
      empty="No key has stopped: each event could be applied."
    >
      {stops.map((one) => (
        <Stop key={`${one.projectionId} ${one.key}`} of={one} ask={ask} />
      ))}
    </Table>
    {moreStops && <p class="dim">There are more: holdfast projections stops.</p>}
  </section>
);

export function Projections() {
  const asked = useAsked<ProjectionsAnswer>('api/projections', 1);
  const [question, ask] = useState<Question | null>(null);
  return (
    <>
      <Title>Projections</Title>
      <Shown of={asked}>
        {(answer) => (
          <>
            {answer.builds.some(({ refused }) => refused) && (
              <p class="failed">
                The cursors of what is refused were taken in another cluster of PostgreSQL. Stop its
                workers, then run <code>holdfast projections rebase NAME</code>.
              </p>
            )}
            <Table label="Builds" head={withActs(BUILDS)} numbers={[2, 3, 4, 5]} empty={NONE}>
              {answer.builds.map((one) => (
                <Build key={one.id} of={one} all={answer.builds} ask={ask} />
              ))}
            </Table>
            {answer.builds.length > 0 && <Stops {...answer} ask={ask} />}
          </>
        )}
      </Shown>
      {question && (
        <Confirm
          title={question.title}
          keep="Leave it"
          act={question.act}
          onAct={() => void send(PATH, question.body, question.said)}
          onClose={() => ask(null)}
        >
          {question.text}
        </Confirm>
      )}
    </>
  );
}
