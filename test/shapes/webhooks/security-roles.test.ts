/** Who may read the secrets of endpoints: workers, who sign with them, and nobody else of docs/roles.sql. */
import { expect, test } from 'vitest';
import { holdfast } from '../../../packages/holdfast/src/index.js';
import { webhooks } from '../../../packages/holdfast/src/shapes/webhooks/index.js';
import { testDatabase } from '../../support/database.js';
import { quietLogger } from '../../support/logger.js';
import { testRoles } from '../../support/roles.js';

const db = testDatabase();
const { members } = testRoles(db, { prefix: 'holdfast_leaks' });
const DENIED = '42501';
const queue = 'hooks_roles';
const endpoint = {
  ...{ tenant: 'acme', url: 'https://acme.example/hooks', headers: { authorization: 'hunter2' } },
};

/** Each shows a secret to who may run it, or tells by what it did whether a guess was right. */
const LEAKS = [
  'SELECT value FROM holdfast.webhook_secrets',
  'SELECT s FROM holdfast.webhook_secrets AS s',
  'SELECT to_jsonb(s) FROM holdfast.webhook_secrets AS s',
  'COPY holdfast.webhook_secrets TO STDOUT',
  "SELECT 1 FROM holdfast.webhook_secrets WHERE value LIKE 'whsec_a%'",
  'DELETE FROM holdfast.webhook_secrets RETURNING value',
  "DELETE FROM holdfast.webhook_secrets WHERE value < 'whsec_n'",
  'UPDATE holdfast.webhook_secrets SET expires_at = now() RETURNING value',
  "UPDATE holdfast.webhook_secrets SET value = 'whsec_mine'",
];

test('producers and operators make and rotate secrets; only workers read them', async () => {
  await webhooks(db.hf, { queue }).create();
  for (const role of ['producer', 'operator'] as const) {
    const hf = holdfast({ pool: members[role].pool, logger: quietLogger });
    const hooks = webhooks(hf, { queue });
    const { id } = await hooks.endpoints.create(endpoint);
    await hooks.endpoints.rotate(id);
    await hooks.endpoints.update(id, { headers: { authorization: 'hunter3' } });
    expect((await hooks.endpoints.list()).endpoints.length).toBeGreaterThan(0);
  }
  for (const role of ['viewer', 'operator', 'producer'] as const)
    for (const leak of LEAKS)
      await expect(members[role].pool.query(leak), `${role}: ${leak}`).rejects.toMatchObject({
        code: DENIED,
      });
  const { rows } = await members.worker.pool.query('SELECT value FROM holdfast.webhook_secrets');
  expect(rows).toHaveLength(6);
});
