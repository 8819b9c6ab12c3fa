// Exchanges a token for a session, then opens the page.
const at = (id) => document.getElementById(id);

at('log-in').addEventListener('submit', async (event) => {
  event.preventDefault();
  const token = at('token').value;
  at('token').value = '';
  at('said').textContent = '';
  const answer = await fetch('/login', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ token }),
  });
  if (answer.ok) return location.replace('/');
  at('said').textContent = (await answer.json()).error.message;
  at('token').focus();
});
