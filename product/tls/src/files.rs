//! The files of one side of a TLS connection: trusted CAs, revocation lists, certificate and key.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};

use rustls::RootCertStore;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::revoked::{self, Lists, Revoked};

/// Paths of the files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// The section of the configuration that names them, for error messages.
    pub section: Cow<'static, str>,
    /// Certificates of the trusted CAs. None if this side asks for no client certificate.
    pub ca: Option<PathBuf>,
    /// Revocation lists of those CAs, if any.
    pub crl: Option<PathBuf>,
    /// The certificate, followed by its intermediates.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// The contents of the files.
pub struct Material {
    pub(crate) roots: Option<RootCertStore>,
    pub(crate) authorities: Vec<CertificateDer<'static>>,
    pub(crate) lists: Lists,
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
}

/// Keeps the key out of logs.
impl fmt::Debug for Material {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Material").field("certificates", &self.chain.len()).finish_non_exhaustive()
    }
}

/// A file that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{section}.{field}: {}: {problem}; {remedy}", path.display())]
pub struct FileError {
    /// The section of the configuration.
    pub section: Cow<'static, str>,
    /// Its field.
    pub field: &'static str,
    /// The file.
    pub path: PathBuf,
    /// The problem.
    pub problem: String,
    /// The remedy.
    pub remedy: &'static str,
}

impl Files {
    /// Paths of all files.
    #[must_use]
    pub fn paths(&self) -> Vec<&Path> {
        let trusted = self.ca.iter().chain(&self.crl).map(PathBuf::as_path);
        trusted.chain([self.certificate.as_path(), self.key.as_path()]).collect()
    }

    /// An error about one of the files.
    #[must_use]
    pub fn error(&self, field: &'static str, problem: impl fmt::Display) -> FileError {
        let path = match (field, &self.ca, &self.crl) {
            ("ca", Some(ca), _) => ca,
            ("crl", _, Some(crl)) => crl,
            ("key", ..) => &self.key,
            _ => &self.certificate,
        };
        FileError {
            section: self.section.clone(),
            field,
            path: path.clone(),
            problem: problem.to_string(),
            remedy: "check the path, or make it with `meridian certs`",
        }
    }

    /// Reads the files.
    ///
    /// # Errors
    /// Names the file that is missing or invalid.
    pub fn read(&self) -> Result<Material, FileError> {
        let (mut roots, mut authorities) = (None, Vec::new());
        if let Some(ca) = &self.ca {
            authorities = certificates(ca).map_err(|problem| self.error("ca", problem))?;
            let roots = roots.insert(RootCertStore::empty());
            for root in &authorities {
                roots.add(root.clone()).map_err(|error| self.error("ca", error))?;
            }
            assert_eq!(roots.len(), authorities.len(), "each authority of the file is trusted");
        }
        let lists = self.crl.as_ref().map(|crl| revoked::read(crl, &authorities)).transpose();
        let lists = lists.map_err(|problem| self.error("crl", problem))?.unwrap_or_default();
        let chain = certificates(&self.certificate);
        let chain = chain.map_err(|problem| self.error("certificate", problem))?;
        let key = pem_bytes(&self.key).map_err(|problem| self.error("key", problem))?;
        let key = PrivateKeyDer::from_pem_slice(&key);
        let key = key.map_err(|error| self.error("key", plain(&error, "private key")))?;
        assert!(!chain.is_empty(), "a file without a certificate was refused");
        Ok(Material { roots, authorities, lists, chain, key })
    }

    /// An error for each file that does not exist. [`Files::read`] reports the first only.
    #[must_use]
    pub fn missing(&self) -> Vec<FileError> {
        let named = [
            ("ca", self.ca.as_ref()),
            ("crl", self.crl.as_ref()),
            ("certificate", Some(&self.certificate)),
            ("key", Some(&self.key)),
        ];
        let gone = |path: &&PathBuf| !path.as_os_str().is_empty() && !path.exists();
        let fields = named.into_iter().filter(|(_, path)| path.as_ref().is_some_and(gone));
        fields.map(|(field, _)| self.error(field, NO_FILE)).collect()
    }
}

/// The problem of a file that does not exist.
const NO_FILE: &str = "there is no such file";

/// The bytes of a PEM file.
pub(crate) fn pem_bytes(path: &Path) -> Result<Vec<u8>, String> {
    meridian_files::read(path, meridian_files::MOST).map_err(|error| error.to_string())
}

/// An error about a PEM file that should contain a `what`.
pub(crate) fn plain(error: &pem::Error, what: &str) -> String {
    match error {
        pem::Error::NoItemsFound => format!("contains no {what}"),
        _ => "is not a valid PEM file".to_owned(),
    }
}

impl Material {
    /// The leaf certificate, without its intermediates.
    #[must_use]
    pub fn certificate(&self) -> Option<&CertificateDer<'static>> {
        self.chain.first()
    }

    /// The certificates that the revocation lists name.
    #[must_use]
    pub fn revoked(&self) -> &Revoked {
        &self.lists.revoked
    }
}

pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let unread = |error: pem::Error| plain(&error, "certificate");
    let bytes = pem_bytes(path)?;
    let all: Vec<_> =
        CertificateDer::pem_slice_iter(&bytes).collect::<Result<_, _>>().map_err(unread)?;
    if all.is_empty() { Err("contains no certificate".to_owned()) } else { Ok(all) }
}
