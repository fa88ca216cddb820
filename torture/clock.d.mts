export declare function wrongClock(clockMs?: number): {
  readonly execArgv: string[];
  readonly env: Record<string, string>;
};
