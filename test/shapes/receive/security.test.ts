/** Signatures that were captured, and come again in other clothes. */
import { createHmac } from 'node:crypto';
import { expect, test } from 'vitest';
import { job } from '../../../packages/holdfast/src/index.js';
import { deliveryOf } from '../../../packages/holdfast/src/shapes/receive/delivery.js';
import {
  github,
  type Received,
  receive,
  slack,
  standardWebhooks,
  stripe,
} from '../../../packages/holdfast/src/shapes/receive/index.js';
import { testDatabase } from '../../support/database.js';
import { post, served, signers, whsec } from '../../support/signed-webhooks.js';

const db = testDatabase();

const BODY = '{"type":"block_actions"}';

const arrived = (headers: Readonly<Record<string, string>>) =>
  deliveryOf({
    ...{ body: Buffer.from(BODY), url: '/', receivedAt: new Date() },
    headers: { get: (name) => headers[name] ?? null },
  });

test('a signature of Slack, which may be the id of the event, can be written in one way only', async () => {
  const sent = signers.slack({ secret: 'shh', body: BODY });
  const good = sent['x-slack-signature'] as string;
  const verify = slack('shh');
  expect(await verify(arrived(sent))).toMatchObject({ id: good });
  const hex = good.slice('v0='.length);
  for (const other of [hex.toUpperCase(), `${hex}zz`, `${hex}, v0=${hex}`, `${hex} `])
    expect(() => verify(arrived({ ...sent, 'x-slack-signature': `v0=${other}` }))).toThrow(
      'the signature is wrong',
    );
});

test('a signature in base64 has one form too', async () => {
  const secret = whsec('secret');
  const sent = signers.standardWebhooks({ secret, body: BODY, id: 'evt_1' });
  const good = sent['webhook-signature'] as string;
  const verify = standardWebhooks(secret);
  expect(await verify(arrived(sent))).toMatchObject({ id: 'evt_1' });
  expect(await verify(arrived({ ...sent, 'webhook-signature': `v1,AAAA ${good}` }))).toMatchObject({
    id: 'evt_1',
  });
  for (const other of [`${good}!!`, good.replace('v1,', 'v1, '), good.replace(/=+$/, '')])
    expect(() => verify(arrived({ ...sent, 'webhook-signature': other }))).toThrow(
      /^the signature is (wrong|missing)$/,
    );
});

test('the algorithms that providers have left are not believed', () => {
  const key = (algorithm: string) => createHmac(algorithm, 'shh').update(BODY).digest('hex');
  const time = String(Math.floor(Date.now() / 1_000));
  const signature = createHmac('sha256', 'shh').update(`${time}.${BODY}`).digest('hex');
  expect(() => stripe('shh')(arrived({ 'stripe-signature': `t=${time},v0=${signature}` }))).toThrow(
    'the signature is missing',
  );
  const sha1 = { 'x-hub-signature': `sha1=${key('sha1')}`, 'x-github-delivery': '1' };
  expect(() => github('shh')(arrived(sha1))).toThrow('the signature is missing');
  const dressed = { 'x-hub-signature-256': `sha256=${key('sha1')}`, 'x-github-delivery': '1' };
  expect(() => github('shh')(arrived(dressed))).toThrow('the signature is wrong');
});

test('an id or a source that UTF-8 cannot hold is refused for good, and not asked for again', async () => {
  const hook = receive(db.hf, job<Received>('halves'), {
    verify: ({ json }) => json() as { id: string; source?: string },
  });
  const url = await served(hook.node);
  const told = async (event: object) => (await post(url, {}, JSON.stringify(event))).status;
  expect(await told({ id: 'evt_1', source: 'a\ud83d' })).toBe(400);
  expect(await told({ id: '\ude00' })).toBe(400);
  expect(await told({ id: 'evt_1', source: 'a\ud83d\ude00' })).toBe(200);
  expect(hook.stats).toMatchObject({ accepted: 1, refused: 2, unavailable: 0 });
});
