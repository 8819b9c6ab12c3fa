'use strict';
const at = (id) => document.getElementById(id);

function show(session) {
  at('log-in').hidden = session !== null;
  at('inside').hidden = session === null;
  at('log-out').hidden = session === null || session.by !== 'browser';
  at('said').textContent = '';
}

async function refresh() {
  const answer = await fetch('/admin/session');
  show(answer.ok ? await answer.json() : null);
}

async function post(path, body) {
  const answer = await fetch(path, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  if (answer.ok) return refresh();
  const said = await answer.json();
  at('said').textContent = said.error.message;
}

at('log-in').addEventListener('submit', (event) => {
  event.preventDefault();
  const token = at('token').value;
  at('token').value = '';
  post('/login', { token });
});
at('log-out').addEventListener('click', () => post('/logout', {}));
refresh();
