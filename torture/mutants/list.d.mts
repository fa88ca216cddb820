export interface Mutant {
  readonly name: string;
  readonly patches: Readonly<Record<string, readonly (readonly [from: string, to: string])[]>>;
}
export declare const MUTANTS: readonly Mutant[];
