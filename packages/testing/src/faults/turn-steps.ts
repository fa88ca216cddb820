/** The steps of a turn of a workflow: its statements, named by what they write. */
import { type Param, ROUND, UNDOING } from 'holdfast/internal';
import type { Step } from './step.js';

/** The texts of an array literal that the engine made. */
const textsOf = (literal: Param | undefined): (string | null)[] =>
  JSON.parse(
    `[${String(literal).slice(1, -1).replaceAll('NULL', 'null').replaceAll('\u0001', '\\u0001')}]`,
  );

const quoted = (name: string) => JSON.stringify(name);
const listed = (words: readonly string[]) => words.join(' and ');

interface Written {
  readonly name: string;
  /** An intent: its step has not run yet. */
  readonly isOpen: boolean;
}

function writtenIn(params: readonly Param[]): Written[] {
  const places = textsOf(params[7]);
  return textsOf(params[4]).map((name, index) => ({
    name: name ?? '',
    isOpen: places[index] === null,
  }));
}

const wordOf = (name: string) =>
  name.startsWith('\u0001') ? `the undo of ${quoted(name.slice(1))}` : `the step ${quoted(name)}`;

function recordStep(written: readonly Written[]): Step {
  const words = written.map(({ name }) => wordOf(name));
  const kind = 'record';
  if (written.some(({ name }) => name === UNDOING || name === ROUND)) {
    const name = 'the record that the run undoes what it did';
    return { kind, name, moment: `before ${name} was written` };
  }
  if (written.every(({ isOpen }) => isOpen)) {
    const name = `the record that ${listed(words)} begins`;
    return { kind, name, moment: `before ${name} was written` };
  }
  const moment = `after ${listed(words)} had run and before that was recorded`;
  return { kind, name: `the record of ${listed(words)}`, moment };
}

function sleepStep(params: readonly Param[]): Step {
  const [{ w: waits = [] } = {}] = JSON.parse(String(params[3])) as { w?: { n: string }[] }[];
  const where = waits.length > 0 ? ` in ${listed(waits.map(({ n }) => quoted(n)))}` : '';
  const name = `the suspension${where}`;
  return { kind: 'sleep', name, moment: `before the run went to sleep${where}` };
}

export function turnStepOf(statement: string, params: readonly Param[]): Step | null {
  switch (statement) {
    case 'load_steps':
      return {
        kind: 'query',
        name: 'the read of its steps',
        moment: 'before a turn read its steps',
      };
    case 'record_steps':
      return recordStep(writtenIn(params));
    case 'record_step':
      return recordStep([{ name: String(params[3]), isOpen: params[6] === null }]);
    case 'suspend':
      return sleepStep(params);
    case 'restart_run':
      return { kind: 'record', name: 'the restart', moment: 'before the run was restarted' };
    case 'cancel_own':
    case 'dead_letter':
      return {
        kind: 'completion',
        name: 'the end of the run',
        moment: 'before the end of the run was written',
      };
    default:
      return null;
  }
}
