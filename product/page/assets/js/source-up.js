// The page of `meridian up`: several gateways, and orders to break and repair the fleet.
export const KIND = 'up';
export const STREAM = '/stream';
export const RAW = [['state', '/state']];

export const explainAt = (region, id) => `/explain/${encodeURIComponent(region)}/${encodeURIComponent(id)}`;

export const session = async () => ({ by: 'anyone' });

export async function ended() {}

// Sends an order; returns why it was refused, or null.
export async function order(act, what, name) {
  const answer = await fetch('/orders', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ act, what, name }),
  });
  return answer.ok ? null : (await answer.json()).error.message;
}
