/** Webhooks: where they go, how each endpoint fares, and what was sent to it. */
import { Button, Field, Select, Table } from '@holdfast/lab';
import { useState } from 'preact/hooks';
import { Confirm, Dialog, Link, Pages, Search, Shown, Status, Title, When } from '../parts/bits';
import { EndpointDialog } from '../parts/endpoint-dialog';
import { count, span } from '../parts/format';
import { send } from '../state/act';
import { useAsked } from '../state/api';
import { write } from '../state/live';
import { go, query, withQuery } from '../state/route';
import type { SeenAttempt, SeenEndpoint, WebhookAnswer, WebhooksAnswer } from '../state/wire';

const HEAD = ['Endpoint', 'State', 'Since', 'Tenant', 'Events'];
const NONE = 'No endpoint matches. Programs make them with webhooks(hf).endpoints.create().';

/** A disabled one holds its deliveries; one that only fails will be. */
const State = ({ of }: { of: SeenEndpoint }) =>
  of.state === 'disabled' ? (
    <Status of="paused" name="disabled" />
  ) : of.failingSince ? (
    <Status of="dead_letter" name="failing" />
  ) : (
    <Status of="open" name="active" />
  );

export function Webhooks() {
  const text = query.value.toString();
  const asked = useAsked<WebhooksAnswer>(`api/webhooks${text && `?${text}`}`, 2);
  const { data } = asked;
  return (
    <>
      <Title>Webhooks</Title>
      <Search
        onSearch={(of) =>
          go(
            withQuery({
              ...{ tenant: of('tenant'), state: of('state') },
              ...{ queue: of('queue'), after: null },
            }),
          )
        }
      >
        <Field label="Tenant" name="tenant" defaultValue={query.value.get('tenant') ?? ''} />
        <Select
          {...{ label: 'State', name: 'state', options: ['', 'active', 'disabled'] }}
          value={query.value.get('state') ?? ''}
        />
        {data && data.queues.length > 1 && (
          <Select label="Queue" name="queue" options={data.queues} value={data.queue ?? ''} />
        )}
      </Search>
      <Shown of={asked}>
        {({ endpoints, next }) => (
          <>
            <Table label="Endpoints" head={HEAD} empty={NONE}>
              {endpoints.map((one) => (
                <tr key={one.id}>
                  <th scope="row" class="name">
                    <Link to={`webhooks/${one.id}`}>{one.url}</Link>
                  </th>
                  <td>
                    <State of={one} />
                  </td>
                  <td>
                    <When at={one.failingSince ?? one.stateAt} />
                  </td>
                  <td class="key">{one.tenant}</td>
                  <td class="key" title={one.events.join(', ')}>
                    {one.events.join(', ')}
                  </td>
                </tr>
              ))}
            </Table>
            <Pages next={next} />
          </>
        )}
      </Shown>
    </>
  );
}

const rateText = ({ rate }: SeenEndpoint) =>
  rate ? `${count(rate.limit)} in ${span(rate.perMs)}, burst ${count(rate.burst)}` : 'any';

function Facts({ of, counts }: { of: SeenEndpoint; counts: WebhookAnswer['counts'] }) {
  const facts: readonly (readonly [string, string | null])[] = [
    ['Tenant', of.tenant],
    ['Events', of.events.join(', ')],
    ['Why', of.stateReason],
    ['By', of.stateBy],
    ['Headers', of.headers.join(', ') || null],
    ['Requests at once', of.ordered ? 'one, in order' : count(of.concurrency)],
    ['Requests in a time', rateText(of)],
    ['Secrets that sign', count(of.secrets)],
    ['Waiting', count(counts.waiting)],
    ['Held', count(counts.held)],
    ['Failed for good', count(counts.failed)],
  ];
  return (
    <dl class="facts">
      <div>
        <dt>State</dt>
        <dd>
          <State of={of} /> since <When at={of.failingSince ?? of.stateAt} />
        </dd>
      </div>
      {facts.map(
        ([name, value]) =>
          value && (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ),
      )}
    </dl>
  );
}

/** The new secret, this once. */
const Secret = ({ secret, onClose }: { secret: string; onClose: () => void }) => (
  <Dialog title="The new secret" onClose={onClose}>
    <p>It is shown this once. For a day the old one signs too.</p>
    <pre>{secret}</pre>
    <div class="row end">
      <Button onClick={onClose}>Close</Button>
    </div>
  </Dialog>
);

