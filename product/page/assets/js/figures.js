// The latest values of each region as a table. It is also the text alternative of the charts.
import { $, make } from './dom.js';
import { count, parts, text } from './format.js';

const COLUMNS = [
  ['requests', (r) => parts(r.requests_per_s, '/s')],
  ['TTFT p50', (r) => parts(r.ttft_p50_ms, 'ms')],
  ['TTFT p99', (r) => parts(r.ttft_p99_ms, 'ms')],
  ['errors', (r) => parts(r.errors_per_s, '/s')],
  ['queued', (_, status) => [count(status?.held), '']],
  ['hit ratio', (r) => parts(r.hit_ratio, '%')],
  ['tokens out', (r) => parts(r.tokens_per_s, '/s')],
  ['KV in use', (r) => parts(r.kv_used, '%')],
];
const MARKS = { ok: ['good', 'works'], degraded: ['warn', 'degraded'], down: ['bad', 'down'] };

function cell(label, [value, unit], state = null) {
  return make('td', { role: 'cell', 'data-label': label, 'data-state': state }, value, unit ? make('span', { class: 'unit' }, ` ${unit}`) : null);
}

function row(region) {
  const { page, tiles } = region;
  const [state, word] = region.alive ? MARKS[region.level] : ['bad', 'gateway dead'];
  const up = tiles.filter((t) => t.state === 'good').length;
  const name = make('td', { role: 'rowheader', 'data-state': state, id: `region-${region.name}` },
    make('span', { class: 'mark', 'aria-hidden': 'true' }), ` ${region.name} `, make('span', { class: 'small' }, word));
  const recent = page?.recent ?? {};
  return make('tr', { role: 'row' }, name, cell('up', [`${up} of ${tiles.length}`, ''], up < tiles.length ? 'warn' : null),
    ...COLUMNS.map(([label, value]) => cell(label, value(recent, page?.status), label === 'errors' && recent.errors_per_s > 0 ? 'bad' : null)));
}

// A peer, as the gateway sees it.
function peer(other) {
  const name = make('td', { role: 'rowheader', 'data-state': other.state },
    make('span', { class: 'mark', 'aria-hidden': 'true' }), ` ${other.region} `, make('span', { class: 'small' }, `peer ${other.name}, ${other.word}`));
  return make('tr', { role: 'row' }, name, cell('up', [count(other.usable), '']),
    make('td', { role: 'cell', colspan: 8, class: 'left soft' },
      `${count(other.held)} queued · ${text(other.rtt_ms, 'ms')} away · utilisation ${text(other.utilisation, '%')}`));
}

export function figures(fleet) {
  const table = document.querySelector('#figures table');
  const heads = ['region', 'replicas up', ...COLUMNS.map(([label]) => label)];
  if (!table.tHead.rows.length) table.tHead.append(make('tr', {}, ...heads.map((h) => make('th', { scope: 'col' }, h))));
  table.tBodies[0].replaceChildren(...fleet.regions.map(row), ...fleet.others.map(peer));
  const clients = fleet.regions.map((r) => r.clients).filter(Boolean);
  const load = $('load');
  load.hidden = !clients.length;
  const sum = (of) => clients.reduce((n, c) => n + of(c), 0);
  if (clients.length) load.textContent = `Clients: ${count(sum((c) => c.ok))} answers, ${count(sum((c) => c.errors))} errors. The values are those of the last 10 to 20 s.`;
}
