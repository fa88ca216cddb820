/** What people did, the latest first. */
import { Empty, Failed, Link, Table, Title, Waiting, When } from '../parts/bits';
import { count } from '../parts/format';
import { useAsked } from '../state/api';
import { query, withQuery } from '../state/route';
import type { AuditAnswer } from '../state/wire';

const about = ({ filter, changes }: AuditAnswer['acts'][number]) =>
  [filter, changes].flatMap((part) => (part ? [JSON.stringify(part)] : [])).join(' ');

export function Audit() {
  const after = query.value.get('after');
  const { data, error } = useAsked<AuditAnswer>(
    `api/audit${after ? `?after=${encodeURIComponent(after)}` : ''}`,
    after ? 0 : 3,
  );
  return (
    <>
      <Title>Audit</Title>
      <Failed error={error} />
      {!data ? (
        error === null && <Waiting />
      ) : data.acts.length === 0 ? (
        <Empty>Nobody has done anything yet.</Empty>
      ) : (
        <Table
          label="Acts"
          head={['When', 'Act', 'Queue', 'Jobs', 'Who', 'Why', 'About']}
          numbers={[3]}
        >
          {data.acts.map((entry) => (
            <tr key={entry.id}>
              <td>
                <When at={entry.at} />
              </td>
              <th scope="row">{entry.act.replace('_', ' ')}</th>
              <td>{entry.queue ?? ''}</td>
              <td class="number">{entry.jobs === null ? '' : count(entry.jobs)}</td>
              <td>{entry.actor ?? entry.role}</td>
              <td class="error">{entry.reason ?? ''}</td>
              <td class="error" title={about(entry)}>
                {about(entry)}
              </td>
            </tr>
          ))}
        </Table>
      )}
      <nav class="row pages" aria-label="Pages">
        {after && <Link to={withQuery({ after: null })}>Latest</Link>}
        {data?.next && <Link to={withQuery({ after: data.next })}>Earlier</Link>}
      </nav>
    </>
  );
}
