/** `holdfast dashboard`: not there yet, and says so. */
import { Failure } from '../command.js';

export async function run(): Promise<never> {
  throw new Failure(
    'The dashboard does not exist yet; nothing was started. `holdfast top` shows the system in the terminal.',
  );
}
