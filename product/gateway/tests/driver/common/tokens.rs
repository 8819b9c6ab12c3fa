//! Signs tokens as an identity provider does. The gateway's unit tests use this file, too.

use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};

/// A key of an issuer.
pub(crate) struct Signer {
    id: &'static str,
    pair: Pair,
}

enum Pair {
    Rsa(RsaKeyPair),
    P256(EcdsaKeyPair),
}

impl Signer {
    /// Signs with RS256. Its key is always the same.
    pub(crate) fn rsa(id: &'static str) -> Signer {
        let key = PrivatePkcs8KeyDer::from_pem_slice(include_bytes!("rsa-for-tests.pem")).unwrap();
        let pair = RsaKeyPair::from_pkcs8(key.secret_pkcs8_der()).unwrap();
        Signer { id, pair: Pair::Rsa(pair) }
    }

    /// Signs with ES256. Its key is new.
    pub(crate) fn p256(id: &'static str) -> Signer {
        let (random, form) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
        let key = EcdsaKeyPair::generate_pkcs8(form, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(form, key.as_ref(), &random).unwrap();
        Signer { id, pair: Pair::P256(pair) }
    }

    /// The public key as a JWKS has it.
    pub(crate) fn jwk(&self) -> Value {
        match &self.pair {
            Pair::Rsa(pair) => {
                let public = PublicKeyComponents::<Vec<u8>>::from(pair.public());
                let (n, e) = (base64(&public.n), base64(&public.e));
                json!({"kty": "RSA", "kid": self.id, "alg": "RS256", "use": "sig", "n": n, "e": e})
            }
            Pair::P256(pair) => {
                let point = pair.public_key().as_ref();
                let (x, y) = (base64(&point[1..33]), base64(&point[33..]));
                json!({"kty": "EC", "kid": self.id, "crv": "P-256", "x": x, "y": y})
            }
        }
    }

    pub(crate) fn sign(&self, claims: &Value) -> String {
        let algorithm = match self.pair {
            Pair::Rsa(_) => "RS256",
            Pair::P256(_) => "ES256",
        };
        self.sign_as(&json!({"typ": "JWT", "alg": algorithm, "kid": self.id}), claims)
    }

    /// Signs whatever the header says.
    pub(crate) fn sign_as(&self, header: &Value, claims: &Value) -> String {
        let message = unsigned(header, claims);
        let random = SystemRandom::new();
        let signature = match &self.pair {
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                let bytes = message.as_bytes();
                pair.sign(&RSA_PKCS1_SHA256, &random, bytes, &mut signature).unwrap();
                signature
            }
            Pair::P256(pair) => pair.sign(&random, message.as_bytes()).unwrap().as_ref().to_vec(),
        };
        format!("{message}.{}", base64(&signature))
    }
}

/// A token without its signature.
pub(crate) fn unsigned(header: &Value, claims: &Value) -> String {
    format!("{}.{}", base64(header.to_string().as_bytes()), base64(claims.to_string().as_bytes()))
}

/// Base64 for URLs, without padding (RFC 4648, section 5).
pub(crate) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let at = |i: usize| u32::from(three.get(i).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for i in 0..=three.len() {
            let digit = (bits >> (18 - 6 * i)) & 63;
            text.push(char::from(DIGITS[digit as usize]));
        }
    }
    text
}
