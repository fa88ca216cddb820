/** Columns of readers. In a `reading` a time is ISO 8601 in UTC with microseconds; infinity, where dead letters lie, is null. */
import { type Column, int4, text, uuid } from '../../postgres/statement.js';

function iso(value: string): string | null {
  if (value.endsWith('infinity')) return null;
  return value.replace(' ', 'T').replace(/\+00(:00)?$/, 'Z');
}

/** A moment; null when there is none, or when it lies at infinity. */
export const instant: Column<string | null> = { pgType: 'timestamptz', parse: iso, nullable: true };

/** A moment that is always there and finite. */
export const moment: Column<string> = {
  pgType: 'timestamptz',
  parse: (value) => iso(value) ?? '',
  nullable: false,
};

/** A moment out of a job's history; null when there is none, or when somebody wrote something else there. */
export const recorded: Column<string | null> = {
  pgType: 'text',
  parse: (value) => {
    const at = new Date(value);
    return Number.isNaN(at.getTime()) ? null : at.toISOString();
  },
  nullable: true,
};

/** JSON, parsed. */
export const parsed: Column<unknown> = { pgType: 'jsonb', parse: JSON.parse, nullable: true };

/** What every question about jobs answers first, in this order. */
export const JOB = {
  id: uuid,
  status: text,
  type: text,
  version: int4,
  partition_key: text,
  partition_bucket: int4,
  priority: int4,
} as const;
