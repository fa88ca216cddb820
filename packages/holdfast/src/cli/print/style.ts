/** Codes that terminals understand, by what they are used for. */
export const STYLES = { bold: '1', dim: '2', bad: '31', good: '32', worry: '33' } as const;
export type Style = keyof typeof STYLES;
