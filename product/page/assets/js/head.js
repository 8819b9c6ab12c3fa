// The header: how the fleet is, in words and by a colour and a shape, and every problem by name.
import { $, make, say } from './dom.js';
import { count, duration, plural, text } from './format.js';
import * as source from './source.js';

const MOST = 8;
let last = 0;

function summary(fleet) {
  if (!fleet.problems.length) return fleet.regions.length > 1 ? 'All regions work' : 'Everything works';
  const [first] = fleet.problems;
  const word = fleet.level === 'down' ? 'Down' : 'Degraded';
  const where = fleet.regions.length > 1 ? `${first.region}: ` : '';
  const more = fleet.problems.length > 1 ? ` and ${fleet.problems.length - 1} more` : '';
  return `${word}: ${where}${short(first)}${more}`;
}

// The text up to its address and cause, which the list below has in full.
const short = (problem) => problem.text.replace(/ at https?:\S+/, '').split(': ')[0];

export function head(fleet) {
  last = performance.now();
  $('health').dataset.level = fleet.level;
  say($('health-text'), summary(fleet));
  const own = fleet.regions[0]?.page;
  const here = fleet.sides.filter((side) => side.here);
  const parts = source.KIND === 'up'
    ? [...here.map((side) => `fleet of ${side.name}`), plural(fleet.regions.length, 'region'), fleet.topology, `running for ${duration(fleet.elapsed)}`]
    : [`gateway of ${own.status.region}`, `policy ${own.status.policy}`, ...shadow(own.status.shadow), `up for ${duration(own.status.uptime_s)}`];
  say($('about'), parts.join(' · '));
  document.title = `${fleet.level === 'ok' ? '' : `${fleet.level}: `}${here[0]?.name ?? 'Meridian'}`;
  problems(fleet);
}

// The shadow policy, and how often it would have done the same.
function shadow(s) {
  if (!s) return [];
  const all = Object.values(s.decisions ?? {}).reduce((sum, n) => sum + n, 0);
  const state = s.paused ? 'paused' : all ? `same in ${text(s.decisions.same / all, '%')} of ${count(all)} decisions` : 'no decision yet';
  return [`shadow ${s.policy}: ${state}`];
}

let shown = '';
function problems(fleet) {
  const section = $('problems');
  section.hidden = fleet.problems.length === 0;
  const key = JSON.stringify(fleet.problems.map((p) => [p.level, p.region, p.text]));
  if (key === shown) return;
  shown = key;
  const several = fleet.regions.length > 1;
  const items = fleet.problems.slice(0, MOST).map((problem) => make('li', { 'data-level': problem.level },
    make('span', { class: 'mark', 'aria-hidden': 'true' }), several ? make('b', {}, problem.region) : null, make('span', {}, problem.text)));
  const rest = fleet.problems.length - MOST;
  if (rest > 0) items.push(make('li', {}, make('span', {}, `and ${plural(rest, 'more problem')}`)));
  section.querySelector('ul').replaceChildren(...items);
}

// Without new states nothing is known, and the page says so.
export function silence() {
  const quiet = (performance.now() - last) / 1000;
  if (last && quiet < 6) return;
  $('health').dataset.level = 'unknown';
  say($('health-text'), last ? `Unknown: no state for ${duration(quiet)}` : 'waiting for the first state');
}

export function foot(fleet) {
  const docs = 'https://github.com/meridian-llm/meridian/tree/main/docs';
  const foot = $('foot');
  if (foot.childElementCount) return;
  foot.append(make('span', {}, `Meridian ${fleet.build}`),
    ...source.RAW.map(([name, path]) => make('a', { href: path }, name)),
    make('a', { href: docs, rel: 'noopener noreferrer' }, 'documentation'),
    make('a', { href: '/page/uplot-licence.txt' }, 'licence of the charts'));
}
