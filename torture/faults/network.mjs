// What happens between clients and the server: slow, cut, half closed, silent, and cut at a chosen message.

const someLine = (world, random) => random.pick(world.fleet.slots.filter(({ runs }) => runs)).line;

const delay = {
  name: 'delay',
  async strike(world, random, hold) {
    const line = someLine(world, random);
    line.delayMs = random.pick([5, 20, 80, 250]);
    await hold(random.integer(2_000, 6_000));
    line.delayMs = 0;
  },
};

/** Transactions that commit late, behind what workers have read already. */
const slowCommits = {
  name: 'slow-commits',
  async strike(world, random, hold) {
    const lines = world.fleet.producers.map(({ line }) => line);
    for (const line of lines.slice(1)) line.delayMs = random.integer(200, 400);
    await hold(random.integer(1_500, 4_000));
    for (const line of lines) line.delayMs = 0;
  },
};

const reset = {
  name: 'reset',
  async strike(world, random) {
    someLine(world, random).resetAll();
  },
};

const resetAll = {
  name: 'reset-everybody',
  async strike(world) {
    for (const line of world.fleet.lines) line.resetAll();
  },
};

const halfClose = {
  name: 'half-close',
  async strike(world, random) {
    someLine(world, random).halfClose();
  },
};

/** Long enough to be declared dead, or not. */
const blackHole = {
  name: 'black-hole',
  async strike(world, random, hold) {
    const line = someLine(world, random);
    line.silent = true;
    await hold(random.integer(1_000, 8_000));
    line.heal();
  },
};

const refuse = {
  name: 'refused-connections',
  async strike(world, random, hold) {
    const line = someLine(world, random);
    line.closed = true;
    line.resetAll();
    await hold(random.integer(500, 5_000));
    line.closed = false;
  },
};

const deaf = {
  name: 'lost-notifications',
  async strike(world, random, hold) {
    const line = someLine(world, random);
    line.deaf = true;
    await hold(random.integer(2_000, 8_000));
    line.deaf = false;
  },
};

/** Statements whose answer matters, as they stand in the source. */
const POINTS = {
  commit: /^COMMIT$/,
  claim: /INSERT INTO holdfast\.\w+_claims/,
  complete: /INSERT INTO holdfast\.\w+_archive/,
  fail: /'outcome', 'failed'/,
  enqueue: /INSERT INTO holdfast\.(inbox|lines)(_idempotency)? /,
  renew: /SET lease_expires_at = now\(\)/,
  marker: /INSERT INTO holdfast\.\w+_effects/,
};

function cutAt(point, where) {
  return {
    name: `cut-${where}-of-${point}`,
    async strike(world, random, hold) {
      const slots = world.fleet.slots.filter(({ runs }) => runs);
      const lines = random.chance(0.3) ? slots.map(({ line }) => line) : [random.pick(slots).line];
      let made = 0;
      const cut = {
        statement: POINTS[point],
        where,
        times: random.integer(1, 4),
        made: () => made++,
      };
      for (const line of lines) line.cuts.push({ ...cut });
      await hold(2_500);
      for (const line of lines)
        line.cuts = line.cuts.filter(({ statement }) => statement !== cut.statement);
      return { made };
    },
  };
}

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
