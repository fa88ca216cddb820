// Who takes part: each system in each of its configurations, with the URL of the server that it
// runs on.

function entry(system, configuration, urls) {
  const only = Object.keys(system.configurations).filter((one) => one !== 'steady').length === 1;
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
  const every = Object.values(systems)
    .filter((system) => system.postgres || urls.redis)
    .flatMap((system) =>
      Object.keys(system.configurations).map((configuration) => entry(system, configuration, urls)),
    );
  // Its own part's contestants: one configuration a system, told by the system's name.
  const steady = every
    .filter(({ configuration }) => configuration === 'steady')
    .map((one) => ({ ...one, label: one.system.name }));
  const all = every.filter(({ configuration }) => configuration !== 'steady');
  return {
    all,
    steady,
    ours: all.find(({ ours }) => ours),
    defaults: all.filter(({ ours, configuration }) => !ours && configuration === 'default'),
    fastest: all.filter(({ ours, configuration }) => !ours && configuration === 'fastest'),
  };
}
