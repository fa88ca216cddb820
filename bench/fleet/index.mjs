// `npm run bench -- fleet [--quick] [--only NAME]`: what a fleet promises, measured.
import { openGround } from '../ground.mjs';
import { bystanders } from './bystanders.mjs';
import { horizon, order } from './order.mjs';
import { stopWorkers } from './processes.mjs';
import { recovery } from './recovery.mjs';
import { ring } from './ring.mjs';
import { latency, producers } from './wakeups.mjs';

const sections = { ring, latency, producers, order, horizon, bystanders, recovery };

export async function fleet({ url, quick, only, figure, say }) {
  const ground = await openGround(url);
  try {
    for (const [name, run] of Object.entries(sections)) {
      if (only && only !== name) continue;
      say(`— ${name}`);
      await run({ ground, quick, figure, say });
    }
  } finally {
    await stopWorkers();
    await ground.close();
  }
}
