// Exchanges a token for a session, then opens the page.
const at = (id) => document.getElementById(id);
const button = document.querySelector('#log-in button');

at('log-in').addEventListener('submit', async (event) => {
  event.preventDefault();
  const token = at('token').value;
  at('token').value = '';
  at('said').textContent = '';
  at('said').textContent = await problem(token);
  at('token').focus();
});
button.disabled = false;

// Why the token was refused; nothing once the page opens.
async function problem(token) {
  try {
    const answer = await fetch('/login', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ token }),
    });
    if (!answer.ok) return (await answer.json()).error.message;
    location.replace('/');
    return '';
  } catch {
    return 'the gateway does not answer; is it running?';
  }
}
