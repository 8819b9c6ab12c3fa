// Two fleets with the same clients beside each other, in `meridian demo`; this page is that of one.
import { $, make } from './dom.js';
import { count, parts } from './format.js';

const COLUMNS = [
  ['TTFT p50', (s) => parts(s.ttft_p50_ms, 'ms')],
  ['TTFT p90', (s) => parts(s.ttft_p90_ms, 'ms')],
  ['TTFT p99', (s) => parts(s.ttft_p99_ms, 'ms')],
  ['answers', (s) => parts(s.answers_per_s, '/s')],
  ['cached', (s) => parts(s.cached, '%')],
  ['running', (s) => [count(s.running), '']],
];

function row(side) {
  const name = side.here ? `${side.name} (this page)` : make('a', { href: side.page }, side.name);
  const cells = COLUMNS.map(([label, value]) => {
    const [number, unit] = value(side);
    return make('td', { role: 'cell', 'data-label': label }, number, unit ? make('span', { class: 'unit' }, ` ${unit}`) : null);
  });
  return make('tr', { role: 'row' }, make('td', { role: 'rowheader' }, name), ...cells);
}

export function sides(fleet) {
  const section = $('sides');
  section.hidden = !fleet.sides.length;
  if (section.hidden) return;
  const table = section.querySelector('table');
  const focus = table.contains(document.activeElement);
  const heads = ['fleet', ...COLUMNS.map(([label]) => label)];
  if (!table.tHead.rows.length) table.tHead.append(make('tr', {}, ...heads.map((h) => make('th', { scope: 'col' }, h))));
  table.tBodies[0].replaceChildren(...fleet.sides.map(row));
  // The link is a new one; the focus stays on it.
  if (focus) table.querySelector('a')?.focus({ preventScroll: true });
}
