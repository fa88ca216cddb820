/** What a worker imports and never calls in the lab: files, and the text of the keeper's thread. */
export const writeSync = (): void => undefined;
export const KEEPER_SOURCE = '';
