import type { Browser } from 'playwright-core';

export function hasBrowser(): boolean;
export function executable(): Promise<string | undefined>;
export const NO_BROWSER: string;
export function launch(): Promise<Browser>;
