// The dashboard in a process of its own. It says where it is when it is up.
import { serveDashboard } from '../../packages/dashboard/dist/index.js';
import { holdfast } from '../../packages/holdfast/dist/index.js';

const hf = holdfast({ connectionString: process.argv[2], log: 'warn' });
const { url } = await serveDashboard(hf, { port: 0 });
process.on('disconnect', () => process.exit());
process.send(url);
