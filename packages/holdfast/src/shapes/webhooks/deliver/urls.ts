/** URLs of endpoints, parsed: the same few come again and again. */

/** So many are kept. */
const MOST = 1_000;

export function newUrls(): (text: string) => URL {
  const known = new Map<string, URL>();
  return (text) => {
    let url = known.get(text);
    if (!url) {
      if (known.size >= MOST) known.clear();
      url = new URL(text);
      known.set(text, url);
    }
    return url;
  };
}
