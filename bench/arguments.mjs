// What `npm run bench -- …` takes. A word that is no part stops the run before anything is started.
export const PARTS = [
  'drain',
  'enqueue',
  'latency',
  'rate',
  'backlog',
  'horizon',
  'order',
  'recovery',
  'cost',
  'scale',
];
/** Measurements of Holdfast alone; they run only when they are named. */
export const MORE = ['fleet', 'inspect'];

const USAGE = `Usage: npm run bench -- [PART …] [--quick] [--write-docs] [--only SECTION]
Parts: ${PARTS.join(' ')} (all of them when none is named); also ${MORE.join(' ')}.`;

export function parseArguments(words) {
  const parts = [];
  const wrong = [];
  const options = { quick: false, writeDocs: false, only: null };
  for (let at = 0; at < words.length; at++) {
    const word = words[at];
    if (word === '--quick') options.quick = true;
    else if (word === '--write-docs') options.writeDocs = true;
    else if (word === '--only') options.only = words[++at] ?? '';
    else if (PARTS.includes(word) || MORE.includes(word)) parts.push(word);
    else wrong.push(word);
  }
  if (wrong.length > 0) {
    const names = wrong.map((word) => `"${word}"`).join(', ');
    return { problem: `There is no part or option called ${names}; nothing was run.\n${USAGE}` };
  }
  const all = parts.length === 0;
  const order = [...PARTS, ...MORE];
  const chosen = all ? PARTS : order.filter((name) => parts.includes(name));
  return { parts: chosen, all, ...options };
}
