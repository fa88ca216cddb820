/**
 * The sessions of workers that are told of an insert into a queue: those that want hints there, and those that listen and
 * are not active there. Clones of one template have tables of the same oid, so only this database counts.
 */
export const hearing = (queue: string) => `
  SELECT l.pid FROM pg_locks AS l
  WHERE l.locktype = 'advisory' AND l.granted AND l.mode = 'ShareLock'
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  GROUP BY l.pid
  HAVING bool_or(l.classid = 'holdfast.${queue}'::regclass AND l.objid = 0)
    OR bool_or(l.classid = 'holdfast.fleet'::regclass AND l.objid = 0)
      AND NOT bool_or(l.classid = 'holdfast.${queue}'::regclass AND l.objid = (-2)::oid)`;
