/**
 * Names of queues that the compiler knows, for projects that declare them once:
 *
 *     declare module 'holdfast' {
 *       interface Register { queues: 'orders' | 'mail' }
 *     }
 *
 * From then on another name is an error of the compiler, wherever a queue is named. Without it any text compiles.
 */
// biome-ignore lint/suspicious/noEmptyInterface: projects add to it.
export interface Register {}

/** `inbox` is always there. */
export type QueueName = Register extends { queues: infer Names extends string }
  ? Names | 'inbox'
  : string;
