/** The rights of functions that belong to unique keys: they follow those of `inbox_enqueue_unique`. */

/** Whoever may enqueue under a unique key may also call `name`, which gets `REVOKE EXECUTE … FROM PUBLIC` first. */
export const grantAsUnique = (name: string) => `DO $do$
DECLARE
  holder text;
BEGIN
  FOR holder IN
    SELECT a.grantee::regrole::text
    FROM pg_proc AS p
    CROSS JOIN LATERAL aclexplode(p.proacl) AS a
    WHERE p.oid = 'holdfast.inbox_enqueue_unique'::regproc AND a.grantee <> 0 AND a.grantee <> p.proowner
  LOOP
    EXECUTE format('GRANT EXECUTE ON FUNCTION holdfast.${name} TO %s', holder);
  END LOOP;
END
$do$;
`;
