// The primary dies and its standby takes over, again and again. With a synchronous standby nothing that was acknowledged
// is lost. With an asynchronous one the last moments are; the standby is held back on purpose, so that generations
// are issued twice, and nobody who holds the first issue may settle the second.

function failOver(lagMs) {
  return {
    name: lagMs > 0 ? 'failover-of-a-lagging-standby' : 'failover',
    strike: (world) =>
      world.server.exclusive(async () => {
        const since = lagMs > 0 ? Date.now() : null;
        if (lagMs > 0) await world.server.lag(lagMs);
        const { promote } = await world.server.failOver((url) => {
          for (const line of world.fleet.lines) line.pointTo(url);
        });
        world.history.record('failover', 'note', { lossy: lagMs > 0 });
        const lost = await promote(since);
        if (lost) world.history.record('lost', 'note', lost);
        return { hit: true };
      }),
  };
}

const stopWorker = {
  name: 'kill',
  async strike(world, random) {
    const slot = random.pick(world.fleet.workers.filter(({ runs }) => runs));
    return { hit: slot?.signal('SIGKILL') };
  },
};

export const synchronousFaults = [failOver(0), failOver(0), stopWorker];
export const asynchronousFaults = [failOver(800), failOver(800), stopWorker];
