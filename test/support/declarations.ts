/**
 * What a user of a package can type, read from a declaration file that it ships: every export, and every member of every
 * type that these name, each with its JSDoc comment. Inherited members count as members of each type that inherits them,
 * also through `Omit` and `Pick` and from another package of ours. All other types of other packages are theirs to explain.
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
  readonly isOptional: boolean;
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

  readonly #packages: Readonly<Record<string, string>>;

  /** `skipped`: names of types whose members are not looked at. `packages`: by name, the `.d.ts` of packages of ours. */
  constructor(skipped: Iterable<string>, packages: Readonly<Record<string, string>> = {}) {
    this.#skipped = new Set(skipped);
    this.#packages = packages;
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
    this.#name(this.#file(beside(file, from)), name, counts);
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
        const isFunction = /Function/.test(one.type);
        if (counts) this.#add(file, isFunction ? `${name}()` : name, node, false);
        this.#visit(file, one, name);
        if (isFunction) continue;
        for (const base of basesOf(one)) this.#inherit(file, base, name, ANY);
      }
    }
  }

  /** Adds the members of `base`, a type that is written in `file`, to those of the type `heir`. */
  #inherit(file: File, base: Base, heir: string, keeps: (member: string) => boolean): void {
    if (this.#skipped.has(base.name)) return;
    const [type, names] = base.args;
    if (['Omit', 'Pick', 'Partial', 'Required', 'Readonly'].includes(base.name) && type) {
      const listed = (member: string) => namesIn(names).includes(member) === (base.name === 'Pick');
      const inner = { name: leftmost(type.typeName), args: type.typeArguments?.params ?? [] };
      const chosen = (member: string) => keeps(member) && (!names || listed(member));
      this.#inherit(file, inner, heir, chosen);
      return;
    }
    const called = base.name === 'ReturnType' ? leftmost(type.exprName) : base.name;
    const found = this.#find(file, called);
    if (!found) return;
    const { node, file: home } = found;
    for (const member of membersOf(node)) {
      if (isHidden(member) || !MEMBER.test(member.type) || !keeps(nameOf(home, member))) continue;
      this.#member(home, member, heir);
    }
    for (const next of basesOf(node)) this.#inherit(home, next, heir, keeps);
  }

  /** The declaration of a name, followed through imports and re-exports, also into other packages of ours. */
  #find(file: File, name: string): { file: File; node: Node } | undefined {
    for (const node of file.body) {
      for (const one of declared(node)) if (one.id?.name === name) return { file, node: one };
      for (const one of node.specifiers ?? []) {
        const isImport = node.type === 'ImportDeclaration';
        const [here, there] = isImport ? [one.local, one.imported] : [one.exported, one.local];
        if (here?.name !== name || !there || !node.source) continue;
        const from: string = node.source.value;
        const path = from.startsWith('.') ? beside(file, from) : this.#packages[from];
        if (path) return this.#find(this.#file(path), there.name);
      }
    }
    return undefined;
  }

  #add(file: File, name: string, node: Node, isPlain: boolean): void {
    const key = `${file.path} ${name}`;
    const doc = commentBefore(file.text, node.start);
    // Of overloads, and of members of a union with the same name, one explains them all.
    if (this.#found.get(key)?.doc) return;
    const isOptional = node.optional === true;
    this.#found.set(key, { name, file: file.path, doc, isPlain, isOptional });
  }

  /** Members get the name of the type that they belong to; types that are named are followed. */
  #visit(file: File, node: Node, name: string): void {
    if (Array.isArray(node)) {
      for (const one of node) this.#visit(file, one, name);
      return;
    }
    if (typeof node?.type !== 'string' || isHidden(node)) return;
    if (node.type === 'TSTypeReference') this.#name(file, leftmost(node.typeName));
    if (node.type === 'TSInterfaceHeritage') this.#name(file, leftmost(node.expression));
    if (node.type === 'TSTypeQuery' && node.exprName.type === 'Identifier')
      this.#name(file, node.exprName.name, false);
    if (node.type === 'TSImportType' && node.qualifier)
      this.#beside(file, node.source.value, leftmost(node.qualifier), true);
    const inside = MEMBER.test(node.type) ? this.#member(file, node, name) : name;
    for (const [key, value] of Object.entries(node))
      if (key !== 'key' && typeof value === 'object') this.#visit(file, value, inside);
  }

  /** Returns its name. */
  #member(file: File, node: Node, owner: string): string {
    const name = `${owner}.${nameOf(file, node)}`;
    const { type } = node.typeAnnotation?.typeAnnotation ?? {};
    const isMethod = /Method/.test(node.type) || type === 'TSFunctionType';
    const isPlain = !isMethod && !node.optional && !allowsNull(node);
    this.#add(file, isMethod ? `${name}()` : name, node, isPlain);
    return name;
  }
}

/** A type that another one extends. */
interface Base {
  readonly name: string;
  readonly args: readonly Node[];
}

const ANY = () => true;

const beside = (file: File, from: string) =>
  resolve(dirname(file.path), from.replace(/\.js$/, '.d.ts'));

const nameOf = (file: File, member: Node) => file.text.slice(member.key.start, member.key.end);

/** Users make no object of a class of ours but by its functions; an error's arguments are in its example. */
const isHidden = (node: Node) =>
  node.kind === 'constructor' ||
  ['private', 'protected'].includes(node.accessibility) ||
  node.key?.type === 'PrivateIdentifier';

const baseOf = (name: Node, node: Node): Base => ({
  name: leftmost(name),
  args: node.typeArguments?.params ?? [],
});

/** What a class or an interface extends, and of what an alias is made. */
function basesOf(node: Node): Base[] {
  const parts = partsOf(node).filter(({ type }) => type === 'TSTypeReference');
  return [
    ...(Array.isArray(node.extends) ? node.extends : []).map((one: Node) =>
      baseOf(one.expression, one),
    ),
    ...(node.superClass ? [baseOf(node.superClass, node)] : []),
    ...parts.map((one) => baseOf(one.typeName, one)),
  ];
}

/** Of an interface, a class, an alias of objects, and of the object that a function returns. */
const membersOf = (node: Node): Node[] => [
  ...(node.body?.body ?? []),
  ...partsOf(node).flatMap(({ members }) => members ?? []),
];

/** The types of an intersection or a union, also of one in another. */
function partsOf(node: Node): Node[] {
  const split = (type: Node): Node[] =>
    type?.type === 'TSParenthesizedType'
      ? split(type.typeAnnotation)
      : (type?.types?.flatMap(split) ?? (type ? [type] : []));
  return split(node.returnType?.typeAnnotation ?? node.typeAnnotation);
}

/** `'a' | 'b'` */
const namesIn = (node: Node): string[] =>
  (node?.types ?? (node ? [node] : [])).map((one: Node) => String(one.literal?.value));

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
