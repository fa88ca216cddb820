import { expect, test } from 'vitest';
import { checkOptions, settingArguments } from './options.js';

test('refuses settings that the launcher depends on, and names that are none', () => {
  for (const name of ['port', 'Listen_Addresses', 'data_directory', 'a b', '-c', '']) {
    expect(() => checkOptions({ settings: { [name]: 1 } }), name).toThrow(/Nothing was started/);
  }
  expect(() =>
    checkOptions({ settings: { work_mem: '4MB', 'auto_explain.log': 1 } }),
  ).not.toThrow();
});

test('refuses to keep the data of a throwaway server', () => {
  expect(() => checkOptions({ throwaway: true, dataDir: 'x' })).toThrow(/throwaway/);
});

test('puts the caller’s settings over the defaults, and the launcher’s over both', () => {
  const all = settingArguments({ max_connections: 20, jit: false }, 12345);
  expect(all.filter((argument) => argument.startsWith('max_connections'))).toEqual([
    'max_connections=20',
  ]);
  expect(all).toEqual(expect.arrayContaining(['jit=off', 'port=12345', 'shared_buffers=256MB']));
});
