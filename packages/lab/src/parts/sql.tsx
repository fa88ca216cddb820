/** The statements that ran in this step: whose, the text, what went in and what came back. */
import type { Sql } from '../engine/frame.js';
import { frame } from '../player.js';
import { Panel, rowsText, seconds } from './bits.js';
import { Empty, Table } from './common.js';

/** More than that is a burst, and nobody reads it. */
const MOST_SHOWN = 12;

function Statement({ sql, open }: { sql: Sql; open: boolean }) {
  return (
    <li>
      <details open={open}>
        <summary>
          <code>{sql.name}</code> {`by ${sql.by}, T+${seconds(sql.at)} `}
          <b class={sql.count === 0 ? 'none' : 'some'}>{rowsText(sql.count)}</b>
        </summary>
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: who has no mouse scrolls it with the arrow keys. */}
        <pre tabIndex={0}>{sql.text}</pre>
        {sql.params.length > 0 && (
          <dl class="params">
            {sql.params.map((value, place) => (
              <div>
                <dt>
                  <code>{`$${place + 1}`}</code>
                </dt>
                <dd>
                  <code>{value ?? 'NULL'}</code>
                </dd>
              </div>
            ))}
          </dl>
        )}
        {sql.rows.length > 0 && <Returned sql={sql} />}
      </details>
    </li>
  );
}

/** Columns without a value are left out. */
function Returned({ sql }: { sql: Sql }) {
  const shown = sql.columns
    .map((name, place) => ({ name, place }))
    .filter(({ place }) => sql.rows.some((row) => row[place] != null));
  return (
    <Table label={`What ${sql.name} returned`} head={shown.map(({ name }) => name)}>
      {sql.rows.map((row) => (
        <tr>
          {shown.map(({ place }) => (
            <td>{row[place] ?? ''}</td>
          ))}
        </tr>
      ))}
    </Table>
  );
}

/** `quiet`: closed at first, where there are many. */
export function Statements({ quiet = false }: { quiet?: boolean }) {
  const all = frame.value?.sql ?? [];
  const shown = all.slice(-MOST_SHOWN);
  return (
    <Panel title="What ran">
      {all.length === 0 ? (
        <Empty small>No statement ran in this step.</Empty>
      ) : (
        <ol class="statements">
          {shown.map((sql, place) => (
            <Statement
              key={`${frame.value?.at} ${place} ${sql.name}`}
              sql={sql}
              open={!quiet && place === shown.length - 1}
            />
          ))}
        </ol>
      )}
      {all.length > shown.length && (
        <p class="dim">{`and ${all.length - shown.length} before these`}</p>
      )}
    </Panel>
  );
}
