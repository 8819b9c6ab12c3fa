//! API keys in files to import; only their hashes are printed.

use meridian_config::KeyHash;

/// An API key for clients in another program's file.
pub(super) enum Key {
    /// The key itself.
    Text(String),
    /// The environment variable that contains the key.
    Variable(String),
}

/// The shortest key that is hashed. A shorter one could be found from its hash by trial.
const LEAST: usize = 20;
const MOST: usize = 1024;

impl Key {
    /// Its hash, as `tenants[].keys` takes it.
    ///
    /// # Errors
    /// The reason why there is no hash, without the key.
    pub(super) fn hash(&self) -> Result<String, String> {
        let key = match self {
            Key::Text(text) => text.clone(),
            Key::Variable(name) => std::env::var(name)
                .map_err(|_| format!("the environment variable {name} is not set here"))?,
        };
        if key.len() < LEAST {
            return Err(format!(
                "the key has under {LEAST} characters, so its hash could be guessed"
            ));
        }
        if key.len() > MOST || !key.bytes().all(|b| b.is_ascii_graphic()) {
            return Err("the key has spaces, is not ASCII, or is too long for a header".to_owned());
        }
        Ok(KeyHash::of(key.as_bytes()).to_string())
    }
}
