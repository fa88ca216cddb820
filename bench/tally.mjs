// What handlers of one process did: how many jobs, when the first came, when each thousandth, and
// how late. It is told to the parent in parcels, so that the telling does not weigh on what is
// measured.
import { clock } from './clock.mjs';

const PARCEL_MS = 25;

export class Tally {
  #send;
  #timer = null;
  #markEvery = 1_000;
  #count = 0;
  #told = 0;
  #first = 0;
  #last = 0;
  #marks = [];
  #latencies = [];
  #ids = [];

  constructor(send) {
    this.#send = send;
  }

  start(markEvery) {
    this.#markEvery = markEvery;
    this.#count = 0;
    this.#told = 0;
    this.#timer ??= setInterval(() => this.#tell(), PARCEL_MS);
  }

  stop() {
    clearInterval(this.#timer);
    this.#timer = null;
    this.#tell();
  }

  /** One handler starts; `stamped` says when its job was offered, unless it only warms up. */
  add(stamped) {
    const count = ++this.#count;
    if (count === 1) this.#first = clock();
    if (count % this.#markEvery === 0) this.#marks.push([count, clock()]);
    if (stamped?.at) this.#ids.push(stamped.orderId);
    if (stamped?.at && !stamped.warm) this.#latencies.push(clock() - stamped.at);
  }

  #tell() {
    if (this.#count === this.#told) return;
    this.#told = this.#count;
    this.#last = clock();
    this.#send({
      kind: 'progress',
      count: this.#count,
      first: this.#first,
      last: this.#last,
      marks: this.#marks,
      latencies: this.#latencies,
      ids: this.#ids,
      rss: process.memoryUsage.rss(),
    });
    this.#marks = [];
    this.#latencies = [];
    this.#ids = [];
  }
}
