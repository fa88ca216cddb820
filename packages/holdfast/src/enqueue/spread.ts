/** Splits `… $2 … $1 …` into the text between the parameters and the values in their order. */
export function spread(
  text: string,
  params: readonly unknown[],
): { parts: string[]; values: unknown[] } {
  const parts: string[] = [];
  const values: unknown[] = [];
  let from = 0;
  for (const match of text.matchAll(/\$(\d+)/g)) {
    parts.push(text.slice(from, match.index));
    values.push(params[Number(match[1]) - 1]);
    from = match.index + match[0].length;
  }
  parts.push(text.slice(from));
  return { parts, values };
}
