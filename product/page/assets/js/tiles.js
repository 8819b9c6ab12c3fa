// The replicas as tiles by region; a tile opens its details.
import { $, make, width } from './dom.js';
import { count, host, parts, share, text } from './format.js';
import * as source from './source.js';

let opened = null;
let last = null;

const kvState = (kv) => (kv >= 0.97 ? 'bad' : kv >= 0.85 ? 'warn' : 'good');

function button(act, what, name, words) {
  return make('button', { type: 'button', class: 'act', 'data-order': `${act} ${what} ${name}`,
    on: { click: () => order(act, what, name) } }, words);
}

async function order(act, what, name) {
  const refused = await source.order(act, what, name);
  const said = $('said');
  said.hidden = !refused;
  said.textContent = refused ?? '';
}

function tile(region, t) {
  const id = `${region.name}/${t.key}`;
  const { replica } = t;
  const [kv, unit] = parts(replica?.kv_used, '%');
  const busy = replica ? [`${count(replica.running)} running`, replica.pending ? `${count(replica.pending)} pending` : null,
    replica.of_siblings ? `${count(replica.of_siblings)} from siblings` : null].filter(Boolean) : ['no report'];
  const open = make('button', { type: 'button', id: `tile-${id}`, 'aria-expanded': String(opened === id), title: host(t.url),
    on: { click: () => { opened = opened === id ? null : id; tiles(last); document.getElementById(`tile-${id}`)?.focus(); } } },
    make('span', { class: 'name' }, t.name),
    make('span', { class: 'state', 'data-state': t.state }, make('span', { class: 'mark', 'aria-hidden': 'true' }), t.servedBy ? `${t.word}, by ${t.servedBy}` : t.word),
    make('span', { class: 'kv' }, 'KV', make('span', { class: 'meter', 'aria-hidden': 'true', 'data-state': kvState(replica?.kv_used ?? 0) },
      width(make('i'), replica?.kv_used ?? 0)), make('span', {}, `${kv} ${unit}`)),
    make('span', { class: 'load' }, t.role ? make('span', { class: 'role' }, t.role) : null, ...busy.map((b) => make('span', {}, b))));
  const act = source.order && t.process ? button(t.process.alive ? 'kill' : 'revive', 'replica', t.name, t.process.alive ? 'Kill' : 'Revive') : null;
  act?.setAttribute('aria-label', `${act.textContent} ${t.name}`);
  return make('li', { class: 'tile', 'data-state': t.state, 'data-replica': t.name }, open, act);
}

const fact = ([name, value]) => make('div', {}, make('dt', {}, name), make('dd', {}, value));

function details(region, t) {
  const r = t.replica;
  if (!r) return make('li', { class: 'details' }, `${t.name} at ${t.url}: no gateway reports it now.`);
  const facts = [
    ['address', r.url], ['engine', r.version ? `${r.engine} ${r.version}` : r.engine], ['models', r.models.join(', ') || '–'],
    ['name in metrics', r.name], ['role', r.transfer ? `${r.role}, hands over KV by ${r.transfer}` : r.role],
    ['circuit breaker', r.breaker.replace('_', ' ')], ['attempts', `${count(r.done)} done, ${count(r.failed)} failed, ${count(r.full)} full`],
    ['hit ratio', share(r.cached_tokens, r.prompt_tokens)], ['prefill', `${r.ms_per_token.toFixed(3)} ms/token`],
    ['prefill ahead', `${count(r.front_tokens)} tokens`], ['utilisation', text(r.utilisation, '%')],
    ['trust in predicted matches', text(r.trust, '%')],
  ];
  if (r.transfers || r.held_tokens) facts.push(['KV not fetched', `${count(r.held_tokens)} tokens`]);
  if (region.siblings.length) facts.push(['in flight', `${count(r.outstanding)} from this gateway, ${count(r.of_siblings ?? 0)} from siblings`]);
  if (r.trouble) facts.unshift(['trouble', r.trouble]);
  return make('li', { class: 'details' }, make('dl', { class: 'facts' }, ...facts.map(fact)));
}

// The pools of a region whose replicas have roles.
function pools(region) {
  const all = (region.page?.status.pools ?? []).filter((pool) => pool.role !== 'both');
  return all.map((p) => make('span', { class: 'soft small' }, `${p.role} pool: ${p.up} up, ${p.needed} needed, KV ${text(p.kv_used, '%')}`));
}

// The other gateways of a region, which serve the same replicas.
function siblings(region) {
  return region.siblings.map((s) => make('span', { class: 'small', 'data-state': s.state }, make('span', { class: 'mark', 'aria-hidden': 'true' }), ` sibling gateway ${s.name}: ${s.state === 'good' ? 'up' : s.word}`));
}

function regionOf(region) {
  const buttons = source.order && region.own ? [
    button(region.alive ? 'kill' : 'revive', 'gateway', region.name, region.alive ? 'Kill gateway' : 'Revive gateway'),
    button('kill', 'region', region.name, 'Kill region'), button('revive', 'region', region.name, 'Revive region')] : [];
  buttons.forEach((b) => b.classList.remove('act'));
  const list = [];
  for (const t of region.tiles) {
    list.push(tile(region, t));
    if (opened === `${region.name}/${t.key}`) list.push(details(region, t));
  }
  const advice = (region.page?.status.advice ?? []).map((a) => make('p', { class: 'soft small' }, a));
  return make('div', { id: `tiles-${region.name}` },
    make('div', { class: 'region-head' }, make('h3', {}, region.alive ? region.name : `${region.name}: gateway dead`), ...buttons),
    make('p', { class: 'pools' }, ...siblings(region), ...pools(region)), ...advice, make('ul', { class: 'tiles' }, ...list));
}

export function tiles(fleet) {
  last = fleet;
  const body = document.querySelector('#replicas .body');
  const focus = body.contains(document.activeElement) ? document.activeElement : null;
  const key = focus && (focus.id ? `#${CSS.escape(focus.id)}` : `[data-order="${focus.dataset.order}"]`);
  body.replaceChildren(...fleet.regions.map(regionOf));
  // The elements are new ones; the focus stays where it was.
  if (key) body.querySelector(key)?.focus({ preventScroll: true });
}

addEventListener('keydown', (event) => {
  if (event.key !== 'Escape' || !opened) return;
  const id = opened;
  opened = null;
  tiles(last);
  document.getElementById(`tile-${id}`)?.focus();
});
