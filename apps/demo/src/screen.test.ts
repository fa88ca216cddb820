/** Colour and lines that stay in place: on a terminal only. */
import { expect, test } from 'vitest';
import { Screen } from './screen.js';

/** What is written, with its control sequences as `<31m>`. */
function shown(isTTY: boolean, env: NodeJS.ProcessEnv): string {
  let text = '';
  const write = (part: string) => {
    text += part;
    return true;
  };
  const screen = new Screen({ isTTY, columns: 80, write } as unknown as NodeJS.WriteStream, env);
  screen.keep([['below']]);
  screen.say(['worker 1 is killed', 'bad']);
  const [first = '', ...rest] = text.replace(/\d\.\d s/, 'TIME').split('\u001b[');
  return first + rest.map((part) => part.replace(/^\d*[A-Za-z]/, '<$&>')).join('');
}

test.each([
  [true, {}, 'below\r<J><2m>   TIME<0m>  <31m>worker 1 is killed<0m>\nbelow'],
  [true, { NO_COLOR: '1' }, 'below\r<J>   TIME  worker 1 is killed\nbelow'],
  [true, { TERM: 'dumb' }, '   TIME  worker 1 is killed\n'],
  [false, {}, '   TIME  worker 1 is killed\n'],
])('on a terminal: %s, with %o', (isTTY, env, expected) => {
  expect(shown(isTTY, env)).toBe(expected);
});
