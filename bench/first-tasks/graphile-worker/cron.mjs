import { run } from 'graphile-worker';

const runner = await run({
  connectionString: process.env.DATABASE_URL,
  crontab: '* * * * * tick',
  taskList: {
    tick() {
      console.log('> tick');
      runner.stop();
    },
  },
});
await runner.promise;
