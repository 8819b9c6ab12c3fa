// A gateway's admin port.
export const KIND = 'gateway';
export const STREAM = '/admin/page/stream';
export const RAW = [['status', '/admin/status'], ['decisions', '/admin/decisions'], ['configuration', '/admin/config'], ['metrics', '/metrics']];

export const explainAt = (_region, id) => `/admin/explain/${encodeURIComponent(id)}`;

// Who is logged in; null if the session has ended.
export async function session() {
  const answer = await fetch('/admin/session');
  return answer.ok ? answer.json() : null;
}

export async function logOut() {
  await fetch('/logout', { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' });
  location.replace('/login');
}

// Why the stream ended: perhaps the session.
export async function ended() {
  if (await session().catch(() => 'unreachable') === null) location.replace('/login');
}
