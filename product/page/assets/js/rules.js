// The audit of residency rules, and in `meridian up` the links and the orders so far.
import { $, make } from './dom.js';
import { count } from './format.js';
import * as source from './source.js';

function table(regions) {
  const heads = ['rule', 'gateway', 'served there', 'forwarded', 'refused'];
  const lines = regions.flatMap((region) => region.page.status.residency.rules.map((rule) => make('tr', {},
    make('td', {}, rule.rule), make('td', {}, region.name), make('td', {}, count(rule.served)), make('td', {}, count(rule.sent)), make('td', {}, count(rule.refused)))));
  return make('table', {}, make('caption', { class: 'unseen' }, 'Requests that a residency rule names'),
    make('thead', {}, make('tr', {}, ...heads.map((h) => make('th', { scope: 'col' }, h)))), make('tbody', {}, ...lines));
}

export function rules(fleet) {
  const regions = fleet.regions.filter((r) => r.page?.status.residency);
  $('rules').hidden = !regions.length;
  if (!regions.length) return;
  const broken = regions.reduce((n, r) => n + r.page.status.residency.breaches, 0);
  const verdict = make('p', { 'data-state': broken ? 'bad' : 'good' }, make('span', { class: 'mark', 'aria-hidden': 'true' }),
    broken ? ` ${count(broken)} answers came from a forbidden place` : ' No answer came from a forbidden place');
  document.querySelector('#rules .body').replaceChildren(verdict, table(regions));
}

export function orders(fleet) {
  $('orders').hidden = !fleet.orders;
  if (!fleet.orders) return;
  const body = document.querySelector('#orders .body');
  const focus = body.contains(document.activeElement) ? document.activeElement.dataset.order : null;
  const links = fleet.links.filter((l) => l.from < l.to).map((l) => {
    const act = l.state === 'up' ? 'kill' : 'revive';
    return make('button', { type: 'button', 'data-order': `${act} link ${l.from}/${l.to}`,
      on: { click: () => source.order(act, 'link', `${l.from}/${l.to}`) } }, `${act === 'kill' ? 'Kill' : 'Revive'} link ${l.from}–${l.to}`);
  });
  const log = fleet.orders.map((o) => make('li', {}, o));
  body.replaceChildren(make('div', { class: 'chips' }, ...links), log.length ? make('ol', { class: 'log soft' }, ...log) : make('p', { class: 'soft' }, 'Nothing was broken yet. The tiles and the regions have buttons, too.'));
  if (focus) body.querySelector(`[data-order="${focus}"]`)?.focus({ preventScroll: true });
}
