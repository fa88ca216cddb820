/** The configuration of `holdfast work`: checked by the compiler as it is written, loaded by whatever this Node can load. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, onTestFinished, test } from 'vitest';
import { initFiles } from '../../packages/holdfast/src/cli/commands/setup/init.js';
import { run } from '../support/cli-run.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const STRIPS = Boolean((process.features as { typescript?: unknown }).typescript);

/** A folder of a user who has installed holdfast and TypeScript's types for Node and pg. */
function project(files: Record<string, string>): string {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-config-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  mkdirSync(join(folder, 'node_modules'));
  symlinkSync(join(ROOT, 'packages/holdfast'), join(folder, 'node_modules', 'holdfast'));
  symlinkSync(join(ROOT, 'node_modules/@types'), join(folder, 'node_modules', '@types'));
  for (const [name, text] of Object.entries({ 'package.json': '{"type":"module"}', ...files })) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  return folder;
}

describe('for the compiler', () => {
  const OPTIONS = {
    ...{ target: 'ES2023', module: 'NodeNext', types: ['node'], noEmit: true, checkJs: true },
    ...{ strict: true, exactOptionalPropertyTypes: true, skipLibCheck: true },
    ...{ allowImportingTsExtensions: true, erasableSyntaxOnly: true },
  };

  /** With a misspelt option, and with something that no context has. */
  const WRONG = `import { defineConfig } from 'holdfast/config';
    import { job } from 'holdfast';
    export default defineConfig({
      worker: { concurency: 3 },
      handlers(worker) { worker.handle(job('x'), (ctx) => ctx.nothing); },
    });`;

  test('what init writes in TypeScript is correct in a strict project, and a wrong option is found while it is written', () => {
    const written = initFiles('mts').map(({ path, text }) => [path, text]);
    const cwd = project({
      ...Object.fromEntries(written),
      'wrong/holdfast.config.ts': WRONG,
      'wrong/holdfast.config.mjs': WRONG,
      'tsconfig.json': JSON.stringify({ compilerOptions: OPTIONS }),
    });
    const tsc = join(ROOT, 'node_modules/typescript/bin/tsc');
    const { stdout } = spawnSync(process.execPath, [tsc, '-p', '.'], { cwd, encoding: 'utf8' });
    const said = stdout.trim().split(/\n(?! )/);
    for (const end of ['ts', 'mjs']) {
      const own = said.filter((line) => line.startsWith(`wrong/holdfast.config.${end}(`));
      expect(own).toMatchObject([
        expect.stringMatching(/\(4,\d+\): error .*'concurency' does not exist/),
        expect.stringMatching(/\(5,\d+\): error .*Property 'nothing' does not exist/),
      ]);
    }
    expect(said).toHaveLength(4);
  });

  test('defineConfig changes nothing', async () => {
    const { defineConfig } = await import('holdfast/config');
    const config = { handlers: () => {} };
    expect(defineConfig(config)).toBe(config);
  });
});

describe('for Node', () => {
  const CONFIG =
    "import { defineConfig } from 'holdfast/config'; export default defineConfig({ handlers() {} });";
  const env = { DATABASE_URL: 'postgres://nobody@127.0.0.1:1/nothing' };
  const work = (files: Record<string, string>, more: Record<string, string> = {}) =>
    run(['work'], { cwd: project(files), env: { ...env, ...more } });
  /** What a worker says that has nothing to do: the configuration was loaded. */
  const LOADED = /The worker has no handlers/;

  test('JavaScript is loaded', async () => {
    expect((await work({ 'holdfast.config.mjs': CONFIG })).err).toMatch(LOADED);
  });

  test('CommonJS is loaded, by hand and as a compiler writes it', async () => {
    const config = "require('holdfast/config').defineConfig({ handlers() {} })";
    for (const text of [
      `module.exports = ${config};`,
      `Object.defineProperty(exports, '__esModule', { value: true }); exports.default = ${config};`,
    ]) {
      const files = { 'package.json': '{"type":"commonjs"}', 'holdfast.config.js': text };
      expect((await work(files)).err).toMatch(LOADED);
    }
  });

  test('TypeScript is loaded where Node strips types, and elsewhere the ways out are named', async () => {
    const ran = await work({ 'holdfast.config.ts': CONFIG });
    expect(ran.code).toBe(1);
    if (STRIPS) expect(ran.err).toMatch(LOADED);
    else {
      expect(ran.err).toMatch(/^holdfast: holdfast\.config\.ts is TypeScript, which Node 2\d\./);
      expect(ran.err).toMatch(
        /Nothing was started.*\.mjs.*--import tsx.*Node 22\.18 or later\.\n$/,
      );
    }
  });

  test('TypeScript is loaded by a loader that was put before Node', async () => {
    const hooks = `export async function load(url, context, next) {
      return url.endsWith('.ts') ? next(url, { ...context, format: 'module' }) : next(url, context);
    }`;
    const register = `import { register } from 'node:module';
      register('data:text/javascript,' + encodeURIComponent(${JSON.stringify(hooks)}));`;
    const ran = await work(
      { 'holdfast.config.ts': CONFIG, 'loader.mjs': register },
      { NODE_OPTIONS: '--import ./loader.mjs' },
    );
    expect(ran.err).toMatch(LOADED);
  });

  test('what stands in the way is named with the fix', async () => {
    const cases: [Record<string, string>, RegExp, boolean][] = [
      [
        { 'package.json': '{"type":"commonjs"}', 'holdfast.config.js': CONFIG },
        /Add "type": "module" to package\.json, or let the name end in \.mjs or \.mts\.\n$/,
        true,
      ],
      [
        { 'holdfast.config.mjs': `import './x.ts'; ${CONFIG}`, 'x.ts': '' },
        /holdfast: x\.ts is TypeScript/,
        !STRIPS,
      ],
      [
        { 'holdfast.config.ts': `import './x.js'; ${CONFIG}`, 'x.ts': '' },
        /Import x\.ts by its own name, or put a loader before it/,
        STRIPS,
      ],
      [
        { 'holdfast.config.ts': `enum A { x } ${CONFIG}` },
        /Node only strips types; write it without, or put a loader before it/,
        STRIPS,
      ],
    ];
    for (const [files, message, applies] of cases) {
      if (!applies) continue;
      const ran = await work(files);
      expect(ran.err).toMatch(message);
      expect(ran.code).toBe(1);
    }
  });
});
