// The tables of the app and those of Holdfast. Run it with each deploy, before the new processes start.
import { Migrator } from 'kysely';
import { close, db, hf } from './database.ts';
import { migrations } from './migrations.ts';

const provider = { getMigrations: async () => migrations };
const { error } = await new Migrator({ db, provider }).migrateToLatest();
if (error) throw error;
await hf.migrate();
await close();
