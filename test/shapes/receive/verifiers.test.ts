/** Whom `receive` believes: the published examples of the providers, and what differs from them by a little. */
import { describe, expect, test } from 'vitest';
import { deliveryOf } from '../../../packages/holdfast/src/shapes/receive/delivery.js';
import {
  type Answered,
  github,
  type Secrets,
  slack,
  standardWebhooks,
  stripe,
  type ToleranceOptions,
  type Verified,
  type Verifier,
} from '../../../packages/holdfast/src/shapes/receive/index.js';
import { type Signer, signers, whsec } from '../../support/signed-webhooks.js';

function delivery(headers: Record<string, string>, body: string | Buffer, at = new Date()) {
  return deliveryOf({
    body: Buffer.from(body),
    headers: new Headers(headers),
    url: '/hooks',
    receivedAt: at,
  });
}

const at = (seconds: number) => new Date(seconds * 1_000);

describe('what the providers publish', () => {
  test.each([
    {
      name: 'Svix, docs.svix.com: how to verify manually',
      verify: standardWebhooks('whsec_plJ3nmyCDGBKInavdOK15jsl'),
      headers: {
        'svix-id': 'msg_loFOjxBNrRLzqYUf',
        'svix-timestamp': '1731705121',
        'svix-signature': 'v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0=',
      },
      body: '{"event_type":"ping","data":{"success":true}}',
      time: 1731705121,
      found: { id: 'msg_loFOjxBNrRLzqYUf', type: null },
    },
    {
      name: 'the libraries of Standard Webhooks and Svix: their README',
      verify: standardWebhooks('MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'),
      headers: {
        'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
        'webhook-timestamp': '1614265330',
        'webhook-signature': 'v1a,AAAA v1,bm9ldHUK v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
      },
      body: '{"test": 2432232314}',
      time: 1614265330,
      found: { id: 'msg_p5jXN8AQM9LWM0D4loKWxJek', type: null },
    },
    {
      name: 'GitHub: validating webhook deliveries',
      verify: github("It's a Secret to Everybody"),
      headers: {
        'x-github-delivery': '72d3162e-cc78-11e3-81ab-4c9367dc0958',
        'x-github-event': 'ping',
        'x-hub-signature-256':
          'sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17',
      },
      body: 'Hello, World!',
      time: 0,
      found: { id: '72d3162e-cc78-11e3-81ab-4c9367dc0958', type: 'ping' },
    },
    {
      name: 'Slack: verifying requests',
      verify: slack('8f742231b10e8888abcd99yyyzzz85a5'),
      headers: {
        'content-type': 'application/x-www-form-urlencoded',
        'x-slack-request-timestamp': '1531420618',
        'x-slack-signature': 'v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503',
      },
      body: 'token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c',
      time: 1531420618,
      found: {
        id: '398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c',
        type: 'slash_command',
      },
    },
  ])('$name', async ({ verify, headers, body, time, found }) => {
    const sent = headers as unknown as Record<string, string>;
    expect(await verify(delivery(sent, body, at(time)))).toMatchObject(found);
    const altered = () => verify(delivery(sent, `${body} `, at(time)));
    expect(altered).toThrow(/^the signature is wrong$/);
  });
});

const PROVIDERS: readonly {
  readonly name: keyof typeof signers;
  readonly make: (secrets: Secrets, options?: ToleranceOptions) => Verifier;
  readonly secretOf: (name: string) => string;
  readonly timed: boolean;
}[] = [
  { name: 'standardWebhooks', make: standardWebhooks, secretOf: whsec, timed: true },
  { name: 'svix', make: standardWebhooks, secretOf: whsec, timed: true },
  { name: 'stripe', make: stripe, secretOf: (name) => `whsec_${name}`, timed: true },
  { name: 'github', make: (secrets) => github(secrets), secretOf: (name) => name, timed: false },
  { name: 'slack', make: slack, secretOf: (name) => name, timed: true },
];
const BODY = JSON.stringify({ id: 'evt_1', event_id: 'evt_1', type: 'paid' });

describe.each(PROVIDERS)('$name', ({ name, make, secretOf, timed }) => {
  const sign: Signer = signers[name];
  const [old, fresh, other] = ['old', 'new', 'other'].map(secretOf) as [string, string, string];
  const signed = (secret: string, off = 0) => sign({ secret, body: BODY, id: 'evt_1', off });
  const verified = async (verify: Verifier, headers: Record<string, string>, body = BODY) =>
    (await verify(delivery(headers, body))) as Verified & Answered;

  test('an event that it signed is believed, by the old and by the new secret while it rotates', async () => {
    const rotating = make([fresh, old]);
    for (const secret of [old, fresh])
      expect((await verified(rotating, signed(secret))).id).toBe('evt_1');
    await expect(verified(make(fresh), signed(old))).rejects.toThrow('the signature is wrong');
    await expect(verified(rotating, signed(other))).rejects.toThrow('the signature is wrong');
  });

  test('a body that was altered, a signature that is cut, empty or missing is refused', async () => {
    const verify = make(old);
    const headers = signed(old);
    const at = Object.keys(headers).find((one) => one.includes('signature')) as string;
    const given = headers[at] as string;
    const broken = [
      given.slice(0, -2),
      given.replace(/[^=,]*=?$/, ''),
      '',
      'v1,',
      'sha256=',
      'v0=',
    ];
    await expect(verified(verify, headers, BODY.replace('paid', 'Paid'))).rejects.toThrow(
      /^the signature is wrong$/,
    );
    for (const one of broken)
      await expect(verified(verify, { ...headers, [at]: one })).rejects.toMatchObject({
        name: 'Refused',
        status: expect.toSatisfy((status: number) => status === 401 || status === 400),
      });
    const { [at]: _, ...without } = headers;
    await expect(verified(verify, without)).rejects.toMatchObject({ name: 'Refused' });
  });

  test('a missing secret is refused when it is declared, and never named', () => {
    for (const secrets of [undefined, '', [], [old, undefined]] as never[])
      expect(() => make(secrets)).toThrow(/takes a secret.*Is the environment variable set/);
    const wrong = () => standardWebhooks(['whsec_not base64 secret!']);
    expect(wrong).toThrow(/^(?!.*not base64 secret!)/);
    if (timed)
      expect(() => make(old, { tolerances: 1 } as never)).toThrow(/Did you mean "tolerance"/);
  });

  if (!timed) return;
  test("a time that is too old or ahead is refused, by a tolerance of one's own too", async () => {
    const verify = make(old);
    for (const off of [-290, 290])
      expect((await verified(verify, signed(old, off))).id).toBe('evt_1');
    await expect(verified(verify, signed(old, -310))).rejects.toThrow(/too old$/);
    await expect(verified(verify, signed(old, 310))).rejects.toThrow(/in the future$/);
    const patient = make(old, { tolerance: '1h' });
    expect((await verified(patient, signed(old, -3_000))).id).toBe('evt_1');
    await expect(verified(make(old, { tolerance: '5s' }), signed(old, -20))).rejects.toThrow('old');
  });
});
