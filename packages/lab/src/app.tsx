/** The frame of the lab: the seven journeys, the player, what happened, and the picture of it. */
import type { JSX } from 'preact';
import { useEffect } from 'preact/hooks';
import type { JourneyName } from './engine/lab.js';
import { engineState } from './engine-client.js';
import { CheckoutView } from './journeys/checkout.js';
import { CrashView } from './journeys/crash.js';
import { FleetView } from './journeys/fleet.js';
import { HeartbeatView } from './journeys/heartbeat.js';
import { ReceiptView } from './journeys/receipt.js';
import { RingView } from './journeys/ring.js';
import { ALL, specOf } from './journeys/specs.js';
import { TimingView } from './journeys/timing.js';
import { following, Header, Select } from './parts/common.js';
import { PlayerBar } from './parts/player-bar.js';
import { addressOf, goTo, goToJourney, place } from './place.js';
import {
  back,
  busy,
  course,
  courses,
  error,
  frame,
  open,
  opened,
  pause,
  step,
  toggle,
} from './player.js';

const VIEWS: Readonly<Record<JourneyName, (props: { state: never }) => JSX.Element>> = {
  ...{ receipt: ReceiptView, crash: CrashView, ring: RingView },
  ...{ heartbeat: HeartbeatView, timing: TimingView, fleet: FleetView },
  checkout: CheckoutView,
};

/** Of the dashboard that this page belongs to; none for a page that stands alone. */
const dashboard = document.querySelector<HTMLMetaElement>(
  'meta[name="holdfast-dashboard"]',
)?.content;

const Top = () => (
  <Header
    brand={<>{dashboard ? <a href={dashboard}>Holdfast</a> : <span>Holdfast</span>} lab</>}
    label="Journeys"
    here={place.value.journey}
    links={ALL.map(({ name, short }, number) => (
      <a
        href={addressOf({ journey: name, seed: place.value.seed, course: null, settings: {} })}
        aria-current={place.value.journey === name ? 'page' : undefined}
        title={`Key ${number + 1}`}
        onClick={following(() => goToJourney(name))}
      >
        {`${number + 1} ${short}`}
      </a>
    ))}
  >
    {dashboard && <a href={dashboard}>Dashboard</a>}
  </Header>
);

const CONTROLS = /^(INPUT|TEXTAREA|SELECT|BUTTON|A|SUMMARY)$/;

/** Space plays, the arrows step, r resets, 1 to 7 go to a journey. */
function useKeys(): void {
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const { target, key } = event;
      if (event.metaKey || event.ctrlKey || event.altKey) return;
      const tag = target instanceof HTMLElement ? target.tagName : '';
      if (/^(INPUT|TEXTAREA|SELECT)$/.test(tag)) return;
      const journey = ALL[Number(key) - 1];
      if (journey) goToJourney(journey.name);
      else if (key === 'r') void open();
      else if (key === 'ArrowLeft') back();
      else if (key === 'ArrowRight') {
        pause();
        void step();
      } else if (key === ' ' && !CONTROLS.test(tag)) {
        event.preventDefault();
        toggle();
      }
    };
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  }, []);
}

const Courses = () =>
  courses.value.length < 2 ? null : (
    <Select
      label="Course"
      value={course.value?.id}
      options={courses.value.map(({ id, title }) => [id, title])}
      onChange={(id) => goTo({ course: id })}
    />
  );

function Status() {
  const engine = engineState.value;
  if (engine.is === 'failed' || error.value !== null)
    return (
      <div class="failed" role="alert">
        <p>
          {engine.is === 'failed' ? `Postgres could not be loaded: ${engine.error}` : error.value}
        </p>
        {engine.is === 'failed' && (
          <p>
            The lab runs on the package @electric-sql/pglite. In a project with a dashboard:{' '}
            <code>npm install @electric-sql/pglite</code>, then start the dashboard again.
          </p>
        )}
      </div>
    );
  const shown = frame.value;
  const loading =
    engine.is === 'loading' ? engine.text : busy.value && !shown ? 'Computing …' : null;
  return (
    <p class={`said is-${loading ? 'plain' : (shown?.tone ?? 'plain')}`} role="status">
      {loading ?? (shown?.say || 'Work goes on.')}
    </p>
  );
}

function Journey() {
  const { journey } = place.value;
  const { title, intro } = specOf(journey);
  const shown = frame.value;
  const View = VIEWS[journey];
  return (
    <>
      <div class="title">
        <h1>{title}</h1>
        <Courses />
      </div>
      <p class="intro">{intro}</p>
      <PlayerBar />
      <Status />
      {shown && opened.value === journey && <View key={journey} state={shown.state as never} />}
    </>
  );
}

export function LabApp() {
  useKeys();
  const { journey, seed, course: chosen, settings } = place.value;
  const asked = JSON.stringify([journey, seed, chosen, settings]);
  useEffect(() => {
    document.title = `${specOf(journey).title} · Holdfast lab`;
    void open();
  }, [asked]);
  return (
    <>
      <a class="skip" href="#main">
        Skip to the journey
      </a>
      <Top />
      <main id="main" tabIndex={-1}>
        <Journey />
      </main>
      <footer>
        Postgres runs in this page, with Holdfast’s migrations and statements. Time is virtual;
        advisory locks and notifications are kept by the simulation, as there is one session. Keys:
        space, ← →, r, 1 to 7.
      </footer>
    </>
  );
}
