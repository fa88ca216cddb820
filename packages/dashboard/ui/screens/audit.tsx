/** What people did, the latest first. */
import { Table } from '@holdfast/lab';
import { Pages, Shown, Title, When } from '../parts/bits';
import { count } from '../parts/format';
import { useAsked } from '../state/api';
import { query } from '../state/route';
import type { AuditAnswer } from '../state/wire';

const about = ({ filter, changes }: AuditAnswer['acts'][number]) =>
  [filter, changes].flatMap((part) => (part ? [JSON.stringify(part)] : [])).join(' ');

const HEAD = ['When', 'Act', 'Queue', 'Jobs', 'Who', 'Why', 'About'];

export function Audit() {
  const after = query.value.get('after');
  const asked = useAsked<AuditAnswer>(
    `api/audit${after ? `?after=${encodeURIComponent(after)}` : ''}`,
    after ? 0 : 3,
  );
  return (
    <>
      <Title>Audit</Title>
      <Shown of={asked}>
        {({ acts }) => (
          <Table label="Acts" head={HEAD} numbers={[3]} empty="Nobody has done anything yet.">
            {acts.map((entry) => (
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
      </Shown>
      <Pages next={asked.data?.next} first="Latest" more="Earlier" />
    </>
  );
}
