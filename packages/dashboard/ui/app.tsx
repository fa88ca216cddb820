/** The frame around every screen: where one can go, how fresh the picture is, and what was just done. */

import { Button, Header } from '@holdfast/lab';
import { useEffect, useState } from 'preact/hooks';
import { Dialog, Failed, Link, Waiting } from './parts/bits';
import { Audit } from './screens/audit';
import { DeadLetters } from './screens/dead-letters';
import { Health } from './screens/health';
import { JobScreen } from './screens/job';
import { Jobs } from './screens/jobs';
import { Limits } from './screens/limits';
import { LiveLab } from './screens/live-lab';
import { Overview } from './screens/overview';
import { Projections } from './screens/projections';
import { Queues } from './screens/queues';
import { RingScreen } from './screens/ring';
import { RunScreen } from './screens/run';
import { Schedules } from './screens/schedules';
import { WebhookScreen, Webhooks } from './screens/webhooks';
import { Workers } from './screens/workers';
import { Workflows } from './screens/workflows';
import { dismiss, messages } from './state/act';
import { get, post } from './state/api';
import { freshness, session, snapshot, startLive } from './state/live';
import { go, href, path } from './state/route';
import type { Session } from './state/wire';

const SCREENS = [
  { to: '', name: 'Overview', key: 'o', screen: Overview },
  { to: 'jobs', name: 'Jobs', key: 'j', screen: Jobs },
  { to: 'workflows', name: 'Workflows', key: 'f', screen: Workflows },
  { to: 'dead-letters', name: 'Dead letters', key: 'd', screen: DeadLetters },
  { to: 'queues', name: 'Queues', key: 'q', screen: Queues },
  { to: 'workers', name: 'Workers', key: 'w', screen: Workers },
  { to: 'ring', name: 'Ring', key: 'r', screen: RingScreen },
  { to: 'schedules', name: 'Schedules', key: 's', screen: Schedules },
  { to: 'limits', name: 'Limits', key: 't', screen: Limits },
  { to: 'webhooks', name: 'Webhooks', key: 'k', screen: Webhooks },
  { to: 'projections', name: 'Projections', key: 'p', screen: Projections },
  { to: 'health', name: 'Health', key: 'h', screen: Health },
  { to: 'audit', name: 'Audit', key: 'a', screen: Audit },
  { to: 'live-lab', name: 'Live lab', key: 'v', screen: LiveLab },
] as const;

/** The live lab is where somebody has a fleet to offer. */
const listed = () => SCREENS.filter(({ to }) => to !== 'live-lab' || session.value?.lab);

const typing = (target: EventTarget | null) =>
  target instanceof HTMLElement && /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);

/** `g` and a letter go somewhere, `/` searches, `?` tells. */
function useKeys(help: () => void): void {
  useEffect(() => {
    let wentAt = 0;
    const onKey = (event: KeyboardEvent) => {
      if (event.metaKey || event.ctrlKey || event.altKey || typing(event.target)) return;
      if (document.querySelector('dialog[open]')) return;
      const screen = listed().find(({ key }) => key === event.key);
      if (Date.now() - wentAt < 1_500 && screen) go(screen.to);
      // A page of its own, with the policy that WebAssembly needs.
      else if (Date.now() - wentAt < 1_500 && event.key === 'l') location.assign(href('lab/'));
      else if (event.key === '/') {
        const search = document.querySelector<HTMLElement>('[data-search]');
        if (search) search.focus();
        else go('jobs');
        event.preventDefault();
      } else if (event.key === '?') help();
      wentAt = event.key === 'g' ? Date.now() : 0;
    };
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  }, []);
}

function Fresh() {
  const { state, text } = freshness.value;
  return (
    <span class={`fresh is-${state}`} role="status" title={`How fresh this picture is: ${text}`}>
      {text}
    </span>
  );
}

