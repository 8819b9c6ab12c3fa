// Light, dark, or as the system has it. The choice stays in this browser.
const ORDER = ['system', 'light', 'dark'];
const KEY = 'meridian-theme';

function stored() {
  // Storage can be switched off; the page works without.
  try { return localStorage.getItem(KEY) ?? 'system'; } catch { return 'system'; }
}

function apply(theme) {
  const root = document.documentElement;
  if (theme === 'system') delete root.dataset.theme;
  else root.dataset.theme = theme;
}

apply(stored());
document.addEventListener('DOMContentLoaded', start);
if (document.readyState !== 'loading') start();

function start() {
  const button = document.getElementById('theme');
  if (button.dataset.ready) return;
  button.dataset.ready = 'yes';
  const show = () => { button.textContent = `Theme: ${stored()}`; };
  button.addEventListener('click', () => {
    const next = ORDER[(ORDER.indexOf(stored()) + 1) % ORDER.length];
    try { localStorage.setItem(KEY, next); } catch { /* the theme lasts as long as the page */ }
    apply(next);
    show();
    dispatchEvent(new Event('themechange'));
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => dispatchEvent(new Event('themechange')));
  show();
}