function Acts({ of }: { of: SeenEndpoint }) {
  const [asks, setAsks] = useState<'change' | 'disable' | 'rotate' | null>(null);
  const [secret, setSecret] = useState<string | null>(null);
  const path = `api/webhooks/${of.id}/act`;
  const rotate = () =>
    void send<{ secret: string }>(path, { verb: 'rotate' }, (answer) => {
      setSecret(answer.secret);
      return 'The endpoint has a new secret.';
    });
  const enable = () =>
    void send<{ replayed: number }>(
      path,
      { verb: 'enable' },
      ({ replayed }) => `Enabled. ${count(replayed)} deliveries are due now.`,
    );
  const disable = () => void send(path, { verb: 'disable' }, 'Its deliveries are held.');
  const test = () =>
    void send(path, { verb: 'test' }, 'A worker sends a test. It appears among the attempts.');
  return (
    <div class="row">
      <Button onClick={test}>Send a test</Button>
      <Button onClick={() => setAsks('change')}>Change…</Button>
      {of.state === 'disabled' ? (
        <Button onClick={enable}>Enable</Button>
      ) : (
        <Button onClick={() => setAsks('disable')}>Disable…</Button>
      )}
      <Button onClick={() => setAsks('rotate')}>New secret…</Button>
      {asks === 'change' && <EndpointDialog of={of} onClose={() => setAsks(null)} />}
      {asks && asks !== 'change' && (
        <Confirm
          title={asks === 'disable' ? 'Disable the endpoint?' : 'Give it a new secret?'}
          keep="Leave it"
          act={asks === 'disable' ? 'Disable' : 'New secret'}
          onAct={asks === 'disable' ? disable : rotate}
          onClose={() => setAsks(null)}
        >
          {asks === 'disable'
            ? 'Its deliveries are held until it is enabled.'
            : 'For a day both secrets sign. Then receivers need the new one.'}
        </Confirm>
      )}
      {secret && <Secret secret={secret} onClose={() => setSecret(null)} />}
    </div>
  );
}

function Attempt({ of, endpoint }: { of: SeenAttempt; endpoint: string }) {
  const resend = () =>
    void send<{ moved: string[] }>(
      `api/webhooks/${endpoint}/act`,
      { verb: 'resend', ids: [of.delivery] },
      ({ moved }) =>
        moved.length > 0 ? 'It is sent again.' : 'It is neither in the queue nor in its archive.',
    );
  return (
    <tr>
      <td>
        <When at={of.at} />
      </td>
      <td>
        <Status
          of={of.delivered ? 'completed' : 'dead_letter'}
          name={of.status === null ? 'no answer' : String(of.status)}
        />
      </td>
      <th scope="row">
        <Link to={`jobs/${of.delivery}`}>{of.type}</Link>
      </th>
      <td>{count(of.attempt)}</td>
      <td>{span(of.ms)}</td>
      <td>
        {of.error}
        {of.answer && (
          <details>
            <summary>Answer</summary>
            <pre>{String(of.answer)}</pre>
          </details>
        )}
      </td>
      {write.value && (
        <td>
          <Button onClick={resend} aria-label={`Resend ${of.type}`}>
            Resend
          </Button>
        </td>
      )}
    </tr>
  );
}

const ATTEMPTS = ['At', 'Answered', 'Event', 'Attempt', 'Took', 'What it said'];

export function WebhookScreen({ id }: { id: string }) {
  const after = query.value.get('after');
  const asked = useAsked<WebhookAnswer>(`api/webhooks/${id}${after ? `?after=${after}` : ''}`, 1);
  return (
    <Shown of={asked}>
      {({ endpoint, counts, attempts, next }) => (
        <>
          <Title aside={write.value && <Acts of={endpoint} />}>{endpoint.url}</Title>
          <Facts of={endpoint} counts={counts} />
          <h2 class="part">Attempts</h2>
          <Table
            label="Attempts"
            head={write.value ? [...ATTEMPTS, 'Acts'] : ATTEMPTS}
            empty="Nothing was sent to it yet, or the log is over."
          >
            {attempts.map((one) => (
              <Attempt key={one.id} of={one} endpoint={id} />
            ))}
          </Table>
          <Pages next={next} first="Latest" more="Older" />
        </>
      )}
    </Shown>
  );
}
