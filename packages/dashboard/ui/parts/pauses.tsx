/** Types and keys that are paused by themselves, and the form that pauses one. */
import { doing } from '../state/act';
import { post } from '../state/api';
import type { LiveQueue } from '../state/wire';
import { Empty, Link, Table } from './bits';

type What = 'type' | 'key';

function turn(queue: string, verb: 'pause' | 'resume', what: What, name: string): Promise<boolean> {
  return doing(async () => {
    await post(`api/queues/${encodeURIComponent(queue)}/${verb}`, { [what]: name });
    return verb === 'pause'
      ? `Jobs of ${what} ${name} in ${queue} wait until it is resumed.`
      : `Jobs of ${what} ${name} in ${queue} run again.`;
  });
}

function PauseForm({ queues }: { queues: readonly LiveQueue[] }) {
  async function submit(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    const element = event.currentTarget as HTMLFormElement;
    const form = new FormData(element);
    const text = (name: string) => String(form.get(name) ?? '').trim();
    if (await turn(text('queue'), 'pause', text('what') as What, text('name'))) element.reset();
  }
  return (
    <form class="filter" aria-label="Pause a part" onSubmit={(event) => void submit(event)}>
      <label>
        Queue
        <select name="queue">
          {queues.map(({ queue }) => (
            <option key={queue}>{queue}</option>
          ))}
        </select>
      </label>
      <label>
        Pause
        <select name="what">
          <option value="type">a type</option>
          <option value="key">a key</option>
        </select>
      </label>
      <label>
        Name
        <input name="name" required maxLength={512} />
      </label>
      <button type="submit">Pause it</button>
    </form>
  );
}

export function Pauses({ queues, write }: { queues: readonly LiveQueue[]; write: boolean }) {
  const paused = queues.flatMap(({ queue, pausedTypes, pausedKeys }) => [
    ...pausedTypes.map((name) => ({ queue, what: 'type' as const, name })),
    ...pausedKeys.map((name) => ({ queue, what: 'key' as const, name })),
  ]);
  const head = ['Queue', 'Paused', 'Name'];
  return (
    <section class="part" aria-label="Paused types and keys">
      <h2>Paused types and keys</h2>
      {write && queues.length > 0 && <PauseForm queues={queues} />}
      {paused.length === 0 ? (
        <Empty>
          No type and no key is paused by itself. Queues are paused on their own screen.
        </Empty>
      ) : (
        <Table label="Paused" head={write ? [...head, 'Acts'] : head}>
          {paused.map(({ queue, what, name }) => (
            <tr key={`${queue} ${what} ${name}`}>
              <td>{queue}</td>
              <td>{what}</td>
              <th scope="row">
                <Link
                  to={`jobs?queue=${encodeURIComponent(queue)}&${what}=${encodeURIComponent(name)}`}
                >
                  {name}
                </Link>
              </th>
              {write && (
                <td>
                  <button
                    type="button"
                    onClick={() => void turn(queue, 'resume', what, name)}
                    aria-label={`Resume ${what} ${name} of ${queue}`}
                  >
                    Resume
                  </button>
                </td>
              )}
            </tr>
          ))}
        </Table>
      )}
    </section>
  );
}
