// Workflows: what a step costs beside DBOS and OpenWorkflow, and the limits of Holdfast's own. Every measurement runs
// on a fresh database. Peers are measured where they have the feature.
import pg from 'pg';
import { openDatabases } from '../databases.mjs';
import { versionOf } from '../systems/index.mjs';
import { fanOut } from './fan-out.mjs';
import { kills } from './kills.mjs';
import { longRuns } from './long-runs.mjs';
import { space } from './space.mjs';
import { pace, throughput } from './steps.mjs';
import { system as dbos } from './systems/dbos.mjs';
import { system as holdfast } from './systems/holdfast.mjs';
import { system as openworkflow } from './systems/openworkflow.mjs';
import { waiting } from './waiting.mjs';
import { latency } from './wakeups.mjs';

const PARTS = { pace, throughput, space, latency, kills, waiting, longRuns, fanOut };

export async function workflows({ url, only, ...context }) {
  const rounds = (full, small) => context.options.rounds ?? context.size(full, small);
  if (only !== null && !PARTS[only])
    throw new Error(`--only takes one of ${Object.keys(PARTS).join(', ')}, not "${only}".`);
  const systems = { holdfast, dbos, openworkflow };
  for (const { name, package: of } of [dbos, openworkflow])
    context.fact(`workflows.${name}`, versionOf({ package: of }));
  const admin = new pg.Client({ connectionString: url });
  admin.on('error', () => {});
  await admin.connect();
  const databases = openDatabases(admin, url);
  for (const [name, part] of Object.entries(PARTS)) {
    if (only !== null && only !== name) continue;
    context.say(`${name} …`);
    try {
      await part({ systems, databases, admin, rounds, ...context });
    } catch (error) {
      console.error(error);
      context.figure(`workflows.${name}`, `did not end: ${error.message}`, 'to end', false);
    }
  }
  await databases.close();
  await admin.end();
}
