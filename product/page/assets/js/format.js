// Numbers with their units. A value that is not known is a dash.
const DASH = '–';
const known = (value) => value !== null && value !== undefined && Number.isFinite(value);

// Three significant digits, and no exponent, so that columns of numbers line up.
function digits(value) {
  const size = Math.abs(value);
  if (size >= 99.5 || size === 0) return Math.round(value).toLocaleString('en');
  return value.toFixed(size >= 9.95 ? 1 : size >= 0.995 ? 2 : 3);
}

const UNITS = {
  ms: (v) => (v >= 999.5 ? [digits(v / 1000), 's'] : [v >= 10 ? Math.round(v).toLocaleString('en') : digits(v), 'ms']),
  '%': (v) => [v >= 0.9995 || v === 0 ? Math.round(100 * v).toString() : (100 * v).toFixed(v >= 0.0995 ? 0 : 1), '%'],
  s: (v) => (v >= 5940 ? [digits(v / 3600), 'h'] : v >= 99.5 ? [digits(v / 60), 'min'] : [digits(v), 's']),
};

// The value and its unit, apart.
export function parts(value, unit) {
  if (!known(value)) return [DASH, ''];
  return UNITS[unit]?.(value) ?? [digits(value), unit];
}

export function text(value, unit = '') {
  const [number, shown] = parts(value, unit);
  return shown ? `${number} ${shown}` : number;
}

// A round number at an axis, as short as possible.
export function tick(value, unit) {
  const [number, shown] = parts(value, unit);
  const short = number.includes('.') ? number.replace(/\.?0+$/, '') : number;
  return unit === '/s' || !shown ? short : `${short} ${shown}`;
}

export const count = (value) => (known(value) ? Math.round(value).toLocaleString('en') : DASH);

export const share = (part, whole) => (whole > 0 ? text(part / whole, '%') : DASH);

// A long time in its two largest units.
export function duration(seconds) {
  const whole = Math.round(seconds);
  const [d, h, m] = [Math.floor(whole / 86400), Math.floor(whole / 3600) % 24, Math.floor(whole / 60) % 60];
  if (d) return `${d} d ${h} h`;
  if (h) return `${h} h ${m} min`;
  return m ? `${m} min ${whole % 60} s` : `${whole} s`;
}

export const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString('en-GB');

export const plural = (n, word) => `${count(n)} ${word}${n === 1 ? '' : 's'}`;

// The address without its scheme.
export const host = (url) => (url ?? '').replace(/^https?:\/\//, '').replace(/\/$/, '');
