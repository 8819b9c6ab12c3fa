// Lines over the last hour, one chart for each figure and one line for each region, drawn by uPlot.
import { $, colour, make } from './dom.js';
import { clock, parts, tick } from './format.js';

const CHARTS = [
  { key: 'ttft_p50_ms', title: 'TTFT, p50', unit: 'ms' },
  { key: 'ttft_p99_ms', title: 'TTFT, p99', unit: 'ms' },
  { key: 'requests_per_s', title: 'Requests', unit: '/s' },
  { key: 'errors_per_s', title: 'Failed or rejected', unit: '/s' },
  { key: 'hit_ratio', title: 'Prefix hit ratio', unit: '%', most: 1 },
  { key: 'held', title: 'Queued requests, most', unit: '' },
  { key: 'tokens_per_s', title: 'Output tokens', unit: '/s' },
  { key: 'kv_used', title: 'KV in use, mean', unit: '%', most: 1 },
];
const LEAST_SPAN = 300;
const HOUR = 3600;
const plots = new Map();
let names = '';
let fleet = null;
// The time under the pointer; null for the newest values.
let pointed = null;

const series = (n) => `series-${(n % 6) + 1}`;

// Regions' points on one list of times.
function table() {
  return uPlot.join(fleet.regions.map((region) => [
    region.points.map((point) => point.at_s),
    ...CHARTS.map(({ key }) => region.points.map((point) => point[key])),
  ]));
}

const data = (joined, n) => [joined[0], ...fleet.regions.map((_, at) => joined[1 + at * CHARTS.length + n])];

function span() {
  const first = Math.min(...fleet.regions.flatMap((region) => region.points.slice(0, 1).map((p) => p.at_s)), fleet.now);
  return [Math.max(fleet.now - HOUR, Math.min(first, fleet.now - LEAST_SPAN)), fleet.now];
}

// Few labels of full minutes, whatever the width.
const times = (_, splits) => splits.map((s) => clock(s).slice(0, 5));

function options(chart, box) {
  const soft = () => colour('soft');
  const line = () => colour('line');
  const axis = { stroke: soft, font: '11px system-ui, sans-serif', ticks: { show: false } };
  return {
    width: box.clientWidth, height: box.clientHeight, legend: { show: false }, padding: [6, 16, 0, 0],
    cursor: { sync: { key: 'hour' }, y: false, drag: { x: false, y: false }, points: { size: 6 } },
    scales: { x: { time: true, range: () => span() },
      y: { range: (_, __, most) => [0, chart.most ?? (most > 0 ? most * 1.1 : 1)] } },
    axes: [
      { ...axis, size: 20, gap: 2, space: box.clientWidth < 240 ? 36 : 46, values: times, grid: { stroke: line, width: 1 } },
      { ...axis, size: 44, gap: 4, space: 34, grid: { stroke: line, width: 1 },
        values: (_, splits) => splits.map((v) => tick(v, chart.unit)) },
    ],
    series: [{}, ...fleet.regions.map((region, n) => ({ label: region.name, stroke: () => colour(series(n)), width: 1.6, points: { show: false } }))],
    hooks: { setCursor: [(plot) => point(plot)] },
  };
}

function point(plot) {
  const at = plot.cursor.idx;
  const next = at === null || at === undefined || plot.cursor.left < 0 ? null : plot.data[0][at];
  if (next === pointed) return;
  pointed = next;
  values();
}

// The values under the pointer, or the newest ones.
function values() {
  $('charts-time').textContent = pointed === null ? `values of the last 10 to 20 s, ${clock(fleet.now)}` : `values of the 10 s from ${clock(pointed)}`;
  for (const { chart, figure, shown } of plots.values()) {
    const several = fleet.regions.length > 1;
    const spans = fleet.regions.map((region, n) => {
      const from = pointed === null ? region.page?.recent : region.points.findLast((p) => p.at_s <= pointed);
      const [value, unit] = parts(from?.[chart.key], chart.unit);
      return make('span', { class: several ? 'value several' : 'value' },
        several ? make('span', { class: `swatch s${(n % 6) + 1}` }) : null,
        several ? make('span', { class: 'soft small' }, `${region.name} `) : null, value, make('span', { class: 'unit' }, ` ${unit}`));
    });
    shown.replaceChildren(...spans);
    figure.setAttribute('aria-label', `${chart.title} over the last hour; the table of regions has the latest values. Now: ${fleet.regions.map((r, n) => `${r.name} ${spans[n].textContent}`).join(', ')}`);
  }
}

function build() {
  for (const { plot, watch } of plots.values()) { watch.disconnect(); plot.destroy(); }
  plots.clear();
  const grid = document.querySelector('#charts .grid');
  grid.replaceChildren();
  const joined = table();
  CHARTS.forEach((chart, n) => {
    const shown = make('div', { class: 'chips' });
    const box = make('div', { class: 'canvas' });
    const figure = make('figure', { class: 'plot', role: 'img' }, make('header', {}, make('h3', {}, chart.title), ...[shown]), box);
    grid.append(figure);
    const plot = new uPlot(options(chart, box), data(joined, n), box);
    const watch = new ResizeObserver(() => {
      if (box.clientWidth !== plot.width) plot.setSize({ width: box.clientWidth, height: box.clientHeight });
    });
    watch.observe(box);
    plots.set(chart.key, { chart, figure, shown, plot, watch });
  });
}

export function charts(next) {
  fleet = next;
  const now = fleet.regions.map((region) => region.name).join();
  if (!fleet.regions.some((region) => region.points.length)) return;
  if (now !== names) { names = now; build(); } else {
    const joined = table();
    CHARTS.forEach((chart, n) => plots.get(chart.key).plot.setData(data(joined, n)));
  }
  values();
}

addEventListener('themechange', () => plots.forEach(({ plot }) => plot.redraw(false, true)));
