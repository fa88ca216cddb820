// What an asynchronous failover explains. After each the nemesis compares the files of the dead primary with the new one
// and writes down what the first had committed and the second does not have: these facts, and no others, may be gone.

const KINDS = ['enqueued', 'claimed', 'settled', 'marked'];

/**
 * Whether a fact was lost: `enqueued(job)`, `claimed('job/generation/process')`, `settled('job/generation')`,
 * `marked('job/generation')`.
 */
export function lossesOf(history) {
  const records = history.filter(({ op }) => op === 'lost');
  return Object.fromEntries(
    KINDS.map((kind) => {
      const lost = new Set(records.flatMap((record) => record[kind]));
      return [kind, (name) => lost.has(name)];
    }),
  );
}
