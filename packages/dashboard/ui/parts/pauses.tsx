/** Types and keys that are paused by themselves, and the form that pauses one. */
import { Button, Field, Select, Table } from '@holdfast/lab';
import { send } from '../state/act';
import { write } from '../state/live';
import { jobsAt } from '../state/route';
import type { LiveQueue } from '../state/wire';
import { Link, textsOf } from './bits';

function turn(verb: 'pause' | 'resume', queue: string, what: string, name: string) {
  const then = verb === 'pause' ? 'wait until it is resumed' : 'run again';
  const said = `Jobs of ${what} ${name} in ${queue} ${then}.`;
  return send(`api/queues/${encodeURIComponent(queue)}/${verb}`, { [what]: name }, said);
}

const PauseForm = ({ queues }: { queues: readonly LiveQueue[] }) => (
  <form
    class="filter"
    aria-label="Pause a part"
    onSubmit={async (event) => {
      const form = event.currentTarget;
      const text = textsOf(event);
      if (await turn('pause', text('queue'), text('what'), text('name'))) form.reset();
    }}
  >
    <Select label="Queue" name="queue" options={queues.map(({ queue }) => queue)} />
    <Select
      label="Pause"
      name="what"
      options={[
        ['type', 'a type'],
        ['key', 'a key'],
      ]}
    />
    <Field label="Name" name="name" required maxLength={512} />
    <button type="submit">Pause it</button>
  </form>
);

const HEAD = ['Queue', 'Paused', 'Name'];

export function Pauses({ queues }: { queues: readonly LiveQueue[] }) {
  const paused = queues.flatMap(({ queue, pausedTypes, pausedKeys }) => [
    ...pausedTypes.map((name) => ({ queue, what: 'type', name })),
    ...pausedKeys.map((name) => ({ queue, what: 'key', name })),
  ]);
  return (
    <section class="part" aria-label="Paused types and keys">
      <h2>Paused types and keys</h2>
      {write.value && queues.length > 0 && <PauseForm queues={queues} />}
      <Table
        label="Paused"
        head={write.value ? [...HEAD, 'Acts'] : HEAD}
        empty="No type and no key is paused by itself. Queues are paused on their own screen."
      >
        {paused.map(({ queue, what, name }) => (
          <tr key={`${queue} ${what} ${name}`}>
            <td>{queue}</td>
            <td>{what}</td>
            <th scope="row">
              <Link to={jobsAt({ queue, [what]: name })}>{name}</Link>
            </th>
            {write.value && (
              <td>
                <Button
                  onClick={() => void turn('resume', queue, what, name)}
                  aria-label={`Resume ${what} ${name} of ${queue}`}
                >
                  Resume
                </Button>
              </td>
            )}
          </tr>
        ))}
      </Table>
    </section>
  );
}
