// Loaded before everything else in a process whose clock is wrong: it is ahead or behind by TORTURE_CLOCK_MS, and
// jumps by up to a minute every two seconds. Threads load it too. Only the wall clock lies; timers do not.
const base = Number(process.env.TORTURE_CLOCK_MS);
const RealDate = Date;
const realNow = RealDate.now;

function lie() {
  const turn = Number(process.hrtime.bigint() / 2_000_000_000n);
  const jump = ((Math.imul(turn, 2654435761) >>> 0) % 120_000) - 60_000;
  return base + jump;
}

globalThis.Date = class extends RealDate {
  constructor(...parts) {
    if (parts.length === 0) super(realNow() + lie());
    else super(...parts);
  }
  static now() {
    return realNow() + lie();
  }
};
