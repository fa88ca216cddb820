// The tables of the app and those of Holdfast. Run it with each deploy, before the new processes start.
import { migrate } from 'drizzle-orm/node-postgres/migrator';
import { close, db, hf } from './database.ts';

await migrate(db, { migrationsFolder: 'migrations' });
await hf.migrate();
await close();
