// For `npx drizzle-kit generate`, which writes a migration from src/schema.ts.
export default { dialect: 'postgresql', schema: './src/schema.ts', out: './migrations' };
