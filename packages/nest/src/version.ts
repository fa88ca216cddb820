/** The version of this package, as its package.json has it; a test compares. */
import { checkSameVersion } from 'holdfast/internal';

export const VERSION = '0.1.0';

checkSameVersion('@holdfast/nest', VERSION);
