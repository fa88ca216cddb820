/** What the code of docs/hosting.md and docs/dashboard.md takes for granted: its own module, and as much of each framework as it uses. */

/** `./jobs.js`, as the page prints it. */
export const JOBS = `
import { holdfast, job } from 'holdfast';
export const hf = holdfast();
export const sendReceipt = job<{ orderId: number }>('send_receipt');
`;

/** Not installed here, but for Nest: these are the documented shapes, so that what is passed to Holdfast is compiled. */
export const FRAMEWORKS = `
declare module 'express' {
  interface Request { readonly body: any; readonly params: Readonly<Record<string, string>> }
  interface Response { status(code: number): this; json(value: unknown): this }
  type Handler = (request: Request, response: Response) => unknown;
  interface App {
    use(handler: unknown): this;
    use(path: string, handler: (request: import('node:http').IncomingMessage, response: import('node:http').ServerResponse) => unknown): this;
    get(path: string, handler: Handler): this;
    post(path: string, handler: Handler): this;
    listen(port: number): unknown;
  }
  function express(): App;
  namespace express { function json(): unknown }
  export default express;
}
declare module 'fastify' {
  interface Raw { readonly raw: import('node:http').ServerResponse }
  interface App {
    register(plugin: (scope: App) => Promise<void>): Promise<void>;
    removeAllContentTypeParsers(): void;
    addContentTypeParser(type: string, parse: (request: unknown, body: unknown, done: (error: null) => void) => void): void;
    all(
      path: string,
      handler: (request: { readonly raw: import('node:http').IncomingMessage }, reply: { hijack(): Raw }) => unknown,
    ): this;
    addHook(name: 'onClose', hook: () => Promise<void>): this;
    post(
      path: string,
      handler: (request: { readonly body: unknown }, reply: { code(status: number): unknown }) => Promise<unknown>,
    ): this;
    listen(options: { port: number }): Promise<string>;
  }
  export default function fastify(): App;
}
declare module 'hono' {
  interface Context {
    readonly req: { json<Body>(): Promise<Body>; readonly raw: Request };
    json(value: unknown, status?: number): Response;
  }
  export class Hono {
    all(path: string, handler: (c: Context) => Promise<Response>): this;
    post(path: string, handler: (c: Context) => Promise<Response>): this;
  }
}
`;
