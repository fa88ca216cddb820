/**
 * What a user of a package can type, read from a declaration file that it ships: every export, and every member of every
 * type that these name, each with its JSDoc comment. Types of other packages are theirs to explain.
 */
import { readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { parseAst } from 'rolldown/parseAst';

export interface Declared {
  /** Such as `JobOptions.retry`, `holdfast()` and `Worker.handle()`. */
  readonly name: string;
  readonly file: string;
  /** Empty without a comment. */
  readonly doc: string;
  /** It has to be there, and is never null: then its name may say it all. */
  readonly isPlain: boolean;
}

// biome-ignore lint/suspicious/noExplicitAny: the nodes of a syntax tree differ by kind.
type Node = any;

interface File {
  readonly path: string;
  readonly text: string;
  readonly body: readonly Node[];
}

const MEMBER = /^(TSPropertySignature|TSMethodSignature|PropertyDefinition|MethodDefinition)$/;

export class Declarations {
  readonly #files = new Map<string, File>();
  readonly #visited = new Set<string>();
  readonly #found = new Map<string, Declared>();
  readonly #skipped: ReadonlySet<string>;
  /** Those of the skipped that were come across. */
  readonly met = new Set<string>();

  /** `skipped`: names of types whose members are not looked at. */
  constructor(skipped: Iterable<string>) {
    this.#skipped = new Set(skipped);
  }

  /** All that can be typed by somebody who imports from `entry`, a `.d.ts`. */
  of(entry: string): Declared[] {
    const file = this.#file(entry);
    for (const node of file.body) {
      for (const { exported } of node.specifiers ?? [])
        if (exported) this.#name(file, exported.name);
      if (node.type !== 'ExportNamedDeclaration' || !node.declaration) continue;
      for (const one of declared(node)) this.#name(file, one.id.name);
    }
    return [...this.#found.values()];
  }

  #file(path: string): File {
    const known = this.#files.get(path);
    if (known) return known;
    const text = readFileSync(path, 'utf8');
    const file = { path, text, body: parseAst(text, { lang: 'dts' }, path).body as Node[] };
    this.#files.set(path, file);
    return file;
  }

  /** The name in the file that an import names. */
  #beside(file: File, from: string, name: string, counts: boolean): void {
    if (!from.startsWith('.')) return;
    const path = resolve(dirname(file.path), from.replace(/\.js$/, '.d.ts'));
    this.#name(this.#file(path), name, counts);
  }

  /** Follows a name through imports and re-exports. `counts`: a user can type the name itself. */
  #name(file: File, name: string, counts = true): void {
    const key = `${file.path} ${name}`;
    if (this.#skipped.has(name)) this.met.add(name);
    if (this.#skipped.has(name) || this.#visited.has(key)) return;
    this.#visited.add(key);
    for (const node of file.body) {
      const imports = node.type === 'ImportDeclaration';
      for (const one of node.specifiers ?? []) {
        const [here, there] = imports ? [one.local, one.imported] : [one.exported, one.local];
        if (here?.name !== name || !there || !node.source) continue;
        this.#beside(file, node.source.value, there.name, counts);
      }
      for (const one of declared(node)) {
        if (one.id?.name !== name) continue;
        if (counts) this.#add(file, /Function/.test(one.type) ? `${name}()` : name, node, false);
        this.#visit(file, one, name);
      }
    }
  }

  #add(file: File, name: string, node: Node, isPlain: boolean): void {
    const key = `${file.path} ${name}`;
    const doc = commentBefore(file.text, node.start);
    // Of overloads, and of members of a union with the same name, one explains them all.
    if (!this.#found.get(key)?.doc) this.#found.set(key, { name, file: file.path, doc, isPlain });
  }

  /** Members get the name of the type that they belong to; types that are named are followed. */
  #visit(file: File, node: Node, name: string): void {
    if (Array.isArray(node)) {
      for (const one of node) this.#visit(file, one, name);
      return;
    }
    // Users make no object of a class of ours but by its functions; an error's arguments are in its example.
    if (typeof node?.type !== 'string' || node.kind === 'constructor') return;
    if (node.accessibility === 'private' || node.key?.type === 'PrivateIdentifier') return;
    if (node.type === 'TSTypeReference') this.#name(file, leftmost(node.typeName));
    if (node.type === 'TSInterfaceHeritage') this.#name(file, leftmost(node.expression));
    if (node.type === 'TSTypeQuery' && node.exprName.type === 'Identifier')
      this.#name(file, node.exprName.name, false);
    if (node.type === 'TSImportType' && node.qualifier)
      this.#beside(file, node.source.value, leftmost(node.qualifier), true);
    let inside = name;
    if (MEMBER.test(node.type)) {
      inside = `${name}.${file.text.slice(node.key.start, node.key.end)}`;
      const { type } = node.typeAnnotation?.typeAnnotation ?? {};
      const isMethod = /Method/.test(node.type) || type === 'TSFunctionType';
      const isPlain = !isMethod && !node.optional && !allowsNull(node);
      this.#add(file, isMethod ? `${inside}()` : inside, node, isPlain);
    }
    for (const [key, value] of Object.entries(node))
      if (key !== 'key' && typeof value === 'object') this.#visit(file, value, inside);
  }
}

/** The declarations of a statement, exported or not. */
function declared(node: Node): Node[] {
  const declaration = node.declaration ?? node;
  return declaration.declarations ?? [declaration];
}

const leftmost = (node: Node): string => (node.left ? leftmost(node.left) : node.name);

function allowsNull(member: Node): boolean {
  const type = member.typeAnnotation?.typeAnnotation;
  return [type, ...(type?.types ?? [])].some((one) => one?.type === 'TSNullKeyword');
}

function commentBefore(text: string, start: number): string {
  const comment = /\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\s*$/.exec(text.slice(0, start))?.[1] ?? '';
  return comment.replace(/^\s*\* ?/gm, '').trim();
}
