// What happens to a pooler: reloaded, restarted, frozen; and what happens behind it.
import { sql } from '../server.mjs';

const reload = {
  name: 'pooler-reload',
  async strike(world) {
    world.pooler.reload();
  },
};

const crash = {
  name: 'pooler-crash',
  strike: (world) => world.server.exclusive(() => world.pooler.crash()),
};

const freeze = {
  name: 'pooler-frozen',
  async strike(world, random, hold) {
    await world.server.exclusive(async () => {
      world.pooler.freeze();
      await hold(random.integer(500, 4_500));
      world.pooler.thaw();
    });
  },
};

const terminate = {
  name: 'server-connections-ended',
  async strike(world) {
    await sql(
      world.server.url,
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
       WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND random() < 0.5`,
    );
  },
};

const restart = {
  name: 'restart-behind-the-pooler',
  strike: (world) => world.server.exclusive(() => world.server.restart('immediate')),
};

export const poolerFaults = [reload, reload, crash, freeze, terminate, restart];