function Top({ help }: { help: () => void }) {
  const here = path.value.split('/')[0];
  const dead = snapshot.value?.queues.reduce((sum, { deadLetter }) => sum + deadLetter, 0) ?? 0;
  const badge = dead > 0 ? dead.toLocaleString('en') : '';
  const signOut = () => void post('logout', {}).finally(() => location.reload());
  return (
    <Header
      brand={<Link to="">Holdfast</Link>}
      label="Screens"
      // What appears before the current link moves it.
      here={[here, session.value !== null, badge.length].join()}
      links={
        <>
          {listed().map(({ to, name }) => (
            <Link to={to} current={here === to}>
              {name}
              {to === 'dead-letters' && badge && <span class="badge">{badge}</span>}
            </Link>
          ))}
          <a href={href('lab/')}>Lab</a>
        </>
      }
      state={
        <>
          <Fresh />
          {session.value?.write === false && <span class="chip">read-only</span>}
        </>
      }
    >
      <Button class="plain" onClick={help} aria-label="Keys">
        ?
      </Button>
      {session.value?.signedIn && (
        <Button class="plain" onClick={signOut}>
          Sign out
        </Button>
      )}
    </Header>
  );
}

const Help = ({ onClose }: { onClose: () => void }) => (
  <Dialog title="Keys" onClose={onClose}>
    <dl class="facts">
      {[
        ...listed().map(({ key, name }) => [name, 'g', key] as const),
        ...([
          ['Lab', 'g', 'l'],
          ['search jobs', '/'],
        ] as const),
      ].map(([name, ...keys]) => (
        <div>
          <dt>
            {keys.map((key) => (
              <>
                <kbd>{key}</kbd>{' '}
              </>
            ))}
          </dt>
          <dd>{name}</dd>
        </div>
      ))}
    </dl>
    <form method="dialog" class="row end">
      <button type="submit">Close</button>
    </form>
  </Dialog>
);

const Messages = () => (
  <div class="messages" role="status">
    {messages.value.map(({ id, text, bad, undo }) => (
      <div key={id} class={bad ? 'message is-bad' : 'message'}>
        <span class="grow">{text}</span>
        {undo && (
          <Button
            onClick={() => {
              dismiss(id);
              undo();
            }}
          >
            Undo
          </Button>
        )}
        <Button class="plain" aria-label="Dismiss" onClick={() => dismiss(id)}>
          ×
        </Button>
      </div>
    ))}
  </div>
);

function Screen() {
  const here = path.value;
  const name = here.split('/')[0];
  const known = SCREENS.find(({ to }) => to === name);
  useEffect(() => {
    document.title = `${known?.name ?? 'Not found'} · Holdfast`;
  }, [known]);
  if (here.startsWith('jobs/')) return <JobScreen key={here} id={here.slice(5)} />;
  if (here.startsWith('webhooks/')) return <WebhookScreen key={here} id={here.slice(9)} />;
  if (here.startsWith('workflows/')) return <RunScreen key={here} id={here.slice(10)} />;
  if (!known) return <Failed error="There is no such screen." />;
  const { screen: Content } = known;
  return <Content />;
}

export function App() {
  const [help, setHelp] = useState(false);
  const [error, setError] = useState<string | null>(null);
  useKeys(() => setHelp(true));
  useEffect(() => {
    get<Session>('api/session').then(
      (value) => {
        session.value = value;
        startLive();
      },
      (failed: Error) => setError(failed.message),
    );
  }, []);
  return (
    <>
      <a class="skip" href={`${href(path.value)}#main`}>
        Skip to the content
      </a>
      <Top help={() => setHelp(true)} />
      <main id="main" tabIndex={-1}>
        {session.value ? <Screen /> : error ? <Failed error={error} /> : <Waiting />}
      </main>
      <footer>
        {session.value &&
          `holdfast ${session.value.version} · schema ${session.value.schema} · ${session.value.actor}`}
      </footer>
      <Messages />
      {help && <Help onClose={() => setHelp(false)} />}
    </>
  );
}
