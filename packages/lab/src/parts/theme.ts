/** Light, dark, or as the browser is; kept for the next time. */
import { useEffect, useState } from 'preact/hooks';

const THEMES = ['auto', 'light', 'dark'];
const themeKept = () => localStorage.getItem('holdfast-theme') ?? 'auto';

export function useTheme() {
  const [theme, setTheme] = useState(themeKept);
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
    localStorage.setItem('holdfast-theme', theme);
  }, [theme]);
  const next = () => setTheme((now) => THEMES[(THEMES.indexOf(now) + 1) % 3] as string);
  return { theme, next, sign: theme === 'dark' ? '☾' : theme === 'light' ? '☀' : '◐' };
}
