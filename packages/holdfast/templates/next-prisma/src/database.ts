// One client for a process: Next.js evaluates modules again after a change, and globalThis outlives that.
import { PrismaPg } from '@prisma/adapter-pg';
import { type Holdfast, holdfast } from 'holdfast';
import { PrismaClient } from './generated/client.ts';

const kept = globalThis as { prisma?: PrismaClient; hf?: Holdfast };
// `next build` loads this file too, without a database.
const connectionString = process.env.DATABASE_URL ?? 'postgres://localhost/app';

kept.prisma ??= new PrismaClient({ adapter: new PrismaPg({ connectionString }) });
kept.hf ??= holdfast({ connectionString });
export const { prisma, hf } = kept as Required<typeof kept>;

export async function close(): Promise<void> {
  await hf.close();
  await prisma.$disconnect();
}
