//! Signatures of tokens, verified by ring, which the gateway's TLS uses anyway. `jsonwebtoken`
//! leaves the choice of a cryptographic library to the program.
//!
//! Nothing here signs, and shared secrets (HS256 and the like) are not supported: a key only fits
//! the algorithms of its own family.

use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result};
use jsonwebtoken::signature::{self, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use ring::signature as of;
use ring::signature::{RsaPublicKeyComponents, UnparsedPublicKey};

static RING: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(ErrorKind::UnsupportedAlgorithm.into()),
    verifier_factory: |algorithm, key| Ok(Box::new(OneKey::new(*algorithm, key)?)),
    key_utils: KeyUtils::new_unimplemented(),
};

/// Makes ring verify the signatures of tokens in this process.
pub(super) fn install() {
    // Fails if it is installed already.
    let _ = RING.install_default();
}

/// Verifies signatures of one algorithm by one public key.
struct OneKey {
    algorithm: Algorithm,
    scheme: Scheme,
    key: DecodingKey,
}

#[derive(Clone, Copy)]
enum Scheme {
    Rsa(&'static of::RsaParameters),
    Curve(&'static dyn of::VerificationAlgorithm),
}

impl OneKey {
    fn new(algorithm: Algorithm, key: &DecodingKey) -> Result<OneKey> {
        let scheme = scheme(algorithm).filter(|_| key.family() == algorithm.family());
        let scheme = scheme.ok_or(ErrorKind::InvalidAlgorithm)?;
        Ok(OneKey { algorithm, scheme, key: key.clone() })
    }
}

fn scheme(algorithm: Algorithm) -> Option<Scheme> {
    Some(match algorithm {
        Algorithm::RS256 => Scheme::Rsa(&of::RSA_PKCS1_2048_8192_SHA256),
        Algorithm::RS384 => Scheme::Rsa(&of::RSA_PKCS1_2048_8192_SHA384),
        Algorithm::RS512 => Scheme::Rsa(&of::RSA_PKCS1_2048_8192_SHA512),
        Algorithm::PS256 => Scheme::Rsa(&of::RSA_PSS_2048_8192_SHA256),
        Algorithm::PS384 => Scheme::Rsa(&of::RSA_PSS_2048_8192_SHA384),
        Algorithm::PS512 => Scheme::Rsa(&of::RSA_PSS_2048_8192_SHA512),
        Algorithm::ES256 => Scheme::Curve(&of::ECDSA_P256_SHA256_FIXED),
        Algorithm::ES384 => Scheme::Curve(&of::ECDSA_P384_SHA384_FIXED),
        Algorithm::EdDSA => Scheme::Curve(&of::ED25519),
        _ => return None,
    })
}

impl Verifier<Vec<u8>> for OneKey {
    fn verify(
        &self,
        message: &[u8],
        signature: &Vec<u8>,
    ) -> std::result::Result<(), signature::Error> {
        let verified = match (self.scheme, self.key.kind()) {
            (Scheme::Rsa(parameters), DecodingKeyKind::RsaModulusExponent { n, e }) => {
                let key = RsaPublicKeyComponents { n: number(n), e: number(e) };
                key.verify(parameters, message, signature)
            }
            (Scheme::Curve(curve), DecodingKeyKind::SecretOrDer(point)) => {
                UnparsedPublicKey::new(curve, point).verify(message, signature)
            }
            _ => Err(ring::error::Unspecified),
        };
        verified.map_err(|_| signature::Error::new())
    }
}

/// Some issuers write a number with a zero in front, which ring refuses.
fn number(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    &bytes[zeros..]
}

impl JwtVerifier for OneKey {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

#[cfg(test)]
mod tests {
    use ring::rand::SystemRandom;
    use ring::rsa::PublicKeyComponents;
    use ring::signature::{EcdsaKeyPair, Ed25519KeyPair, KeyPair, RsaKeyPair};
    use rustls::pki_types::PrivatePkcs8KeyDer;
    use rustls::pki_types::pem::PemObject;

    use super::*;

    const MESSAGE: &[u8] = b"header.claims";
    const RSA: [(Algorithm, &dyn of::RsaEncoding); 6] = [
        (Algorithm::RS256, &of::RSA_PKCS1_SHA256),
        (Algorithm::RS384, &of::RSA_PKCS1_SHA384),
        (Algorithm::RS512, &of::RSA_PKCS1_SHA512),
        (Algorithm::PS256, &of::RSA_PSS_SHA256),
        (Algorithm::PS384, &of::RSA_PSS_SHA384),
        (Algorithm::PS512, &of::RSA_PSS_SHA512),
    ];

    /// Signatures of the message by new keys, each with its algorithm and key.
    fn signed() -> Vec<(Algorithm, DecodingKey, Vec<u8>)> {
        let (random, mut all) = (SystemRandom::new(), Vec::new());
        let pem = include_bytes!("../../../tests/driver/common/rsa-for-tests.pem");
        let key = PrivatePkcs8KeyDer::from_pem_slice(pem).unwrap();
        let pair = RsaKeyPair::from_pkcs8(key.secret_pkcs8_der()).unwrap();
        let public = PublicKeyComponents::<Vec<u8>>::from(pair.public());
        // With a zero in front, as some issuers write it.
        let n = [&[0], public.n.as_slice()].concat();
        for (algorithm, padding) in RSA {
            let mut signature = vec![0; pair.public().modulus_len()];
            pair.sign(padding, &random, MESSAGE, &mut signature).unwrap();
            all.push((algorithm, DecodingKey::from_rsa_raw_components(&n, &public.e), signature));
        }
        for (algorithm, form) in [
            (Algorithm::ES256, &of::ECDSA_P256_SHA256_FIXED_SIGNING),
            (Algorithm::ES384, &of::ECDSA_P384_SHA384_FIXED_SIGNING),
        ] {
            let key = EcdsaKeyPair::generate_pkcs8(form, &random).unwrap();
            let pair = EcdsaKeyPair::from_pkcs8(form, key.as_ref(), &random).unwrap();
            let signature = pair.sign(&random, MESSAGE).unwrap();
            let public = DecodingKey::from_ec_der(pair.public_key().as_ref());
            all.push((algorithm, public, signature.as_ref().to_vec()));
        }
        let key = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
        let pair = Ed25519KeyPair::from_pkcs8(key.as_ref()).unwrap();
        let public = DecodingKey::from_ed_der(pair.public_key().as_ref());
        all.push((Algorithm::EdDSA, public, pair.sign(MESSAGE).as_ref().to_vec()));
        all
    }

    // Each algorithm verifies its own signatures and no others, whatever the family of the key.
    #[test]
    fn algorithms_verify_their_own() {
        let signed = signed();
        for (algorithm, key, _) in &signed {
            for (other, _, signature) in &signed {
                let verifier = OneKey::new(*algorithm, key).unwrap();
                let verified = verifier.verify(MESSAGE, signature).is_ok();
                assert_eq!(verified, algorithm == other, "{algorithm:?} {other:?}");
                assert!(verifier.verify(b"header.other", signature).is_err());
            }
        }
        let secret = DecodingKey::from_secret(b"secret");
        for algorithm in [Algorithm::HS256, Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA] {
            assert!(OneKey::new(algorithm, &secret).is_err());
        }
        let (_, rsa, _) = &signed[0];
        assert!(OneKey::new(Algorithm::ES256, rsa).is_err());
    }
}
