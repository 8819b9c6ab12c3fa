// One picture of a fleet, from the events of a gateway or of `meridian up`.
import { KIND } from './source.js';
import { host } from './format.js';

const HOUR = 3600;
// Rates of forwards are means over this many seconds.
const WINDOW = 10;

const points = new Map();
const sent = new Map();

// Keeps the last hour of a region.
function keep(region, fresh, now) {
  const own = points.get(region) ?? new Map();
  points.set(region, own);
  for (const point of fresh) own.set(point.at_s, point);
  for (const at of own.keys()) if (at < now - HOUR - WINDOW) own.delete(at);
  return [...own.values()].sort((a, b) => a.at_s - b.at_s);
}

// The growth of a counter a second, over the last seconds.
function rate(key, total, now) {
  const seen = sent.get(key) ?? [];
  sent.set(key, seen);
  if (seen.length && total < seen[seen.length - 1][1]) seen.length = 0;
  seen.push([now, total]);
  while (seen.length > 2 && seen[1][0] <= now - WINDOW) seen.shift();
  const [start, first] = seen[0];
  return now > start ? (total - first) / (now - start) : 0;
}

const STATES = { up: 'good', down: 'bad', dead: 'bad', unproven: 'warn', draining: 'idle' };

function tile(replica, process) {
  let word = replica?.state ?? 'unknown';
  if (process && !process.alive) word = 'dead';
  else if (word === 'up' && replica.breaker === 'open') word = 'breaker open';
  else if (word === 'up' && replica.breaker === 'half_open') word = 'on trial';
  return {
    key: process?.name ?? replica.name, name: process?.name ?? replica.name, word,
    state: STATES[word] ?? (word === 'unknown' ? 'idle' : 'warn'), process, replica, url: process?.url ?? replica.url,
    role: replica?.role && replica.role !== 'both' ? replica.role : null,
  };
}

// The other gateways of a region, which serve the same replicas, and those of other regions.
function gateways(status) {
  const all = (status?.peers ?? []).map((peer) => ({ ...peer, state: peer.state === 'up' ? 'good' : 'bad', word: peer.state }));
  return { siblings: all.filter((peer) => peer.sibling), others: all.filter((peer) => !peer.sibling) };
}

function flows(region, status, now, both) {
  const all = [];
  for (const peer of status?.peers ?? []) {
    if (peer.sibling) continue;
    const add = (from, to, total) => {
      const key = `${region}:${from}>${to}:${peer.name}`;
      all.push({ from, to, total, rate: rate(key, total, now) });
    };
    add(region, peer.region, peer.sent.begun);
    if (both) add(peer.region, region, peer.taken.begun);
  }
  return all;
}

// Gateways of one region together.
function merged(all) {
  const byPair = new Map();
  for (const flow of all) {
    const old = byPair.get(`${flow.from}>${flow.to}`);
    if (old) { old.total += flow.total; old.rate += flow.rate; } else byPair.set(`${flow.from}>${flow.to}`, { ...flow });
  }
  return [...byPair.values()];
}

const LEVELS = ['ok', 'degraded', 'down'];
const worst = (problems) => LEVELS[Math.max(0, ...problems.map((p) => LEVELS.indexOf(p.level)))];

function ofGateway({ state, points: fresh }) {
  const { status } = state;
  const { siblings, others } = gateways(status);
  const region = {
    name: status.region, page: state, points: keep(status.region, fresh, state.now_s), alive: true, siblings,
    tiles: status.replicas.map((replica) => tile(replica, null)), level: state.health.level,
  };
  const problems = state.health.problems.map((problem) => ({ ...problem, region: status.region }));
  return { regions: [region], others, problems, links: [], orders: null, beside: null, sides: [], build: state.build, now: state.now_s,
    flows: merged(flows(status.region, status, state.now_s, true)) };
}

// A gateway's problem with a process that is known to be dead is the same problem.
function isKnown(problem, region, dead) {
  const url = region.page.status.replicas.find((replica) => replica.name === problem.name)?.url;
  return problem.kind === 'replica' && url && dead.has(url);
}

function problemsOf(region, dead) {
  const own = [];
  if (region.own && !region.page) own.push({ level: 'degraded', region: region.name, text: `the gateway of ${region.name} is dead` });
  for (const t of region.tiles) if (t.word === 'dead') own.push({ level: 'degraded', region: region.name, text: `replica ${t.name} is dead` });
  if (region.own && region.tiles.length && region.tiles.every((t) => t.state === 'bad')) {
    own.unshift({ level: 'down', region: region.name, text: `no replica of ${region.name} works` });
  }
  for (const problem of region.page?.health.problems ?? []) {
    if (!isKnown(problem, region, dead)) own.push({ ...problem, region: region.name });
  }
  return own;
}

function ofUp(state) {
  const byUrl = new Map();
  for (const r of state.regions) for (const seen of r.page?.status.replicas ?? []) byUrl.set(seen.url, { seen, by: r.name });
  const dead = new Set(state.regions.flatMap((r) => r.replicas.filter((p) => !p.alive).map((p) => p.url)));
  const regions = state.regions.map((r) => {
    const tiles = r.replicas.map((process) => {
      const found = byUrl.get(process.url);
      return { ...tile(found?.seen ?? null, process), servedBy: found && found.by !== r.name ? found.by : null };
    });
    return { name: r.name, own: r.own_gateway, page: r.page, alive: !r.own_gateway || r.page !== null, clients: r.clients, siblings: gateways(r.page?.status).siblings,
      points: keep(r.name, r.points, state.now_s), tiles };
  });
  const problems = regions.flatMap((region) => {
    const own = problemsOf(region, dead);
    region.level = worst(own);
    return own;
  });
  for (const link of state.links.filter((l) => l.state !== 'up' && l.from < l.to)) {
    problems.push({ level: 'degraded', region: link.from, text: `the link ${link.from}–${link.to} is ${link.state}` });
  }
  return { regions, others: [], problems, links: state.links, orders: state.orders, beside: state.beside, sides: state.sides ?? [], elapsed: state.t_s,
    topology: state.topology, build: state.build, now: state.now_s,
    flows: merged(state.regions.flatMap((r) => flows(r.name, r.page?.status, state.now_s, false))) };
}

export function picture(event) {
  const fleet = KIND === 'up' ? ofUp(event) : ofGateway(event);
  const rank = { down: 0, degraded: 1, ok: 2 };
  fleet.problems.sort((a, b) => rank[a.level] - rank[b.level]);
  fleet.level = worst(fleet.problems);
  fleet.names = new Map();
  for (const region of fleet.regions) for (const t of region.tiles) fleet.names.set(t.url, t.name);
  fleet.called = (picked) => fleet.names.get(picked) ?? host(picked);
  return fleet;
}
