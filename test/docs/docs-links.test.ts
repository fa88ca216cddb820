/**
 * The links of the documentation: each leads to a file and to a heading that exist, every page can be
 * reached from the README, and what leads outside is a well-formed https address. Nothing is fetched.
 */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path/posix';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** Pages by their path from the root, and what else may be linked to. */
interface Site {
  readonly pages: ReadonlyMap<string, string>;
  readonly kindOf: (path: string) => 'file' | 'folder' | null;
}

interface Link {
  readonly page: string;
  readonly line: number;
  readonly target: string;
}

function site(): Site {
  const docs = readdirSync(join(ROOT, 'docs'), { recursive: true }).map((name) => `docs/${name}`);
  const top = ['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md', 'examples/README.md'];
  const names = [...top, ...docs].filter((name) => name.endsWith('.md'));
  return {
    pages: new Map(names.map((name) => [name, readFileSync(join(ROOT, name), 'utf8')])),
    kindOf(path) {
      if (!existsSync(join(ROOT, path))) return null;
      return statSync(join(ROOT, path)).isDirectory() ? 'folder' : 'file';
    },
  };
}

/** The lines of a page without what stands in code, where neither links nor headings are meant. */
function prose(text: string): string[] {
  let fence = false;
  return text.split('\n').map((line) => {
    const mark = /^\s*```/.test(line);
    if (mark) fence = !fence;
    return fence || mark ? '' : line;
  });
}

const LINK =
  /\]\(\s*<?([^)\s>]*)>?(?:\s+"[^"]*")?\s*\)|^\s*\[[^\]]+\]:\s+(\S+)|(?:href|src)="([^"]*)"/g;

function linksOf(page: string, text: string): Link[] {
  return prose(text).flatMap((line, index) =>
    [...line.replace(/`[^`]*`/g, '').matchAll(LINK)].map((match) => ({
      page,
      line: index + 1,
      target: match[1] ?? match[2] ?? match[3] ?? '',
    })),
  );
}

/** The anchors of a page by GitHub's rule: lower case, no punctuation, hyphens for spaces, -1 for the second. */
function anchorsOf(text: string): Set<string> {
  const anchors = new Set<string>();
  for (const line of prose(text)) {
    const heading = /^#{1,6}\s+(.*?)\s*#*$/.exec(line)?.[1];
    if (heading === undefined) continue;
    const slug = heading
      .replace(/!?\[([^\]]*)\]\([^)]*\)/g, '$1')
      .toLowerCase()
      .replace(/[^\p{L}\p{M}\p{N}\p{Pc}\- ]/gu, '')
      .replaceAll(' ', '-');
    let anchor = slug;
    for (let again = 1; anchors.has(anchor); again++) anchor = `${slug}-${again}`;
    anchors.add(anchor);
  }
  return anchors;
}

const isOutside = (target: string) => /^[a-z][a-z+.-]*:|^\/\//i.test(target);

function outsideProblem(target: string): string | null {
  if (!target.startsWith('https://')) return 'is not https';
  if (!URL.canParse(target)) return 'is no address';
  const { hostname, username } = new URL(target);
  return /^[a-z0-9-]+(\.[a-z0-9-]+)+$/.test(hostname) && username === '' ? null : 'has no host';
}

function fileOf({ page, target }: Link): { path: string; anchor: string } {
  const [path = '', anchor = ''] = target.split('#', 2);
  const whole = path === '' ? page : normalize(join(dirname(page), decodeURI(path)));
  return { path: whole.replace(/\/$/, ''), anchor };
}

function problem(link: Link, { pages, kindOf }: Site): string | null {
  if (isOutside(link.target)) return outsideProblem(link.target);
  if (link.target === '' || link.target.startsWith('/')) return 'is not relative';
  const { path, anchor } = fileOf(link);
  if (path.startsWith('..')) return 'leads out of the repository';
  if (!pages.has(path) && kindOf(path) === null) return 'leads to no file';
  if (!link.target.includes('#')) return null;
  const text = pages.get(path);
  if (text === undefined) return 'asks for a heading of what is no page';
  return anchorsOf(text).has(anchor) ? null : 'leads to no heading';
}

