/** The client as the build makes it (scripts/client.mjs): its files as texts, so that a bundler takes them along. */
export interface ClientFile {
  readonly type: string;
  readonly text: string;
  /** Of the text. */
  readonly etag: string;
}

export const CLIENT_FILES: Readonly<Record<string, ClientFile>>;
