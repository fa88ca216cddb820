// Loaded before everything else: the wall clock of this process is five minutes ahead. Timers are right.
const real = Date.now;
const RealDate = Date;
globalThis.Date = class extends RealDate {
  constructor(...parts) {
    if (parts.length === 0) super(real() + 300_000);
    else super(...parts);
  }
  static now() {
    return real() + 300_000;
  }
};
