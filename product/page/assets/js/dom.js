// Makes elements. Text is always set as text and never as markup: names come from clients.
const SVG = 'http://www.w3.org/2000/svg';

export const $ = (id) => document.getElementById(id);

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === 'on') for (const [event, act] of Object.entries(value)) element.addEventListener(event, act);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

export const make = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);

export const draw = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

// Sets text only if it differs, so that screen readers repeat nothing.
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// A share of the width, 0 to 1. Set through the object model, which the page's policy permits.
export function width(element, share) {
  element.style.width = `${(100 * Math.min(1, Math.max(0, share))).toFixed(2)}%`;
  return element;
}

// The value of a colour in the present theme.
export function colour(name) {
  const probe = $('head');
  const before = probe.style.color;
  probe.style.color = `var(--${name})`;
  const value = getComputedStyle(probe).color;
  probe.style.color = before;
  return value;
}
