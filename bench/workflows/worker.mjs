// A process that runs workflows of one system, and tells the process that measures what it sees.
const { name, url, options } = JSON.parse(process.argv[2]);
const { system } = await import(`./systems/${name}.mjs`);
const tell = (message) => {
  process.send(message);
};
process.on('disconnect', () => process.exit());
const worker = await system.worker(url, tell, options);
process.on('message', ({ start, input, count }) => {
  for (let n = 0; n < count; n++) void worker.startHere(start, input);
});
tell({ kind: 'up' });
