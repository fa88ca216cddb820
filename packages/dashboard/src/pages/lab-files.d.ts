/** The lab as the build makes it (scripts/client.mjs): its page and its engine as texts. PGlite is not among them. */
import type { ClientFile } from './client-files.js';

export const LAB_FILES: Readonly<Record<string, ClientFile>>;
