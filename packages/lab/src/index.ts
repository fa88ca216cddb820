/** What the dashboard shows as the lab does. */
export * from './parts/common.js';
export { RingPicture, Swatch } from './parts/ring-picture.js';
