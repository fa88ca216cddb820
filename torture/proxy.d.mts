export interface Message {
  readonly type: number;
  readonly bytes: Buffer;
}
export declare function messageCutter(untyped: boolean): (chunk: Buffer) => Message[];
export declare function statementReader(): (message: Message) => string | null;
export interface Cut {
  readonly statement: RegExp;
  readonly where: 'request' | 'answer';
  times: number;
}
export interface Line {
  readonly url: string;
  delayMs: number;
  silent: boolean;
  deaf: boolean;
  closed: boolean;
  cuts: Cut[];
  readonly cutsMade: number;
  readonly touched: number;
  resetAll(): number;
  heal(): void;
  pointTo(url: string): void;
  stop(): Promise<void>;
}
export declare function openLine(url: string): Promise<Line>;
