/** Journey 7: what a crashed checkout did, how often, and the list of all crashes. */
import { useState } from 'preact/hooks';
import type { CheckoutState, Crashed } from '../engine/checkout.js';
import { ByHand, Do, List, Panel, set } from '../parts/bits.js';
import { Check, Select, Table } from '../parts/common.js';
import { Statements } from '../parts/sql.js';

const WHEN = [
  ['before', 'before it arrives'],
  ['after', 'right after it'],
] as const;

function Acts({ state }: { state: CheckoutState }) {
  const [nth, setNth] = useState('1');
  const [when, setWhen] = useState('before');
  const statements = state.statements.map(
    (name, place) => [String(place + 1), `${place + 1} ${name}`] as const,
  );
  return (
    <ByHand>
      <Do what={{ do: 'next' }}>Crash at the next place</Do>
      <Select label="Where" value={nth} options={statements} onChange={setNth} />
      <Select label="Kill the worker" value={when} options={WHEN} onChange={setWhen} />
      <Do what={{ do: 'crash', nth: Number(nth), when }}>Crash there</Do>
      <Check checked={state.keyed} onChange={(keys) => set({ keys })}>
        Steps pass their <code>key</code>
      </Check>
      <Check checked={state.fails} onChange={(fails) => set({ fails })}>
        It cannot be shipped
      </Check>
    </ByHand>
  );
}

const Effects = ({ state }: { state: CheckoutState }) => (
  <Panel title="What this checkout did">
    <Table label="Effects" head={['Effect', 'Ran', 'Happened', 'As a rule']} numbers={[1, 2, 3]}>
      {Object.entries(state.tally).map(([name, { ran, happened }]) => {
        const usual = state.usual[name as keyof typeof state.usual].happened;
        return (
          <tr key={name} class={ran > usual ? 'marked' : undefined}>
            <th scope="row">{name}</th>
            <td class="number">{ran}</td>
            <td class={happened === usual ? 'number' : 'number bad'}>{happened}</td>
            <td class="number">{usual}</td>
          </tr>
        );
      })}
    </Table>
  </Panel>
);

const Steps = ({ state }: { state: CheckoutState }) => (
  <Panel title="What is recorded of it">
    <Table label="Steps" head={['Step', 'Value']} empty="Nothing yet.">
      {state.steps.map(({ name, value }) => (
        <tr key={name}>
          <th scope="row">{name?.replace('\u0001', 'undo of ')}</th>
          <td>{value ?? <span class="dim">NULL</span>}</td>
        </tr>
      ))}
    </Table>
  </Panel>
);

function textOf({ statement, when, wrong }: Crashed) {
  const where = statement === null ? 'nobody was killed' : `${when} ${statement}`;
  if (wrong.length === 0) return `${where}: nothing twice`;
  return <b class="bad">{`${where}: not as usual: ${wrong.join(', ')}`}</b>;
}

export function CheckoutView({ state }: { state: CheckoutState }) {
  return (
    <>
      <Acts state={state} />
      <div class="columns lab-columns">
        <div>
          <Effects state={state} />
          <Panel title={`Crashes: ${state.crashed.length} of ${state.points}`}>
            <List class="log" empty="None yet." of={state.crashed.map(textOf).reverse()} />
          </Panel>
          <Steps state={state} />
        </div>
        <Statements quiet />
      </div>
    </>
  );
}
