// The ten parts, in the order in which a whole run takes them.
import { backlog } from './backlog.mjs';
import { cost } from './cost.mjs';
import { drain } from './drain.mjs';
import { enqueue } from './enqueue.mjs';
import { horizon } from './horizon.mjs';
import { latency } from './latency.mjs';
import { order } from './order.mjs';
import { rate } from './rate.mjs';
import { recovery } from './recovery.mjs';
import { scale } from './scale.mjs';

export const parts = {
  drain,
  enqueue,
  latency,
  rate,
  backlog,
  horizon,
  order,
  recovery,
  cost,
  scale,
};
