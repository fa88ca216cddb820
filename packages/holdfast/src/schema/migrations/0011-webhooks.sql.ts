/**
 * Migration 11: webhooks. Endpoints, their secrets, how they fare, and what was sent to them. The deliveries themselves are
 * jobs, and an endpoint is a key with a window of its own.
 *
 * Locks: none, the tables are new.
 */
import type { Migration } from '../migration.js';

const common = `
-- Keys of a queue with turns that have a window of their own. The others have per_key of the queue.
CREATE TABLE holdfast.key_windows (
  queue   text NOT NULL,
  key     text NOT NULL,
  per_key integer NOT NULL CHECK (per_key BETWEEN 1 AND 10000),
  PRIMARY KEY (queue, key)
);

-- Where webhooks go. One queue's deliveries go to its endpoints only.
CREATE TABLE holdfast.webhook_endpoints (
  id           uuid PRIMARY KEY,
  queue        text NOT NULL,
  tenant       text NOT NULL,
  url          text NOT NULL,
  -- order.paid, order.* or *
  events       text[] NOT NULL,
  -- Names only: values may be secrets.
  header_names text[] NOT NULL DEFAULT '{}',
  ordered      boolean NOT NULL,
  concurrency  smallint NOT NULL CHECK (concurrency BETWEEN 1 AND 100),
  -- At most rate_limit requests in rate_ms, and rate_burst at once after a pause.
  rate_limit   integer CHECK (rate_limit > 0),
  rate_ms      bigint CHECK (rate_ms > 0),
  rate_burst   integer CHECK (rate_burst > 0),
  state        text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'disabled')),
  state_reason text,
  state_by     text,
  state_at     timestamptz NOT NULL DEFAULT now(),
  created_at   timestamptz NOT NULL DEFAULT now(),
  updated_at   timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT webhook_endpoints_rate_check CHECK (num_nulls(rate_limit, rate_ms, rate_burst) IN (0, 3))
);
CREATE INDEX webhook_endpoints_tenant_idx ON holdfast.webhook_endpoints (queue, tenant, id);
CREATE INDEX webhook_endpoints_state_idx ON holdfast.webhook_endpoints (state_at);

-- What must not be read by those who only look: signing secrets (s), and the headers of requests as JSON (h).
CREATE TABLE holdfast.webhook_secrets (
  id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  endpoint_id uuid NOT NULL,
  kind        "char" NOT NULL CHECK (kind IN ('s', 'h')),
  value       text NOT NULL,
  created_at  timestamptz NOT NULL DEFAULT now(),
  -- Until when a secret that was replaced still signs. NULL: it is the current one.
  expires_at  timestamptz
);
CREATE INDEX webhook_secrets_endpoint_idx ON holdfast.webhook_secrets (endpoint_id);

-- How each endpoint fares. Apart from the endpoint, so that a transaction that changes it holds no delivery up.
CREATE TABLE holdfast.webhook_health (
  endpoint_id   uuid PRIMARY KEY,
  -- Since when every attempt has failed.
  failing_since timestamptz,
  -- The endpoint asked not to be called before.
  rests_until   timestamptz,
  -- When its rate has room for one more request.
  next_at       timestamptz
) WITH (fillfactor = 70);

-- One row for each attempt.
CREATE TABLE holdfast.webhook_log (
  id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at          timestamptz NOT NULL DEFAULT clock_timestamp(),
  queue       text NOT NULL,
  endpoint_id uuid NOT NULL,
  -- The job.
  delivery_id uuid NOT NULL,
  message_id  text NOT NULL,
  type        text NOT NULL,
  attempt     integer NOT NULL,
  delivered   boolean NOT NULL,
  -- NULL: there was no answer.
  status      smallint,
  ms          integer NOT NULL,
  -- The first kilobyte of what it answered.
  answer      text,
  error       text
);
CREATE INDEX webhook_log_endpoint_idx ON holdfast.webhook_log (endpoint_id, id);
CREATE INDEX webhook_log_message_idx ON holdfast.webhook_log (message_id, id);
`;

export const webhooks: Migration = {
  ...{ id: 11, name: 'webhooks', breaksBefore: 1 },
  ...{ common, perQueue: '' },
};
