/** A row as it stands, column by column; what the last step changed stands out. */
import type { RowState } from '../engine/desk.js';
import { before } from '../player.js';
import { Countdown, Panel } from './bits.js';

export function Row({ state, leaseMs }: { state: RowState; leaseMs: number }) {
  const { row, table } = state;
  const earlier = (before.value?.state as RowState | undefined)?.row ?? null;
  return (
    <Panel title={row ? `The row, in holdfast.${table}` : 'The row'}>
      {row ? (
        <>
          <table class="row-table">
            <thead>
              <tr>
                <th scope="col">Column</th>
                <th scope="col">Value</th>
              </tr>
            </thead>
            <tbody>
              {Object.entries(row).map(([name, value]) => (
                <tr key={name} class={earlier && earlier[name] !== value ? 'marked' : undefined}>
                  <th scope="row">
                    <code>{name}</code>
                  </th>
                  <td>{value ?? <span class="dim">NULL</span>}</td>
                </tr>
              ))}
            </tbody>
          </table>
          <Countdown label="Lease" leftMs={state.leaseMs} ofMs={leaseMs} />
          <Countdown label="Due in" leftMs={state.dueMs} ofMs={16_000} />
        </>
      ) : (
        <p class="empty small">There is no row yet.</p>
      )}
    </Panel>
  );
}
