// The newest decisions as a table. Each opens its explanation. While one is open, or the pointer or the
// focus is in the table, its rows stay where they are.
import { $, make, say } from './dom.js';
import { bars } from './bars.js';
import { clock, count, share, text } from './format.js';
import { explainAt } from './source.js';

const MOST = 12;
const HEADS = [['request', 'left'], ['at', 'at'], ['sent to', 'left'], ['why', 'left wide'], ['outcome', 'left outcome-of'], ['prompt', 'wide'],
  ['cached', 'wide'], ['first token', 'first'], ['total', 'wide']];
let opened = null;
let fleet = null;

const table = () => document.querySelector('table.decisions');
const keyOf = (d) => `${d.region}/${d.id}/${d.attempt}/${d.at_s}`;

function outcome(d) {
  if (!d.outcome) return d.picked ? 'in progress' : 'queued';
  const word = d.refusal ? `refused: ${d.refusal}` : d.outcome;
  return `${word.replace(/_/g, ' ')}${d.in_prefill ? ' in prefill' : ''}${d.retried ? ', retried' : ''}`;
}

const STATE = (d) => (['done', 'released', undefined, null].includes(d.outcome) ? null : d.outcome === 'client_error' || d.outcome === 'cancelled' ? 'idle' : 'bad');

function row(d) {
  const key = keyOf(d);
  const page = fleet.regions.find((r) => r.name === d.region)?.page;
  const at = page ? page.now_s - page.status.uptime_s + d.at_s : null;
  const cells = [
    make('button', { type: 'button', 'aria-expanded': String(opened?.key === key), 'data-decision': key,
      on: { click: () => (opened?.key === key ? close() : open(d)) } }, d.id),
    at ? clock(at) : '–',
    `${fleet.regions.length > 1 ? `${d.region} → ` : ''}${d.picked ? fleet.called(d.picked) : 'queue'}${d.prefill ? ` after ${fleet.called(d.prefill)}` : ''}`,
    `${d.reason}${d.rules?.length ? ` · rule ${d.rules.join(', ')}` : ''}`,
    make('span', { 'data-state': STATE(d) }, outcome(d)),
    `${count(d.prompt_tokens)} tokens`, share(Math.min(d.matched_tokens, d.prompt_tokens), d.prompt_tokens), text(d.first_token_ms, 'ms'), text(d.total_ms, 'ms'),
  ];
  const tr = make('tr', { 'data-key': key }, ...cells.map((cell, n) => make('td', { class: HEADS[n][1] }, cell)));
  if (opened?.key === key) tr.className = 'open';
  return tr;
}

async function open(d) {
  opened = { key: keyOf(d), decision: d, panel: make('tr', { class: 'open' }, make('td', { class: 'panel', colspan: HEADS.length }, 'Reading the explanation …')) };
  const mine = opened;
  rows([...table().tBodies[0].querySelectorAll('tr[data-key]')].map((tr) => tr.decision), true);
  const answer = await fetch(explainAt(d.region, d.id)).catch(() => null);
  if (opened !== mine) return;
  const cell = mine.panel.firstElementChild;
  if (!answer?.ok) { cell.textContent = 'The gateway no longer keeps this decision; explain_keep sets how many it keeps.'; return; }
  const e = await answer.json();
  if (opened === mine) cell.replaceChildren(...explanation(e, d));
}

// What the shadow policy would have done.
function shadowed(e) {
  const s = e.shadow;
  if (s.would === 'same') return 'the same';
  const first = s.predicted_first_token_ms === undefined ? '' : `, first token predicted after ${text(s.predicted_first_token_ms, 'ms')}`;
  return s.picked ? `${fleet.called(s.picked)} (${s.reason})${first}` : 'would queue it';
}

function explanation(e, d) {
  const picked = e.candidates.find((c) => c.url === e.picked);
  const predicted = e.predicted_first_token_ms;
  const facts = [
    e.picked ? `Sent to ${fleet.called(e.picked)} (${e.reason})` : e.reason, outcome(e),
    predicted === undefined ? null : `first token predicted after ${text(predicted, 'ms')}`,
    e.first_token_ms === undefined ? null : `measured after ${text(e.first_token_ms, 'ms')}`,
    e.total_ms === undefined ? null : `ended after ${text(e.total_ms, 'ms')}`,
  ];
  const notes = [`policy ${e.policy}`, `attempt ${e.attempt}`, picked ? `${count(picked.prompt_tokens)} prompt tokens` : null,
    e.rules?.length ? `rules ${e.rules.join(', ')}` : null, e.logged_as ? `${e.logged_as} in the log` : null,
    e.shadow ? `shadow ${e.shadow.policy}: ${shadowed(e)}` : null,
    e.attempt !== d.attempt ? `a later decision than the one in the table` : null];
  return [
    make('p', { class: 'outcome' }, make('strong', {}, facts.filter(Boolean).join('; '))),
    make('p', { class: 'soft small' }, notes.filter(Boolean).join(' · ')),
    ...bars(e, fleet.called).filter(Boolean),
  ];
}

function close() {
  const key = opened.key;
  opened = null;
  rows(newest(), false);
  (document.querySelector(`[data-decision="${CSS.escape(key)}"]`) ?? table().querySelector('button'))?.focus();
}

function newest() {
  const all = fleet.regions.flatMap((region) => (region.page?.decisions ?? []).map((d) => ({ ...d, region: region.name, age: region.page.status.uptime_s - d.at_s })));
  return all.sort((a, b) => a.age - b.age).slice(0, MOST);
}

function rows(all) {
  const body = table().tBodies[0];
  const made = all.flatMap((d) => {
    const tr = row(d);
    tr.decision = d;
    return opened?.key === keyOf(d) ? [tr, opened.panel] : [tr];
  });
  body.replaceChildren(...made);
  if (opened) body.querySelector('tr.open button')?.focus({ preventScroll: true });
}

function isHeld() {
  const body = table().tBodies[0];
  return opened !== null || body.matches(':hover') || body.contains(document.activeElement);
}

export function decisions(next) {
  fleet = next;
  const head = table().tHead;
  if (!head.rows.length) head.append(make('tr', {}, ...HEADS.map(([name, kind]) => make('th', { scope: 'col', class: kind }, name))));
  const held = isHeld() && table().tBodies[0].rows.length > 0;
  say($('decisions-note'), held ? 'Paused while the pointer, the focus or an open decision is in the table. Escape closes a decision.'
    : 'Open one to see every candidate. Escape closes it.');
  if (!held) rows(newest());
}

addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && opened) close();
});
