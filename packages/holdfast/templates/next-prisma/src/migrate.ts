// The tables of the app and those of Holdfast. Run it with each deploy, before the new processes start.
import { execSync } from 'node:child_process';
import { close, hf } from './database.ts';

execSync('npx prisma migrate deploy', { stdio: 'inherit' });
await hf.migrate();
await close();
