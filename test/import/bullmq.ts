/** What the specs use of BullMQ. Versions 5 and 6 are the same in it. */

interface Job {
  readonly id: string;
}

interface Listed extends Job {
  asJSON(): object;
}

export interface Queue {
  getJobs(types: string[], start: number, end: number, asc: boolean): Promise<Listed[]>;
  setGlobalConcurrency(jobs: number): Promise<unknown>;
  add(name: string, data: unknown, options?: object): Promise<Job>;
  upsertJobScheduler(id: string, repeat: object, template: object): Promise<unknown>;
  getJobCounts(): Promise<Record<string, number>>;
  getJobSchedulers(): Promise<unknown[]>;
  pause(): Promise<void>;
  resume(): Promise<void>;
  obliterate(options: object): Promise<void>;
  close(): Promise<void>;
}

interface Worker {
  run(): Promise<void>;
  getNextJob(token: string): Promise<
    Job & {
      moveToFailed(error: Error, token: string): Promise<void>;
      moveToCompleted(value: unknown, token: string, fetchNext: boolean): Promise<unknown>;
    }
  >;
  waitUntilReady(): Promise<unknown>;
  close(force?: boolean): Promise<void>;
}

export interface BullMQ {
  readonly Queue: new (name: string, options: object) => Queue;
  readonly Worker: new (name: string, processor: null, options: object) => Worker;
  readonly FlowProducer: new (
    options: object,
  ) => { add(flow: object): Promise<unknown>; close(): Promise<void> };
}
