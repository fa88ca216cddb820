/** `holdfast queues create NAME`: another queue of the shape of `inbox`. */
import { type Command, UsageError } from './command.js';

export const queuesCommand: Command = {
  usage: 'queues create NAME',
  summary: 'create another queue of the same shape as inbox',
  flags: [],
  async run({ hf, args, print, note }) {
    const [verb, name, ...rest] = args;
    if (verb !== 'create' || !name || rest.length > 0) {
      throw new UsageError('Write: holdfast queues create NAME');
    }
    const created = await hf.createQueue(name);
    print(name);
    note(
      created
        ? `Queue "${name}" was created.`
        : `Queue "${name}" exists already; nothing was done.`,
    );
  },
};
