// A register outside Postgres, as a handler's other system might be: it remembers the highest token of each job,
// refuses lower ones, and writes down everything that it was asked. It is never disturbed: it is the witness.
import { createServer } from 'node:net';
import { createInterface } from 'node:readline';
import { openHistory } from '../history.mjs';

const { folder } = JSON.parse(process.argv[2]);
const history = openHistory(folder, 'register');
const highest = new Map();

const server = createServer((socket) => {
  socket.setNoDelay(true);
  socket.on('error', () => {});
  const lines = createInterface({ input: socket });
  // A killed client resets its connection.
  lines.on('error', () => {});
  lines.on('line', (line) => {
    const { n, job, token, by } = JSON.parse(line);
    const accepted = token >= (highest.get(job) ?? 0);
    if (accepted) highest.set(job, token);
    history.record('register', 'note', { job, token, by, accepted });
    socket.write(`${JSON.stringify({ n, accepted })}\n`);
  });
});
server.listen(0, '127.0.0.1', () => process.send({ port: server.address().port }));
process.on('disconnect', () => process.exit(0));
