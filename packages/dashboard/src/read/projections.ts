/** Projections: every build, how far behind it is, and the keys that have stopped, with what their events ran into. */
import { projectionLags, projectionStops } from 'holdfast/internal';
import type { Read } from './reads.js';

/** No more keys are shown. */
const STOPS = 200;

export const projections: Read = async ({ read, access, redactor }) => {
  const names = access.names('inbox');
  const builds = await read((db) => projectionLags(db, names, null));
  const found =
    builds.length === 0 ? [] : await read((db) => projectionStops(db, names, null, STOPS + 1));
  // What the user's function threw may quote the event.
  const stops = found.slice(0, STOPS).map((stop) => ({
    ...stop,
    error: redactor.text(stop.error, 'projectors', stop.type),
  }));
  return { builds, stops, moreStops: found.length > STOPS };
};
