// What happens between clients and the server: slow, cut, half closed, silent, and cut at a chosen message.

const someLine = (world, random) => random.pick(world.fleet.slots.filter(({ runs }) => runs)).line;

/** Breaks lines for a while. It has hit if a message or a connection was touched by it. */
async function broken(lines, wait, breaking, mending) {
  const before = lines.map(({ touched }) => touched);
  for (const line of lines) breaking(line);
  await wait;
  for (const line of lines) mending(line);
  return { hit: lines.reduce((sum, { touched }, n) => sum + touched - before[n], 0) };
}

const delay = {
  name: 'delay',
  strike(world, random, hold) {
    const delayMs = random.pick([5, 20, 80, 250]);
    return broken(
      [someLine(world, random)],
      hold(random.integer(2_000, 6_000)),
      (line) => Object.assign(line, { delayMs }),
      (line) => Object.assign(line, { delayMs: 0 }),
    );
  },
};

/** Transactions that commit late, behind what workers have read already. */
const slowCommits = {
  name: 'slow-commits',
  strike: (world, random, hold) =>
    broken(
      world.fleet.producers.slice(1).map(({ line }) => line),
      hold(random.integer(1_500, 4_000)),
      (line) => Object.assign(line, { delayMs: random.integer(200, 400) }),
      (line) => Object.assign(line, { delayMs: 0 }),
    ),
};

const reset = {
  name: 'reset',
  strike: async (world, random) => ({ hit: someLine(world, random).resetAll() }),
};

const resetAll = {
  name: 'reset-everybody',
  strike: async ({ fleet }) => ({
    hit: fleet.lines.reduce((sum, line) => sum + line.resetAll(), 0),
  }),
};

const halfClose = {
  name: 'half-close',
  strike: async (world, random) => ({ hit: someLine(world, random).halfClose() }),
};

/** Long enough to be declared dead, or not. */
const blackHole = {
  name: 'black-hole',
  strike: (world, random, hold) =>
    broken(
      [someLine(world, random)],
      hold(random.integer(1_000, 8_000)),
      (line) => Object.assign(line, { silent: true }),
      (line) => line.heal(),
    ),
};

const refuse = {
  name: 'refused-connections',
  strike: (world, random, hold) =>
    broken(
      [someLine(world, random)],
      hold(random.integer(500, 5_000)),
      (line) => {
        line.closed = true;
        line.resetAll();
      },
      (line) => Object.assign(line, { closed: false }),
    ),
};

const deaf = {
  name: 'lost-notifications',
  strike: (world, random, hold) =>
    broken(
      // Producers listen to nothing.
      world.fleet.workers.length > 0 ? [random.pick(world.fleet.workers).line] : [],
      hold(random.integer(2_000, 8_000)),
      (line) => Object.assign(line, { deaf: true }),
      (line) => Object.assign(line, { deaf: false }),
    ),
};

/** Statements whose answer matters, as they stand in the source, and who sends them. */
const POINTS = {
  commit: { statement: /^COMMIT$/, of: 'slots' },
  claim: { statement: /INSERT INTO holdfast\.\w+_claims/, of: 'workers' },
  complete: { statement: /INSERT INTO holdfast\.\w+_archive/, of: 'workers' },
  fail: { statement: /'outcome', 'failed'/, of: 'workers' },
  enqueue: { statement: /INSERT INTO holdfast\.(inbox|lines)(_idempotency)? /, of: 'producers' },
  renew: { statement: /SET lease_expires_at = now\(\)/, of: 'workers' },
  marker: { statement: /INSERT INTO holdfast\.\w+_effects/, of: 'workers' },
};

/** Those of workflows. */
const FLOW_POINTS = {
  suspend: { statement: /holdfast\.inbox_suspend/, of: 'workers' },
  record: { statement: /INSERT INTO holdfast\.inbox_steps/, of: 'workers' },
  children: { statement: /jsonb_build_object\('q'/, of: 'workers' },
  signal: { statement: /holdfast\.inbox_signal\(/, of: 'producers' },
};

function cutAt(point, where, points = POINTS) {
  return {
    name: `cut-${where}-of-${point}`,
    async strike(world, random, hold) {
      const { statement, of } = points[point];
      const slots = world.fleet[of].filter(({ runs }) => runs);
      if (slots.length === 0) return { hit: false };
      const lines = random.chance(0.3) ? slots.map(({ line }) => line) : [random.pick(slots).line];
      let made = 0;
      const cut = {
        statement,
        where,
        times: random.integer(1, 4),
        made: () => made++,
      };
      for (const line of lines) line.cuts.push({ ...cut });
      await hold(2_500);
      for (const line of lines)
        line.cuts = line.cuts.filter(({ statement }) => statement !== cut.statement);
      return { hit: made };
    },
  };
}

export const workflowCuts = [
  ...Object.keys(FLOW_POINTS).map((point) => cutAt(point, 'answer', FLOW_POINTS)),
  cutAt('suspend', 'request', FLOW_POINTS),
  cutAt('commit', 'answer'),
];

const answers = Object.keys(POINTS).map((point) => cutAt(point, 'answer'));

export const networkFaults = [
  delay,
  slowCommits,
  reset,
  resetAll,
  halfClose,
  blackHole,
  blackHole,
  refuse,
  deaf,
  ...answers,
  cutAt('commit', 'answer'),
  cutAt('commit', 'request'),
  cutAt('complete', 'request'),
];
