/** Commands that are printed to be typed: for another schema than the default they name it. */
const COMMAND =
  /\bholdfast (?=(?:migrate|work|jobs|dead-letters|explain|queues|workers|archive|audit)\b)/g;

export function pasteable(text: string, schema: string): string {
  return schema === 'holdfast' ? text : text.replace(COMMAND, `holdfast --schema ${schema} `);
}
