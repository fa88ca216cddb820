/** A row as it stands, column by column; what the last step changed stands out. */
import type { RowState } from '../engine/desk.js';
import { before } from '../player.js';
import { Countdown, Panel } from './bits.js';
import { Empty, Grid } from './common.js';

export function Row({ state, leaseMs }: { state: RowState; leaseMs: number }) {
  const { row, table } = state;
  const earlier = (before.value?.state as RowState | undefined)?.row ?? null;
  return (
    <Panel title={row ? `The row, in holdfast.${table}` : 'The row'}>
      {row ? (
        <>
          <Grid class="row-table" head={['Column', 'Value']}>
            {Object.entries(row).map(([name, value]) => (
              <tr key={name} class={earlier && earlier[name] !== value ? 'marked' : undefined}>
                <th scope="row">
                  <code>{name}</code>
                </th>
                <td>{value ?? <span class="dim">NULL</span>}</td>
              </tr>
            ))}
          </Grid>
          <Countdown label="Lease" leftMs={state.leaseMs} ofMs={leaseMs} />
          <Countdown label="Due in" leftMs={state.dueMs} ofMs={16_000} />
        </>
      ) : (
        <Empty small>There is no row yet.</Empty>
      )}
    </Panel>
  );
}
