//! LoRA adapters that clients load and unload while the engine runs, as with vLLM's
//! `VLLM_ALLOW_RUNTIME_LORA_UPDATING`.
//!
//! An adapter is a name and a path that is not read. Its requests have the base model's times, and a
//! prefix cache of their own. The number of slots is only reported.
//!
//! Messages and checks: vLLM's `vllm/entrypoints/openai/models/serving.py`@00153c8b. A test compares
//! the answers with those of a real engine.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most adapters at once.
const MOST: usize = 1000;

/// A loaded adapter.
#[derive(Clone, Debug)]
pub(crate) struct Adapter {
    pub(crate) name: Arc<str>,
    pub(crate) path: String,
    /// When it was loaded: seconds since 1970.
    pub(crate) created: u64,
}

/// The loaded adapters, in the order of loading.
#[derive(Debug, Default)]
pub(crate) struct Adapters(Mutex<Vec<Adapter>>);

/// The body of a request to load one.
#[derive(Debug, Deserialize)]
pub(crate) struct ToLoad {
    lora_name: String,
    lora_path: String,
    #[serde(default)]
    load_inplace: bool,
}

/// The body of a request to unload one.
#[derive(Debug, Deserialize)]
pub(crate) struct ToUnload {
    lora_name: String,
}

/// Why an adapter was not loaded or unloaded, for the client.
#[derive(Debug)]
pub(crate) enum Refused {
    /// A 400 of vLLM's type `InvalidUserInput`.
    Input(String),
    /// A 404.
    Unknown(String),
    /// A 400 of vLLM's type `Bad Request`: the body lacks a member, or is no object.
    Body(String),
}

impl Adapters {
    /// Loads one beside the model `base`, at `created` seconds since 1970.
    pub(crate) fn load(&self, body: &[u8], base: &str, created: u64) -> Result<String, Refused> {
        let ToLoad { lora_name: name, lora_path: path, load_inplace } = read(body)?;
        if name.is_empty() || path.is_empty() {
            let message = "Both 'lora_name' and 'lora_path' must be provided.";
            return Err(Refused::Input(message.to_owned()));
        }
        if name == base {
            let message = format!("The lora adapter '{name}' conflicts with a served base model.");
            return Err(Refused::Input(message));
        }
        let mut all = self.lock();
        if let Some(there) = all.iter_mut().find(|adapter| *adapter.name == *name) {
            if !load_inplace {
                return Err(Refused::Input(format!(
                    "The lora adapter '{name}' has already been loaded. If you want to load the \
                     adapter in place, set 'load_inplace' to True."
                )));
            }
            there.path = path;
        } else if all.len() >= MOST {
            return Err(Refused::Input(format!(
                "{MOST} adapters are loaded, as many as this engine keeps: unload one first"
            )));
        } else {
            all.push(Adapter { name: Arc::from(&*name), path, created });
        }
        Ok(format!("Success: LoRA adapter '{name}' added successfully."))
    }

    pub(crate) fn unload(&self, body: &[u8]) -> Result<String, Refused> {
        let ToUnload { lora_name: name } = read(body)?;
        if name.is_empty() {
            let message = "'lora_name' needs to be provided to unload a LoRA adapter.";
            return Err(Refused::Input(message.to_owned()));
        }
        let mut all = self.lock();
        let Some(at) = all.iter().position(|adapter| *adapter.name == *name) else {
            return Err(Refused::Unknown(format!("The lora adapter '{name}' cannot be found.")));
        };
        all.remove(at);
        Ok(format!("Success: LoRA adapter '{name}' removed successfully."))
    }

    /// The adapter with a name.
    pub(crate) fn named(&self, name: &str) -> Option<Arc<str>> {
        let all = self.lock();
        all.iter().find(|adapter| *adapter.name == *name).map(|adapter| adapter.name.clone())
    }

    pub(crate) fn all(&self) -> Vec<Adapter> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Adapter>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refused> {
    serde_json::from_slice(body)
        .map_err(|error| Refused::Body(format!("1 validation error: {error}")))
}
