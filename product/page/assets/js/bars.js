// The candidates of a decision as stacked bars of their terms, the picked one first.
import { make } from './dom.js';
import { count, text } from './format.js';

const WORDS = {
  front_ms: 'prefill ahead', prefill_ms: 'own prefill', others_ms: 'delay of others', steps_ms: 'slower steps',
  rtt_ms: 'round trip', kv_ms: 'KV transfer', load_ms: 'adapter load',
};
const MOST = 40;

// The colour of a term is the same in every decision; terms of other policies take the next ones.
const SERIES = ['front_ms', 'prefill_ms', 'others_ms', 'steps_ms', 'rtt_ms', 'kv_ms'];
const series = (names, name) => ((SERIES.includes(name) ? SERIES.indexOf(name) : names.indexOf(name)) % 6) + 1;

const word = (name) => WORDS[name] ?? name.replace(/_ms$/, '').replace(/_/g, ' ');
const sum = (terms) => terms.reduce((n, [, value]) => n + value, 0);

// Segments of one bar: what adds to the price goes right from the zero line, what lowers it goes left.
function stack(terms, names, scale, label) {
  const bar = make('div', { class: 'stack', role: 'img', 'aria-label': label });
  let [right, left] = [scale.zero, scale.zero];
  for (const [name, value] of terms) {
    const size = Math.abs(value) * scale.unit;
    if (!(size > 0)) continue;
    const piece = make('i', { class: `s${series(names, name)}${value < 0 ? ' minus' : ''}`, title: `${word(name)}: ${text(value, unitOf(name))}` });
    if (value < 0) left -= size;
    piece.style.left = `${100 * (value < 0 ? left : right)}%`;
    piece.style.width = `${100 * size}%`;
    if (value >= 0) right += size;
    bar.append(piece);
  }
  const zero = make('span', { class: 'zero stack-zero' });
  zero.style.left = `${100 * scale.zero}%`;
  zero.style.position = 'absolute';
  bar.append(zero);
  return bar;
}

const unitOf = (name) => (name.endsWith('_ms') ? 'ms' : '');

function scaleOf(all) {
  const side = (sign) => Math.max(0, ...all.map((c) => c.terms.reduce((n, [, v]) => n + Math.max(0, sign * v), 0)));
  const [plus, minus] = [side(1), side(-1)];
  const total = plus + minus || 1;
  return { zero: minus / total, unit: 1 / total };
}

function why(c, picked, prefill) {
  const parts = [];
  if (picked) parts.push('picked');
  if (prefill) parts.push('picked for the prefill');
  if (c.ineligible && !picked && !prefill) parts.push(c.ineligible.replace(/-/g, ' '));
  if (c.role !== 'both' && c.role) parts.push(c.role);
  parts.push(`${count(c.matched_tokens)} of ${count(c.prompt_tokens)} tokens cached`, `${c.running} running, ${c.pending} pending`);
  const theirs = c.of_siblings;
  if (theirs) parts.push(`from siblings: ${count(theirs.outstanding)} requests, ${count(theirs.front_tokens)} of ${count(c.front_tokens)} prefill tokens ahead`);
  return parts.join(' · ');
}

function line(c, e, names, scale, called) {
  const picked = c.url === e.picked;
  const prefill = c.url === e.prefill;
  const out = c.ineligible && !picked && !prefill;
  const total = c.terms.length ? text(sum(c.terms), c.terms.every(([n]) => n.endsWith('_ms')) ? 'ms' : '') : '–';
  const label = c.terms.map(([name, value]) => `${word(name)} ${text(value, unitOf(name))}`).join(', ') || 'the policy has no terms';
  const style = picked || prefill ? ' won' : out ? ' out' : '';
  return [
    make('span', { class: `name${style}` }, `${picked || prefill ? '✓ ' : ''}${called(c.url)}`),
    make('span', { class: `total${style}` }, total),
    make('div', { class: out ? 'out' : '', 'data-candidate': c.url }, stack(c.terms, names, scale, `${called(c.url)}: ${label}`)),
    make('span', { class: 'why' }, why(c, picked, prefill)),
  ];
}

function peerLine(p, picked) {
  const facts = [p.unavailable?.replace(/-/g, ' '), `${count(p.matched_tokens)} tokens sent there before`, `${text(p.rtt_ms, 'ms')} away`, `${count(p.held)} queued`, `${count(p.eligible)} replicas free`];
  return make('li', { class: picked ? 'won' : '' }, `${picked ? '✓ ' : ''}peer ${p.name}: ${facts.filter(Boolean).join(' · ')}`);
}

// The order of the bars: picked, then by price; those that could not be picked last.
function order(e) {
  const rank = (c) => (c.url === e.picked ? 0 : c.url === e.prefill ? 1 : c.ineligible ? 3 : 2);
  return [...e.candidates].sort((a, b) => rank(a) - rank(b) || sum(a.terms) - sum(b.terms));
}

export function bars(e, called) {
  const all = order(e);
  const names = [...new Set(all.flatMap((c) => c.terms.map(([name]) => name)))];
  const scale = scaleOf(all);
  // On a phone the bar has a line of its own.
  const narrow = matchMedia('(max-width: 600px)').matches;
  const lines = all.slice(0, MOST).flatMap((c) => {
    const [name, total, bar, note] = line(c, e, names, scale, called);
    return narrow ? [name, total, bar, note] : [name, bar, total, note];
  });
  const legend = names.map((name) => make('li', {}, make('i', { class: `swatch s${series(names, name)}` }), word(name)));
  const list = (peers) => (peers.length ? make('ul', { class: 'soft small' }, ...peers.map((p) => peerLine(p, p.name === e.picked))) : null);
  const peers = e.peers ?? [];
  return [
    // Peers have no terms here: their gateways decide. The picked one comes first.
    list(peers.filter((p) => p.name === e.picked)),
    make('ul', { class: 'legend', 'aria-label': 'Terms of the price' }, ...legend),
    make('div', { class: 'bars' }, ...lines),
    all.length > MOST ? make('p', { class: 'soft' }, `and ${all.length - MOST} more candidates: /admin/explain has all`) : null,
    list(peers.filter((p) => p.name !== e.picked)),
  ];
}
