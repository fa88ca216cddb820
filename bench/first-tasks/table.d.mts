export interface Task {
  readonly name: string;
  readonly says: string;
  readonly prints: readonly string[];
  readonly none?: Readonly<Record<string, string>>;
}
export const SYSTEMS: readonly string[];
export const TASKS: readonly Task[];
export function programOf(system: string, task: Task): string | undefined;
export function countLines(path: string): number;
export function table(): string;
export function withTable(page: string): string;
