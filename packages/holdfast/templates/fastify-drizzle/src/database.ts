import { drizzle } from 'drizzle-orm/node-postgres';
import { holdfast } from 'holdfast';
import pg from 'pg';

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });
export const db = drizzle(pool);
export const hf = holdfast({ pool });

export async function close(): Promise<void> {
  await hf.close();
  await pool.end();
}
