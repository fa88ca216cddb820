/** Runs of workflows: what waits for what, and a list. The filter is the address, so a search can be sent to somebody. */
import { Field, Select, Table } from '@holdfast/lab';
import { Link, Pages, Search, Shown, Status, Title, When } from '../parts/bits';
import { count, firstLine, stateText } from '../parts/format';
import { Age, Waits } from '../parts/run-bits';
import { useAsked } from '../state/api';
import { snapshot } from '../state/live';
import { go, query, withQuery } from '../state/route';
import type { ListedRun, RunsAnswer, WaitingAnswer } from '../state/wire';

const STATES = [
  ...['running', 'due', 'waiting', 'undoing', 'scheduled', 'dead_letter'],
  ...['completed', 'cancelled', 'discarded'],
];
const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

function wanted(text: (name: string) => string): string {
  // A key may look like an id: one that is searched for already is a key.
  if (ID.test(text('key')) && text('key') !== query.peek().get('key'))
    return `workflows/${text('key').toLowerCase()}`;
  const parts = ['queue', 'workflow', 'state', 'key', 'tag'].map((name) => [name, text(name)]);
  return withQuery({ ...Object.fromEntries(parts), after: null });
}

function Filter({ workflows }: { workflows: readonly string[] }) {
  const asked = (name: string) => query.value.get(name) ?? '';
  const seen = snapshot.value;
  const queues = seen ? [...seen.queues, ...seen.unreadable].map(({ queue }) => queue) : ['inbox'];
  // One that no worker has any more may still be in the address.
  const known = [...new Set([...workflows, asked('workflow')])].filter(Boolean).sort();
  return (
    <Search onSearch={(text) => go(wanted(text))}>
      <Select label="Queue" name="queue" value={asked('queue') || 'inbox'} options={queues} />
      <Select
        label="Workflow"
        name="workflow"
        value={asked('workflow')}
        options={[['', 'all workflows'], ...known]}
      />
      <Select
        label="State"
        name="state"
        value={asked('state')}
        options={[['', 'in the queue'], ...STATES.map((one) => [one, stateText(one)] as const)]}
      />
      <Field
        {...{ label: 'Key or id', name: 'key', 'data-search': '' }}
        defaultValue={asked('key')}
        placeholder="order:9182"
      />
      <Field label="Tag" name="tag" defaultValue={asked('tag')} />
    </Search>
  );
}

const WAITS_FOR: Readonly<Record<string, string>> = {
  ...{
    wait: 'a signal',
    sleep: 'a time',
    children: 'its children',
    undo: 'the next try of an undo',
  },
  ...{ step: 'the next try of a step', transaction: 'the next try of a transaction' },
};

function Waiting({ of }: { of: WaitingAnswer['waiting'] }) {
  if (of.length === 0) return null;
  return (
    <section class="waiting">
      <h2>What waits</h2>
      <Table
        label="What waits"
        head={['Workflow', 'Step', 'Waits for', 'Runs', 'Longest']}
        numbers={[3]}
      >
        {of.map(({ workflow, name, kind, runs, oldest, approximate }) => (
          <tr key={`${workflow} ${kind} ${name}`}>
            <th scope="row">
              <Link to={withQuery({ workflow, state: 'waiting', after: null })}>{workflow}</Link>
            </th>
            <td class="key">{name}</td>
            <td>{WAITS_FOR[kind] ?? kind}</td>
            <td class="number">{`${approximate ? 'about ' : ''}${count(runs)}`}</td>
            <td>
              <Age of={oldest} />
            </td>
          </tr>
        ))}
      </Table>
    </section>
  );
}

function Row({ run }: { run: ListedRun }) {
  const { id, workflow, version, state, key, tag, waits, completedAt, lastError } = run;
  return (
    <tr>
      <td>
        <Status of={state} />
      </td>
      <th scope="row">
        <Link to={`workflows/${id}`}>{version === 1 ? workflow : `${workflow} v${version}`}</Link>
      </th>
      <td class="key">{key === id ? <span class="dim">–</span> : key}</td>
      <td class="key">{tag}</td>
      <td>
        <When at={run.createdAt} />
      </td>
      <td class="wide">
        {waits.length > 0 ? (
          <Waits of={waits} />
        ) : completedAt ? (
          <>
            ended <When at={completedAt} />
          </>
        ) : (
          <span class="dim" title={lastError ?? undefined}>
            {firstLine(lastError)}
          </span>
        )}
      </td>
    </tr>
  );
}

export function Workflows() {
  const address = query.value;
  const queue = address.get('queue') ?? 'inbox';
  // A search that has found nothing reads for a second: it goes on when somebody asks for more.
  const asked = useAsked<RunsAnswer>(`api/runs?${address}`, (page) =>
    address.has('after') || (page?.next && page.runs.length === 0) ? 0 : 2,
  );
  const waits = useAsked<WaitingAnswer>(`api/runs/waiting?${new URLSearchParams({ queue })}`, 3);
  return (
    <>
      <Title>Workflows</Title>
      <Filter workflows={waits.data?.workflows ?? []} />
      <Waiting of={waits.data?.waiting ?? []} />
      <Shown of={asked}>
        {({ runs, next }) => (
          <Table
            label="Runs"
            head={['State', 'Workflow', 'Key', 'Tag', 'Started', 'Waits for']}
            empty={
              next === null
                ? 'No run matches. hf.enqueue() of a workflow starts one.'
                : 'Nothing found so far. The search is not at its end.'
            }
          >
            {runs.map((run) => (
              <Row key={run.id} run={run} />
            ))}
          </Table>
        )}
      </Shown>
      <Pages
        next={asked.data?.next}
        more={asked.data?.runs.length === 0 ? 'Search on' : 'Next page'}
      />
    </>
  );
}
