/** What `npm run test:long` does in full and `npm test` in a shorter form that shows the same. */
export const long = <Value>(short: Value, full: Value): Value =>
  process.env.HOLDFAST_LONG ? full : short;
