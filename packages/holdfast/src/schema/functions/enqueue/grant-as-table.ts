/** The rights of functions that do a part of what only who may write a table could do. */

/** Whoever holds `right` on `table` may call `name`, which gets `REVOKE EXECUTE … FROM PUBLIC` first. */
export const grantAsTable = (name: string, table: string, right: string) => `DO $do$
DECLARE
  holder text;
BEGIN
  FOR holder IN
    SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END
    FROM pg_class AS c
    CROSS JOIN LATERAL aclexplode(c.relacl) AS a
    WHERE c.oid = 'holdfast.${table}'::regclass AND a.privilege_type = '${right}' AND a.grantee <> c.relowner
  LOOP
    EXECUTE format('GRANT EXECUTE ON FUNCTION holdfast.${name} TO %s', holder);
  END LOOP;
END
$do$;
`;
