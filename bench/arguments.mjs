// What `npm run bench -- …` takes. A word that is no part stops the run before anything is started.
export const PARTS = [
  'steady',
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
/** They run only when they are named. */
export const MORE = [
  ...['dashboard', 'fleet', 'fleet-size', 'flow', 'inspect', 'schedules', 'shapes', 'workflows'],
];
/** Of these, those that run without the peers, on the Node of this project. */
export const ALONE = ['fleet-size', 'shapes'];

const USAGE = `Usage: npm run bench -- [PART …] [--quick] [--whole] [--write-docs] [--only SECTION]
  steady also takes --rates 50,400  --workers 1,2  --systems holdfast,pg-boss  --rounds 1  --warm 30 (seconds)
  dashboard also takes --backlog 500000  --rounds 1; fleet-size takes --rounds 1 and --only ROW, by number or name;
  workflows takes --rounds 1 and --only FIGURE, by name; shapes takes --rounds 1 and --only SHAPE, such as outbox;
  shapes --only projections also takes --minutes 10 (of each measurement of the lag) and --rates 100 (events a second)
Parts: ${PARTS.join(' ')} (all of them when none is named); also ${MORE.join(' ')}.`;

const FLAGS = { '--quick': 'quick', '--whole': 'whole', '--write-docs': 'writeDocs' };
const positive = (text) => (/^[1-9]\d*$/.test(text) ? Number(text) : null);
const list = (read) => (text) => {
  const values = text.split(',').map(read);
  return values.includes(null) ? null : values;
};
/** Each reads its word; null when the word makes no sense. */
const VALUES = {
  '--only': { name: 'only', read: (text) => text || null },
  '--rates': { name: 'rates', read: list(positive) },
  '--workers': { name: 'workers', read: list(positive) },
  '--systems': { name: 'systems', read: list((text) => text || null) },
  '--minutes': { name: 'minutes', read: positive },
  '--rounds': { name: 'rounds', read: positive },
  '--warm': { name: 'warm', read: positive },
  '--backlog': { name: 'backlog', read: positive },
};

export function parseArguments(words) {
  const parts = [];
  const wrong = [];
  const options = { quick: false, whole: false, writeDocs: false };
  for (const { name } of Object.values(VALUES)) options[name] = null;
  for (let at = 0; at < words.length; at++) {
    const word = words[at];
    if (FLAGS[word]) options[FLAGS[word]] = true;
    else if (VALUES[word]) {
      const { name, read } = VALUES[word];
      const text = words[++at] ?? '';
      options[name] = read(text);
      if (options[name] === null) wrong.push(`${word} ${text}`);
    } else if (PARTS.includes(word) || MORE.includes(word)) parts.push(word);
    else wrong.push(word);
  }
  if (wrong.length > 0) {
    const names = wrong.map((word) => `"${word}"`).join(', ');
    return { problem: `There is no part or option called ${names}; nothing was run.\n${USAGE}` };
  }
  const all = parts.length === 0;
  const order = [...PARTS, ...MORE];
  const chosen = all ? PARTS : order.filter((name) => parts.includes(name));
  // A run of some cells is for whoever tunes; it is not a part's result.
  const narrowed = Object.values(VALUES).some(({ name }) => options[name] !== null);
  return { parts: chosen, all, narrowed, ...options };
}
