// What happens to a pooler: reloaded, restarted, frozen; and what happens behind it.
import { sql } from '../server.mjs';

const reload = {
  name: 'pooler-reload',
  async strike(world) {
    return { hit: world.pooler.reload() };
  },
};

const crash = {
  name: 'pooler-crash',
  async strike(world) {
    await world.server.exclusive(() => world.pooler.crash());
    return { hit: true };
  },
};

const freeze = {
  name: 'pooler-frozen',
  async strike(world, random, hold) {
    return world.server.exclusive(async () => {
      const hit = world.pooler.freeze();
      await hold(random.integer(500, 4_500));
      world.pooler.thaw();
      return { hit };
    });
  },
};

const terminate = {
  name: 'server-connections-ended',
  async strike(world) {
    const ended = await sql(
      world.server.url,
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
       WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND random() < 0.5`,
    );
    return { hit: ended.length };
  },
};

const restart = {
  name: 'restart-behind-the-pooler',
  async strike(world) {
    await world.server.exclusive(() => world.server.restart('immediate'));
    return { hit: true };
  },
};

export const poolerFaults = [reload, reload, crash, freeze, terminate, restart];
