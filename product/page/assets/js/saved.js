// What the decisions of the last hour saved, against two other policies at the same moments.
import { make, width } from './dom.js';
import { count, parts, text } from './format.js';

// The gateways' comparisons together.
function total(fleet) {
  const all = fleet.regions.map((r) => r.page?.saved).filter(Boolean);
  const sum = (of) => all.reduce((n, s) => n + of(s), 0);
  const compared = sum((s) => s.compared);
  const mean = (of) => (compared ? sum((s) => of(s) * s.compared) / compared : null);
  return {
    compared, decided: sum((s) => s.decided), forwarded: sum((s) => s.forwarded), seconds: Math.max(0, ...all.map((s) => s.seconds)),
    picked: mean((s) => s.picked_ms), local: mean((s) => s.region_local_ms), robin: mean((s) => s.round_robin_ms),
    localGpu: sum((s) => s.region_local_gpu_s), robinGpu: sum((s) => s.round_robin_gpu_s),
  };
}

function bar(name, ms, most, series) {
  return [make('span', {}, name), make('span', { class: `meter ${series}` }, width(make('i'), ms / most)),
    make('span', {}, text(ms, 'ms'))];
}

export function saved(fleet) {
  const s = total(fleet);
  const body = document.querySelector('#saved .body');
  if (!s.compared) {
    body.replaceChildren(make('p', { class: 'soft' }, 'No decision of the last hour to compare.'), ...simulated(fleet));
    return;
  }
  const [open, focus] = [Boolean(body.querySelector('details')?.open), document.activeElement === body.querySelector('summary')];
  const [value, unit] = parts(Math.abs(s.robinGpu), 's');
  const most = Math.max(s.picked, s.local, s.robin) || 1;
  const more = s.robinGpu < 0 ? 'of prefill computed beyond round robin' : 'of prefill not computed, against round robin';
  body.replaceChildren(
    make('p', {}, make('span', { class: 'big' }, value, make('span', { class: 'unit' }, ` GPU ${unit}`)), ` ${more}`),
    make('p', { class: 'soft' }, `${text(Math.abs(s.localGpu), 's')} ${s.localGpu < 0 ? 'more' : 'less'} prefill than at the best replica of the own region`),
    make('h3', { class: 'gap' }, 'First token, predicted mean'),
    make('div', { class: 'rows' }, ...bar('as decided', s.picked, most, 's1'), ...bar('region-local', s.local, most, 'muted'), ...bar('round robin', s.robin, most, 'muted')),
    ...simulated(fleet),
    make('details', { class: 'small gap', open }, make('summary', {}, `${count(s.compared)} of ${count(s.decided)} decisions compared, ${count(s.forwarded)} of them forwards`),
      make('p', { class: 'soft' }, `Each decision of the last ${text(s.seconds, 's')} beside the best replica of its own region and the mean of all that its rules permit, at the load and the caches of that moment. One step only: other choices would have led to other caches and queues. The policy also counts the delay of other requests, so its first tokens can be later than those of region-local.`)));
  if (focus) body.querySelector('summary').focus({ preventScroll: true });
}

// In `meridian up`: the clients of this run, and the same ones simulated in another topology.
function simulated(fleet) {
  if (!fleet.beside) return [];
  const line = (name, f) => make('tr', {}, make('td', {}, name), make('td', {}, text(f.ttft_p50_ms, 'ms')), make('td', {}, text(f.ttft_p99_ms, 'ms')), make('td', {}, text(f.prefix_hit_ratio, '%')));
  const heads = ['TTFT at the clients', 'p50', 'p99', 'hits'].map((h) => make('th', { scope: 'col' }, h));
  const own = fleet.regions.map((r, n) => [r, fleet.beside.regions[n]]).filter(([r]) => r.clients?.ttft_ms);
  const lines = own.flatMap(([r, other]) => {
    const { p50, p99 } = r.clients.ttft_ms;
    const replicas = r.page?.status.replicas ?? [];
    const sum = (of) => replicas.reduce((n, x) => n + of(x), 0);
    const hits = sum((x) => x.prompt_tokens) ? sum((x) => x.cached_tokens) / sum((x) => x.prompt_tokens) : null;
    return [line(r.name, { ttft_p50_ms: p50, ttft_p99_ms: p99, prefix_hit_ratio: hits }), other ? line(`${r.name}, simulated`, other) : null];
  });
  return [make('table', { class: 'small gap', id: 'beside' }, make('thead', {}, make('tr', {}, ...heads)), make('tbody', {}, ...lines.filter(Boolean))),
    make('p', { class: 'soft small' }, `Simulated: ${fleet.beside.name.replace(', simulated', '')}, with the same clients and rules, until this second.`)];
}
