// The browsers that look at a dashboard, without their screens: each has a stream of events open, and asks for a list
// of jobs at every second event, as the screen of the jobs does. They are opened and closed by message.
import { get } from 'node:http';

const url = process.argv[2];
const open = new Set();

/** Resolves with its first event. */
function openPage() {
  let events = 0;
  return new Promise((resolve, reject) => {
    const request = get(`${url}api/events`, (response) => {
      response.setEncoding('utf8').on('data', (text) => {
        if (!text.includes('event: snapshot')) return;
        resolve();
        if (++events % 2 === 0)
          get(`${url}api/jobs?limit=50`, (answer) => answer.resume()).on('error', () => {});
      });
      response.on('error', () => {});
    });
    request.on('error', reject);
    open.add(request);
  });
}

process.on('message', async (count) => {
  for (const request of open) request.destroy();
  open.clear();
  await Promise.all(Array.from({ length: count }, openPage));
  process.send(count);
});
process.on('disconnect', () => process.exit());
process.send('ready');