const allLinks = ({ pages }: Site) => [...pages].flatMap(([page, text]) => linksOf(page, text));

function problems(whole: Site): string[] {
  return allLinks(whole).flatMap((link) => {
    const found = problem(link, whole);
    return found ? [`${link.page}:${link.line} ${link.target} ${found}`] : [];
  });
}

/** Pages to which no way leads from the README. A link to a folder shows the pages in it. */
function unreachable(whole: Site): string[] {
  const links = allLinks(whole).filter(({ target }) => !isOutside(target));
  const reached = new Set(['README.md']);
  for (const page of reached) {
    for (const link of links.filter((one) => one.page === page)) {
      const { path } = fileOf(link);
      for (const name of whole.pages.keys())
        if (name === path || dirname(name) === path) reached.add(name);
    }
  }
  return [...whole.pages.keys()].filter((page) => !reached.has(page));
}

test('every link leads to a file and a heading that exist, or is a well-formed https address', () => {
  const whole = site();
  expect(allLinks(whole).length).toBeGreaterThan(100);
  expect(problems(whole)).toEqual([]);
});

test('every page can be reached from the README', () => {
  expect(unreachable(site())).toEqual([]);
});

test('the check finds planted wrong links, and knows GitHub’s rule for headings', () => {
  const other =
    '# Other\n## 3. At least once, `one` owner\n## Twice\n## Twice\n```sh\n# no heading\n```';
  const good = [
    'other.md#3-at-least-once-one-owner',
    'other.md#twice-1',
    '#planted',
    'picture.svg',
    'sub/',
  ];
  const bad = [
    'gone.md',
    'other.md#no-heading',
    '#nowhere',
    '../../up.md',
    '/other.md',
    'http://a.example',
  ];
  const text = [
    '# Planted',
    ...[...good, ...bad, 'https://nohost'].map((to) => `[\`x\`](${to})`),
  ].join('\n');
  const planted: Site = {
    pages: new Map([
      ['README.md', '[docs](docs/planted.md)\n```text\n[not](a-link.md)\n```\n`[nor](this.md)`'],
      ['docs/planted.md', text],
      ['docs/other.md', other],
      ['docs/sub/inside.md', ''],
      ['docs/lonely.md', ''],
    ]),
    kindOf: (path) =>
      path === 'docs/picture.svg' ? 'file' : path === 'docs/sub' ? 'folder' : null,
  };
  expect(problems(planted)).toEqual([
    'docs/planted.md:7 gone.md leads to no file',
    'docs/planted.md:8 other.md#no-heading leads to no heading',
    'docs/planted.md:9 #nowhere leads to no heading',
    'docs/planted.md:10 ../../up.md leads out of the repository',
    'docs/planted.md:11 /other.md is not relative',
    'docs/planted.md:12 http://a.example is not https',
    'docs/planted.md:13 https://nohost has no host',
  ]);
  expect(unreachable(planted)).toEqual(['docs/lonely.md']);
});

test('what the packages say names no page by a path that is not installed with them', () => {
  const named = ['holdfast', 'testing', 'embedded', 'dashboard'].flatMap((name) => {
    const folder = join(ROOT, 'packages', name, 'src');
    return readdirSync(folder, { recursive: true })
      .map((path) => join(folder, String(path)))
      .filter((path) => path.endsWith('.ts') && !path.endsWith('.test.ts'))
      .flatMap((path) => {
        const lines = readFileSync(path, 'utf8').split('\n');
        const said = lines.filter((line) => !/^\s*(\*|\/\*|\/\/)/.test(line));
        return said.filter((line) => /docs\/[\w-]+\.md|\bschema\.sql\b/.test(line));
      });
  });
  expect(named).toEqual([]);
});
