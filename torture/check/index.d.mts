export interface Facts {
  readonly history: readonly object[];
  readonly state: object;
  readonly run: object;
}
export interface Checked {
  readonly violations: string[];
  readonly counts: Record<string, unknown>;
}
export declare const CHECKS: Readonly<Record<string, (facts: Facts) => Checked>>;
export declare function checkAll(facts: Facts): Checked;
