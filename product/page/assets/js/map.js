// The regions on the outlines of land, and an arc for each pair that forwards requests.
import { draw, make } from './dom.js';
import { count, text } from './format.js';
import { HEIGHT, LAND, WIDTH } from './land.js';
import { place } from './places.js';

const STATES = { ok: 'good', degraded: 'warn', down: 'bad' };
// An arc narrower than this would not be seen, and a wider one hides the map.
const thickness = (rate) => Math.min(9, 1.5 + 1.2 * Math.sqrt(rate));

function spots(fleet) {
  const known = new Map(fleet.regions.map((r) => [r.name, { name: r.name, state: r.alive ? STATES[r.level] : 'bad' }]));
  for (const other of fleet.others) if (!known.has(other.region)) known.set(other.region, { name: other.region, state: other.state });
  return [...known.values()].map((spot) => ({ ...spot, at: place(spot.name) }));
}

// A curve from one place to the other; each direction has its own side.
function curve([x1, y1], [x2, y2]) {
  const [dx, dy] = [x2 - x1, y2 - y1];
  const length = Math.hypot(dx, dy) || 1;
  const bow = Math.min(70, length * 0.2);
  const side = dx >= 0 ? 1 : -1;
  const [cx, cy] = [(x1 + x2) / 2 + (dy / length) * bow * side, (y1 + y2) / 2 - (dx / length) * bow * side - (dx >= 0 ? 0 : bow * 0)];
  return { path: `M${x1} ${y1}Q${cx} ${dx >= 0 ? cy : (y1 + y2) / 2 + Math.abs(dx / length) * bow} ${x2} ${y2}` };
}

function arcs(fleet, at) {
  return fleet.flows.filter((flow) => flow.rate > 0 && at.get(flow.from) && at.get(flow.to)).flatMap((flow) => {
    const { path } = curve(at.get(flow.from), at.get(flow.to));
    const width = thickness(flow.rate);
    return [draw('path', { class: 'arc', d: path, 'stroke-width': width }),
      draw('path', { class: 'arc moving', d: path, 'stroke-width': Math.max(1, width / 2.5) })];
  });
}

function links(fleet, at) {
  return fleet.links.filter((link) => link.from < link.to && at.get(link.from) && at.get(link.to)).map((link) => {
    const { path } = curve(at.get(link.from), at.get(link.to));
    return draw('path', { class: 'link', d: path, 'data-state': link.state === 'up' ? 'good' : 'bad' });
  });
}

export function map(fleet) {
  const box = document.querySelector('#map .chart');
  const all = spots(fleet);
  const at = new Map(all.filter((s) => s.at).map((s) => [s.name, s.at]));
  const label = all.map((s) => `${s.name}: ${{ good: 'works', warn: 'degraded', bad: 'down' }[s.state] ?? s.state}`).join(', ');
  const svg = draw('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'img', 'aria-label': `Map of the regions. ${label}` },
    draw('path', { class: 'land', d: LAND }), ...links(fleet, at), ...arcs(fleet, at));
  for (const spot of all.filter((s) => s.at)) {
    const [x, y] = spot.at;
    svg.append(draw('g', { 'data-state': spot.state },
      draw('circle', { class: 'ring', cx: x, cy: y, r: 17 }), draw('circle', { class: 'spot', cx: x, cy: y, r: 9 }),
      draw('text', { class: 'halo', x, y: y + 34, 'text-anchor': 'middle', 'font-weight': 650 }, spot.name)));
  }
  box.replaceChildren(svg);
  list(fleet, all.filter((s) => !s.at));
}

function list(fleet, nowhere) {
  const lines = fleet.flows.filter((flow) => flow.total > 0)
    .map((flow) => make('li', {}, `${flow.from} → ${flow.to}: ${text(flow.rate, '/s')}, ${count(flow.total)} since the start`));
  if (nowhere.length) lines.push(make('li', {}, `not on the map, as the name says no place: ${nowhere.map((s) => s.name).join(', ')}`));
  if (!lines.length) lines.push(make('li', {}, 'No request was forwarded yet.'));
  document.querySelector('#map .flows').replaceChildren(...lines);
}
