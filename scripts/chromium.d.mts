import type { Browser } from 'playwright-core';

export function hasBrowser(): boolean;
export const NO_BROWSER: string;
export function launch(): Promise<Browser>;
