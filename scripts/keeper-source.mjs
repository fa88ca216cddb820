// The program of the keeper's thread as one text: packages/holdfast/build/worker/lease/keeper-thread.js with all that it imports, `pg`
// too. A worker that was bundled into one file has no file to start its thread from, and perhaps no node_modules.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { rolldown } from 'rolldown';

/** A warning of the bundler is looked at once and then mended, or known here to be harmless. */
export function onLog(level, log, next) {
  // `pg` asks for it only when somebody wants its native client.
  if (log.code === 'UNRESOLVED_IMPORT' && /pg-native/.test(log.message)) return;
  next(level === 'warn' ? 'error' : level, log);
}

/** The folder of the package that a module is of, with the separators of the system; null: it is of none. */
export const packageFolder = (id) =>
  /^.*[\\/]node_modules[\\/](?:@[^\\/]+[\\/])?[^\\/]+/.exec(id)?.[0] ?? null;

/** The licences of what was bundled want their texts to be kept. */
export function licencesOf(modules) {
  const folders = modules.map(packageFolder).filter((folder) => folder !== null);
  return [...new Set(folders)].sort().map((folder) => {
    const { name, version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
    const files = readdirSync(folder);
    // Some have it at the end of their README.
    const file = files.find((one) => /^licen[cs]e/i.test(one)) ?? 'README.md';
    return `${name} ${version}\n\n${readFileSync(join(folder, file), 'utf8').trim()}\n`;
  });
}

/** Nothing but Node's own modules is asked for, and in a way that works as a script, as CommonJS and as an ES module. */
const LOAD = "typeof require === 'function' ? require : (name) => process.getBuiltinModule(name)";

export async function writeKeeperSource(build) {
  const folder = join(build, 'worker/lease');
  const input = join(folder, 'keeper-thread.js');
  const bundle = await rolldown({ input, platform: 'node', onLog });
  const { output } = await bundle.generate({
    format: 'cjs',
    minify: true,
    codeSplitting: false,
  });
  await bundle.close();
  const [{ code, moduleIds }] = output;
  // Without a `navigator` (Node 20) `pg` makes a Response to know where it runs, which loads all of fetch: 25 ms.
  const program = `((require, module, exports, navigator) => {${code}\n})(${LOAD}, { exports: {} }, {}, { userAgent: 'Node.js' });`;
  writeFileSync(
    join(folder, 'keeper-source.js'),
    '// Made by scripts/keeper-source.mjs from keeper-thread.js. LICENCES.txt has the licences of what it contains.\n' +
      `export const KEEPER_SOURCE = ${JSON.stringify(program)};\n`,
  );
  writeFileSync(join(folder, 'LICENCES.txt'), licencesOf(moduleIds).join('\n---\n\n'));
}
