// Who takes part: each system in each of its configurations, with the URL of the server that it
// runs on.

function entry(system, configuration, urls) {
  const only = Object.keys(system.configurations).length === 1;
  return {
    system,
    configuration,
    ours: system.name === 'holdfast',
    label: only ? system.name : `${system.name} (${configuration})`,
    url: system.postgres ? urls.postgres : urls.redis,
  };
}

/** Holdfast first, then the peers; those on Redis only where a Redis runs. */
export function entriesFor(systems, urls) {
  const all = Object.values(systems)
    .filter((system) => system.postgres || urls.redis)
    .flatMap((system) =>
      Object.keys(system.configurations).map((configuration) => entry(system, configuration, urls)),
    );
  return {
    all,
    ours: all.find(({ ours }) => ours),
    defaults: all.filter(({ ours, configuration }) => !ours && configuration === 'default'),
    fastest: all.filter(({ ours, configuration }) => !ours && configuration === 'fastest'),
  };
}
