// The checker: pure functions over the histories and the final state of the database. Each returns what is broken,
// in words, and counts.
import { checkAcceptance } from './acceptance.mjs';
import { checkBystanders } from './bystanders.mjs';
import { checkEffects } from './effects.mjs';
import { checkEvidence } from './evidence.mjs';
import { checkLimits } from './limits.mjs';
import { checkLiveness } from './liveness.mjs';
import { checkOrder } from './order.mjs';
import { checkOwnership } from './ownership.mjs';
import { checkShapes } from './shapes.mjs';
import { checkUpgrade } from './upgrade.mjs';
import { checkWorkflows } from './workflows.mjs';

export const CHECKS = {
  acceptance: checkAcceptance,
  ownership: checkOwnership,
  order: checkOrder,
  effects: checkEffects,
  limits: checkLimits,
  bystanders: checkBystanders,
  liveness: checkLiveness,
  upgrade: checkUpgrade,
  workflows: checkWorkflows,
  shapes: checkShapes,
  evidence: checkEvidence,
};

/** @param {{ history: any[], state: any, run: any }} facts */
export function checkAll(facts) {
  const violations = [];
  const counts = {};
  for (const [name, check] of Object.entries(CHECKS)) {
    const result = check(facts);
    violations.push(...result.violations.map((text) => `${name}: ${text}`));
    Object.assign(counts, result.counts);
  }
  return { violations, counts };
}
