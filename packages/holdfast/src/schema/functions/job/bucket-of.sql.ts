/** The hash of a key and the bucket that follows from it; job/key.ts computes the same. */
import type { FunctionFile } from '../../function-file.js';

export const bucketOf: FunctionFile = {
  name: 'bucket-of',
  of: 'schema',
  text: `
-- FNV-1a over the UTF-8 bytes, mixed by murmur3's finaliser: the same number as hash32() in TypeScript.
CREATE OR REPLACE FUNCTION holdfast.hash32(key text) RETURNS bigint
  LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $fn$
DECLARE
  bytes bytea := convert_to(key, 'UTF8');
  h bigint := 2166136261;
BEGIN
  FOR i IN 0 .. length(bytes) - 1 LOOP
    h := ((h # get_byte(bytes, i)) * 16777619) & 4294967295;
  END LOOP;
  -- The products are taken in two halves, because a bigint cannot hold 32 by 32 bits.
  h := h # (h >> 16);
  h := (h * 51819 + (((h * 34283) & 65535) << 16)) & 4294967295;  -- 0x85ebca6b
  h := h # (h >> 13);
  h := (h * 44597 + (((h * 49842) & 65535) << 16)) & 4294967295;  -- 0xc2b2ae35
  RETURN h # (h >> 16);
END
$fn$;

CREATE OR REPLACE FUNCTION holdfast.bucket_of(key text) RETURNS integer
  LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT (holdfast.hash32(key) & 1023)::integer';
`,
};
