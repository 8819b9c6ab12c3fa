//! The shadow policy in a configuration (`shadow`), beside the policy in force.

use super::policy::resolve_as;
use meridian_routing::policy::{Params, Spec};
use meridian_routing::{Admission, ShadowConfig};

use super::Gateway;

impl Gateway {
    /// The shadow policy beside this policy, which need not be that of the file.
    ///
    /// # Errors
    /// Every problem of its name and its parameters, each with its remedy. A prompt is read once, so
    /// both have to read it in the same way.
    pub fn shadow_beside(
        &self,
        policy: &Spec,
        params: &Params,
    ) -> Result<Option<ShadowConfig>, Vec<String>> {
        let Some(shadow) = &self.shadow else { return Ok(None) };
        let (spec, given) = resolve_as(shadow, "shadow")?;
        let pieces = |spec: &Spec, params: &Params| {
            let blocks = (spec.index)(params).map_or(0, |index| index.block_bytes);
            [("blocks", blocks), ("a head", (spec.head_bytes)(params))]
        };
        for ((what, own), (_, other)) in
            pieces(policy, params).into_iter().zip(pieces(spec, &given))
        {
            if own > 0 && other > 0 && own != other {
                return Err(vec![format!(
                    "shadow: `{}` reads prompts in {what} of {other} bytes, and `{}` in {what} of {own}; use \
                     a policy or a parameter with {own}",
                    spec.name, policy.name
                )]);
            }
        }
        let mode = self.admission.map(Admission::from);
        let admission = mode.unwrap_or(spec.admission);
        Ok(Some(ShadowConfig { policy: spec, params: given, admission }))
    }
}

#[cfg(test)]
mod tests {
    use crate::Gateway;

    fn problems(lines: &str) -> String {
        Gateway::read(&format!("version: 1\n{lines}")).unwrap_err().to_string()
    }

    // A shadow is read as a policy is, with its own parameters and its own mode of admission.
    #[test]
    fn a_shadow() {
        let config = Gateway::read("version: 1\nshadow: {name: chwbl, load_factor: 2}\n").unwrap();
        let routing = config.routing().unwrap();
        let shadow = routing.shadow.unwrap();
        assert_eq!((routing.policy.name, shadow.policy.name), ("meridian", "chwbl"));
        assert_eq!(shadow.params.number("load_factor"), Some(2.0));
        assert_eq!((routing.admission.name(), shadow.admission.name()), ("pending_kv", "blind"));
        assert!(Gateway::read("version: 1\n").unwrap().routing().unwrap().shadow.is_none());
    }

    // Each problem names the key, the value and the remedy.
    #[test]
    fn what_is_wrong() {
        for (lines, said) in [
            (
                "shadow: round_robbin",
                "shadow: `round_robbin` is unknown; did you mean `round_robin`?",
            ),
            ("shadow: {name: chwbl, load: 2}", "shadow.load: `chwbl` has no such parameter"),
            ("shadow: {name: chwbl, load_factor: -1}", "shadow.load_factor: -1 is out of range"),
            (
                "policy: chwbl\nshadow: {name: chwbl, head_bytes: 200}",
                "`chwbl` reads prompts in a head of 200 bytes, and `chwbl` in a head of 100",
            ),
        ] {
            assert!(problems(lines).contains(said), "{}", problems(lines));
        }
        let fits = "version: 1\npolicy: round_robin\nshadow: {name: chwbl, head_bytes: 200}\n";
        assert!(Gateway::read(fits).is_ok());
        let fits = "version: 1\npolicy: chwbl\nshadow: {name: chwbl, load_factor: 2}\n";
        assert!(Gateway::read(fits).is_ok());
    }
}
