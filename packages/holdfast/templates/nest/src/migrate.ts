// The tables of the app and those of Holdfast. Run it with each deploy, before the new processes start.
import 'reflect-metadata';
import { holdfast } from 'holdfast';
import { DataSource } from 'typeorm';
import { database } from './data-source.ts';

const source = await new DataSource(database).initialize();
await source.runMigrations();
await source.destroy();
const hf = holdfast();
await hf.migrate();
await hf.close();
