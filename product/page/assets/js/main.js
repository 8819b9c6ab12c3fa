// Follows the stream of states and draws each part of the page from the newest one.
import { $ } from './dom.js';
import { charts } from './charts.js';
import { decisions } from './decisions.js';
import { figures } from './figures.js';
import { foot, head, silence } from './head.js';
import { map } from './map.js';
import { picture } from './model.js';
import { orders, rules } from './rules.js';
import { saved } from './saved.js';
import { sides } from './sides.js';
import { tiles } from './tiles.js';
import * as source from './source.js';

const PARTS = [sides, figures, map, saved, charts, tiles, decisions, rules, orders];
let fleet = null;
let waiting = false;

function show() {
  waiting = false;
  if (!fleet || document.hidden) return;
  // Parts are drawn anew, and what is replaced while it is pressed gets no click.
  if (document.querySelector('a:active, button:active, summary:active')) { soon(); return; }
  head(fleet);
  foot(fleet);
  for (const part of PARTS) part(fleet);
}

function soon() {
  if (!waiting) { waiting = true; requestAnimationFrame(show); }
}

function follow() {
  const stream = new EventSource(source.STREAM);
  stream.onmessage = (event) => {
    fleet = picture(JSON.parse(event.data));
    soon();
  };
  // It tries again by itself, unless the server refused.
  stream.onerror = () => {
    if (stream.readyState !== EventSource.CLOSED) return;
    source.ended();
    setTimeout(follow, 3000);
  };
}

async function session() {
  const who = await source.session();
  if (who?.by !== 'browser') return;
  const button = $('log-out');
  button.hidden = false;
  button.addEventListener('click', source.logOut);
}

follow();
session();
setInterval(silence, 1000);
document.addEventListener('visibilitychange', show);
