/** What the dashboard shows as the lab does. */
export { RingPicture, Swatch } from './parts/ring-picture.js';
export { useTheme } from './parts/theme.js';
